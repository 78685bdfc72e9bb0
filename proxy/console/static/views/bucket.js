// SPDX-License-Identifier: Apache-2.0
// The objects of a bucket, a folder at a time.

import { html, nothing } from "../vendor/lit-html.js";
import { PAGE, head, list, listAll, path, remove, request } from "../api.js";
import { download } from "../download.js";
import { baseName, plural, route, sizeText, timeText } from "../names.js";
import {
  askUser,
  attempt,
  confirmAction,
  emptyTemplate,
  field,
  icon,
  refresh,
  say,
  trail,
} from "../page.js";
import { shareObject } from "../share.js";
import { filesOf, sendFiles } from "../transfers.js";

/** One folder of a bucket: `prefix` is empty, or ends with a slash, or is what was searched. */
export class BucketView {
  section = "buckets";
  rows = [];
  chosen = new Set();
  isOver = false;

  constructor(container, prefix = "") {
    this.container = container;
    this.prefix = prefix;
    this.title = container;
    this.folder = prefix.slice(0, prefix.lastIndexOf("/") + 1);
  }

  async load() {
    [this.headers, this.rows] = await Promise.all([head(this.container), this.page()]);
    this.chosen.clear();
    this.isVersioned = this.headers.get("X-Versions-Enabled")?.toLowerCase() === "true";
  }

  async page(marker = "") {
    const query = { delimiter: "/", prefix: this.prefix, ...(marker && { marker }) };
    const rows = await list(this.container, query);
    this.hasMore = rows.length === PAGE;
    return rows.filter((row) => row.name !== this.prefix || !this.prefix.endsWith("/"));
  }

  async loadMore() {
    const last = this.rows.at(-1);
    this.rows = [...this.rows, ...(await this.page(last.name ?? last.subdir))];
    refresh();
  }

  choose(name, isChosen) {
    if (isChosen) this.chosen.add(name);
    else this.chosen.delete(name);
    refresh();
  }

  async send(files) {
    if (files.length) await attempt(() => sendFiles(this.container, this.folder, files));
  }

  async drop(event) {
    event.preventDefault();
    this.isOver = false;
    refresh();
    await this.send(await filesOf(event.dataTransfer));
  }

  async createFolder() {
    const name = await askUser({
      title: "New folder",
      action: "Create",
      body: () =>
        html`${field("Name", "name", {
          required: true,
          autofocus: true,
          hint: "A folder is an empty object whose name ends with a slash.",
        })}`,
      submit: async ({ name: folder }) => {
        const marker = `${this.folder}${folder.replace(/\/*$/, "")}/`;
        const headers = { "Content-Type": "application/directory" };
        await request("PUT", path(this.container, marker), { headers, body: "" });
        return marker;
      },
    });
    if (name !== undefined) location.hash = route("bucket", this.container, name);
  }

  async removeChosen() {
    const rows = this.rows.filter((row) => this.chosen.has(row.name ?? row.subdir));
    const what = rows.length === 1 ? `“${baseName(rows[0].name ?? rows[0].subdir)}”` : "them";
    const text = this.isVersioned
      ? "Old versions stay, so that you can restore them."
      : "This cannot be undone. A folder is deleted with all that it holds.";
    if (!(await confirmAction(`Delete ${what}?`, text, "Delete"))) return;
    await attempt(() => this.removeRows(rows));
    dispatchEvent(new Event("console:reload"));
  }

  async removeRows(rows) {
    let count = 0;
    for (const row of rows) {
      for await (const one of this.below(row)) {
        const isLarge = Boolean(one.slo_etag) && !this.isVersioned;
        await remove(this.container, one.name, { isLarge });
        count += 1;
      }
    }
    say(`${plural(count, "object")} deleted.`);
  }

  /** The objects that a row stands for: itself, or all of a folder. */
  async *below(row) {
    if (row.name !== undefined) yield row;
    else yield* listAll(this.container, { prefix: row.subdir });
  }

  search(event) {
    event.preventDefault();
    const begin = new FormData(event.target).get("begin");
    location.hash = route("bucket", this.container, this.folder + begin);
  }

  template() {
    return html`
      ${this.trail()}
      <div class="title">
        <h1><bdi>${this.folder ? baseName(this.folder) : this.container}</bdi></h1>
        <a class="button" href=${route("versions", this.container, this.prefix)}>
          ${icon("history")}Versions
        </a>
        <a class="button" href=${route("settings", this.container)}>${icon("gear")}Settings</a>
        <button @click=${() => this.createFolder()}>${icon("folder")}New folder</button>
        ${uploadButton("Upload", false, (files) => this.send(files))}
        ${uploadButton("Upload folder", true, (files) => this.send(files))}
      </div>
      <p class="fine">
        ${plural(Number(this.headers.get("X-Container-Object-Count")), "object")},
        ${sizeText(Number(this.headers.get("X-Container-Bytes-Used")))}
        ${this.isVersioned ? html`<span class="tag">versions</span>` : nothing}
        ${this.headers.get("X-Container-Read")?.includes(".r:*")
          ? html`<span class="tag warn">public</span>`
          : nothing}
      </p>
      ${this.barTemplate()}
      <div class="drop ${this.isOver ? "over" : ""}" @drop=${(event) => this.drop(event)}
        @dragover=${(event) => this.dragOver(event, true)}
        @dragleave=${(event) => this.dragOver(event, false)}>
        ${this.rows.length ? this.table() : this.nothingHere()}
      </div>
    `;
  }

  dragOver(event, isOver) {
    event.preventDefault();
    if (this.isOver === isOver) return;
    this.isOver = isOver;
    refresh();
  }

  trail() {
    const parts = this.folder.split("/").slice(0, -1);
    const entries = [["Buckets", "#/"], [this.container, route("bucket", this.container)]];
    parts.forEach((part, index) => {
      const prefix = `${parts.slice(0, index + 1).join("/")}/`;
      entries.push([part || "/", route("bucket", this.container, prefix)]);
    });
    entries.at(-1)[1] = null;
    return trail(entries);
  }

  barTemplate() {
    const count = this.chosen.size;
    return html`<div class="bar">
      <form role="search" @submit=${(event) => this.search(event)}>
        <input name="begin" type="search" aria-label="Names that begin with" spellcheck="false"
          .value=${this.prefix.slice(this.folder.length)} placeholder="Names that begin with …" />
        <button>Search</button>
      </form>
      <button class="quiet icon" title="Reload" aria-label="Reload"
        @click=${() => dispatchEvent(new Event("console:reload"))}>${icon("reload")}</button>
      ${count
        ? html`<span class="spring">${countChosen(count)}</span>
            <button class="danger" @click=${() => this.removeChosen()}>
              ${icon("trash")}Delete
            </button>`
        : nothing}
    </div>`;
  }

  nothingHere() {
    if (this.prefix !== this.folder) {
      return emptyTemplate("file", "Nothing found", "No name in this folder begins with that.");
    }
    const text = "Drop files here, or use “Upload”.";
    return emptyTemplate("file", "No objects here", text);
  }

  table() {
    const names = this.rows.map((row) => row.name ?? row.subdir);
    const areAll = names.every((name) => this.chosen.has(name));
    const chooseAll = (event) => names.forEach((name) => this.choose(name, event.target.checked));
    return html`<table>
        <thead>
          <tr>
            <th scope="col" class="tick">
              <input type="checkbox" aria-label="Choose all" .checked=${areAll}
                @change=${chooseAll} />
            </th>
            <th scope="col">Name</th>
            <th scope="col" class="number">Size</th>
            <th scope="col" class="wide-only">Changed</th>
            <th scope="col"><span class="hidden">Actions</span></th>
          </tr>
        </thead>
        <tbody>
          ${this.rows.map((row) => (row.subdir === undefined ? this.object(row) : this.sub(row)))}
        </tbody>
      </table>
      ${this.hasMore
        ? html`<button class="more" @click=${() => attempt(() => this.loadMore())}>
            Show more
          </button>`
        : nothing}`;
  }

  tick(name) {
    return html`<td class="tick">
      <input type="checkbox" aria-label="Choose ${name}" .checked=${this.chosen.has(name)}
        @change=${(event) => this.choose(name, event.target.checked)} />
    </td>`;
  }

  sub({ subdir }) {
    return html`<tr>
      ${this.tick(subdir)}
      <td class="name">
        <a href=${route("bucket", this.container, subdir)}>
          ${icon("folder")}<bdi>${subdir.slice(this.folder.length)}</bdi>
        </a>
      </td>
      <td class="number">–</td>
      <td class="wide-only"></td>
      <td></td>
    </tr>`;
  }

  object(row) {
    const name = row.name.slice(this.folder.length) || row.name;
    return html`<tr>
      ${this.tick(row.name)}
      <td class="name">
        <a href=${route("object", this.container, row.name)}>${icon("file")}<bdi>${name}</bdi></a>
      </td>
      <td class="number">${sizeText(row.bytes)}</td>
      <td class="wide-only">${timeText(row.last_modified)}</td>
      <td class="actions">
        <button class="quiet icon" aria-label="Share ${name}" title="Share"
          @click=${() => attempt(() => shareObject(this.container, row.name))}>
          ${icon("share")}
        </button>
        <button class="quiet icon" aria-label="Download ${name}" title="Download"
          @click=${() => attempt(() => download(this.container, row.name, row.bytes))}>
          ${icon("download")}
        </button>
      </td>
    </tr>`;
  }
}

function countChosen(count) {
  return `${plural(count, "entry").replace("entrys", "entries")} chosen`;
}

function uploadButton(label, isFolder, onFiles) {
  const onChange = async (event) => {
    const files = [...event.target.files].map((file) => ({
      file,
      name: file.webkitRelativePath || file.name,
    }));
    event.target.value = "";
    await onFiles(files);
  };
  return html`<label class="button ${isFolder ? "" : "primary"}">
    ${icon(isFolder ? "folder" : "upload")}${label}
    <input class="hidden" type="file" multiple ?webkitdirectory=${isFolder} @change=${onChange} />
  </label>`;
}
