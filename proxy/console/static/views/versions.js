// SPDX-License-Identifier: Apache-2.0
// Old versions of objects, also of deleted ones: restore and remove them.

import { html, nothing } from "../vendor/lit-html.js";
import { PAGE, head, list, path, remove, request } from "../api.js";
import { download } from "../download.js";
import { baseName, route, sizeText, timeText } from "../names.js";
import { attempt, confirmAction, emptyTemplate, icon, refresh, say, trail } from "../page.js";

const DELETED = "application/x-deleted";

/** All versions in a bucket whose names begin with `prefix`. */
export class VersionsView {
  section = "buckets";
  rows = [];

  constructor(container, prefix = "") {
    this.container = container;
    this.prefix = prefix;
    this.title = `Versions in ${container}`;
  }

  async load() {
    this.isOn = (await head(this.container)).has("X-Versions-Enabled");
    this.rows = this.isOn ? await this.page({}) : [];
  }

  async page(marker) {
    const rows = await list(this.container, { versions: "", prefix: this.prefix, ...marker });
    this.hasMore = rows.length === PAGE;
    return rows;
  }

  async loadMore() {
    const { name, version_id: id } = this.rows.at(-1);
    this.rows = [...this.rows, ...(await this.page({ marker: name, version_marker: id }))];
    refresh();
  }

  template() {
    return html`
      ${trail([
        ["Buckets", "#/"],
        [this.container, route("bucket", this.container)],
        ["Versions", null],
      ])}
      <div class="title"><h1>Versions</h1></div>
      ${this.prefix
        ? html`<p class="fine">Of names that begin with “<bdi>${this.prefix}</bdi>”.</p>`
        : nothing}
      ${this.isOn ? this.listing() : this.off()}
    `;
  }

  off() {
    return html`${emptyTemplate(
        "history",
        "No versions here",
        "This bucket keeps no old versions. The settings of the bucket can change that.",
      )}
      <p class="centre">
        <a class="button" href=${route("settings", this.container)}>${icon("gear")}Settings</a>
      </p>`;
  }

  listing() {
    if (!this.rows.length) {
      return emptyTemplate("history", "No versions yet", "Each upload adds one from now on.");
    }
    return html`${versionsTable(this.container, this.rows, true)}
      ${this.hasMore
        ? html`<button class="more" @click=${() => attempt(() => this.loadMore())}>
            Show more
          </button>`
        : nothing}`;
  }
}

/** Versions as a table; with their names if they are those of several objects. */
export function versionsTable(container, rows, hasNames) {
  return html`<table>
    <thead>
      <tr>
        ${hasNames ? html`<th scope="col">Name</th>` : nothing}
        <th scope="col">Written</th>
        <th scope="col" class="number">Size</th>
        <th scope="col" class="wide-only">Version</th>
        <th scope="col"><span class="hidden">Actions</span></th>
      </tr>
    </thead>
    <tbody>
      ${rows.map((row) => rowTemplate(container, row, hasNames))}
    </tbody>
  </table>`;
}

function rowTemplate(container, row, hasNames) {
  const isDeletion = row.content_type.startsWith(DELETED);
  return html`<tr>
    ${hasNames
      ? html`<td class="name">
          <a href=${route("object", container, row.name)}><bdi>${row.name}</bdi></a>
        </td>`
      : nothing}
    <td class="moment">
      ${timeText(row.last_modified)} ${row.is_latest ? html`<span class="tag">latest</span>` : nothing}
      ${isDeletion ? html`<span class="tag warn">deleted</span>` : nothing}
    </td>
    <td class="number">${isDeletion ? "–" : sizeText(row.bytes)}</td>
    <td class="wide-only"><code>${row.version_id}</code></td>
    <td class="actions">
      ${isDeletion ? nothing : versionButtons(container, row)}
      <button class="quiet icon" aria-label="Remove version ${row.version_id}"
        title="Remove this version for good" @click=${() => removeVersion(container, row)}>
        ${icon("trash")}
      </button>
    </td>
  </tr>`;
}

function versionButtons(container, row) {
  const { name, bytes, version_id: id } = row;
  return html`
    ${row.is_latest
      ? nothing
      : html`<button @click=${() => restore(container, row)}
          aria-label="Restore version ${id}">
          ${icon("history")}<span class="wide-only">Restore</span>
        </button>`}
    <button class="quiet icon" aria-label="Download version ${id}" title="Download"
      @click=${() => attempt(() => download(container, name, bytes, id))}>
      ${icon("download")}
    </button>
  `;
}

async function restore(container, { name, version_id: id }) {
  await attempt(async () => {
    const query = { "version-id": id };
    await request("PUT", path(container, name), { query, body: "" });
    say(`“${baseName(name)}” is restored.`);
  });
  dispatchEvent(new Event("console:reload"));
}

async function removeVersion(container, { name, version_id: id, is_latest: isLatest }) {
  const text = isLatest
    ? "This cannot be undone. The object then has no current version, until you restore one."
    : "This cannot be undone.";
  const title = `Remove this version of “${baseName(name)}” for good?`;
  if (!(await confirmAction(title, text, "Remove"))) return;
  await attempt(async () => {
    await remove(container, name, { version: id });
    say("The version is removed.");
  });
  dispatchEvent(new Event("console:reload"));
}
