// SPDX-License-Identifier: Apache-2.0
// One object: what it is, its metadata, its versions, and what can be done with it.

import { html, nothing } from "../vendor/lit-html.js";
import { head, listAll, metadataOf, path, remove, request } from "../api.js";
import { download } from "../download.js";
import { baseName, fromHeader, route, sizeText, timeText, toHeader } from "../names.js";
import { askUser, attempt, confirmAction, field, icon, say, trail } from "../page.js";
import { metadataDialog } from "../metadata.js";
import { shareObject } from "../share.js";
import { versionsTable } from "./versions.js";

/** The headers that a POST replaces all together, and that one can change. */
const KEPT = ["Content-Type", "Content-Disposition", "Content-Encoding", "X-Delete-At"];
const VERSIONS_MAX = 100;

/** An object. */
export class ObjectView {
  section = "buckets";

  constructor(container, name = "") {
    this.container = container;
    this.name = name;
    this.title = baseName(name);
  }

  async load() {
    const bucket = await head(this.container);
    this.isVersioned = bucket.get("X-Versions-Enabled")?.toLowerCase() === "true";
    const hasVersions = bucket.has("X-Versions-Enabled");
    this.versions = hasVersions ? await this.findVersions() : [];
    try {
      this.headers = await head(this.container, this.name);
    } catch (error) {
      if (error.status !== 404 || !this.versions.length) throw error;
      this.headers = null; // deleted, but its versions are there
    }
    this.isLarge = this.headers?.has("X-Static-Large-Object") ?? false;
  }

  async findVersions() {
    const found = [];
    for await (const row of listAll(this.container, { versions: "", prefix: this.name })) {
      if (row.name === this.name) found.push(row);
      if (row.name !== this.name || found.length === VERSIONS_MAX) break;
    }
    return found;
  }

  get bytes() {
    return Number(this.headers.get("Content-Length"));
  }

  async editMetadata() {
    const rows = metadataOf(this.headers, "X-Object-Meta-");
    const fixed = KEPT.map((name) => [name, fromHeader(this.headers.get(name) ?? "")]);
    const wanted = await metadataDialog(`Metadata of “${baseName(this.name)}”`, rows, fixed);
    if (!wanted) return;
    const headers = {};
    for (const [name, value] of wanted.fixed) if (value) headers[name] = toHeader(value);
    for (const [name, value] of wanted.rows) headers[`X-Object-Meta-${name}`] = toHeader(value);
    const isDone = await attempt(() => request("POST", path(this.container, this.name), { headers }));
    if (isDone) say("The metadata are saved.");
    dispatchEvent(new Event("console:reload"));
  }

  async copy() {
    const place = await askUser({
      title: `Copy “${baseName(this.name)}”`,
      action: "Copy",
      body: () => html`
        ${field("Bucket", "container", { value: this.container, required: true })}
        ${field("Name", "name", {
          value: this.name,
          required: true,
          autofocus: true,
          hint: "An object of this name in that bucket is replaced.",
        })}
      `,
      submit: async ({ container, name }) => {
        const from = path(this.container, this.name).slice(path().length);
        const headers = { "X-Copy-From": from.replaceAll("%2F", "/") };
        await request("PUT", path(container, name), { headers, body: "" });
        return { container, name };
      },
    });
    if (place) location.hash = route("object", place.container, place.name);
  }

  async remove() {
    const text = this.isVersioned
      ? "Its versions stay, so that you can restore it."
      : "This cannot be undone.";
    if (!(await confirmAction(`Delete “${baseName(this.name)}”?`, text, "Delete"))) return;
    await attempt(async () => {
      const isLarge = this.isLarge && !this.isVersioned;
      await remove(this.container, this.name, { isLarge });
      say("The object is deleted.");
      const folder = this.name.slice(0, this.name.lastIndexOf("/", this.name.length - 2) + 1);
      location.hash = route("bucket", this.container, folder);
    });
  }

  template() {
    const parts = this.name.split("/").slice(0, -1);
    const folders = parts.map((part, index) => {
      const prefix = `${parts.slice(0, index + 1).join("/")}/`;
      return [part || "/", route("bucket", this.container, prefix)];
    });
    return html`
      ${trail([
        ["Buckets", "#/"],
        [this.container, route("bucket", this.container)],
        ...folders,
        [baseName(this.name), null],
      ])}
      <div class="title">
        <h1><bdi>${baseName(this.name)}</bdi></h1>
        ${this.headers ? this.buttons() : html`<span class="tag warn">deleted</span>`}
      </div>
      ${this.headers ? this.facts() : nothing}
      ${this.versions.length ? this.versionsTemplate() : nothing}
    `;
  }

  buttons() {
    const { container, name } = this;
    return html`
      <button class="primary" @click=${() => attempt(() => download(container, name, this.bytes))}>
        ${icon("download")}Download
      </button>
      <button @click=${() => attempt(() => shareObject(container, name))}>
        ${icon("share")}Share
      </button>
      <button @click=${() => this.copy()}>${icon("copy")}Copy</button>
      <button class="danger" @click=${() => this.remove()}>${icon("trash")}Delete</button>
    `;
  }

  facts() {
    const value = (name) => fromHeader(this.headers.get(name) ?? "");
    const expires = this.headers.get("X-Delete-At");
    const facts = [
      ["Full name", html`<bdi class="whole">${this.name}</bdi>`],
      ["Size", `${sizeText(this.bytes)} (${this.bytes.toLocaleString("en")} bytes)`],
      ["Type", value("Content-Type")],
      ["Changed", timeText(new Date(this.headers.get("Last-Modified")))],
      ["Etag", html`<code>${value("Etag").replaceAll('"', "")}</code>`],
      this.isLarge && ["Kind", "static large object, in segments"],
      expires && ["Deleted at", timeText(new Date(Number(expires) * 1000))],
      value("Content-Encoding") && ["Encoding", value("Content-Encoding")],
      value("Content-Disposition") && ["Disposition", value("Content-Disposition")],
    ].filter(Boolean);
    const metadata = metadataOf(this.headers, "X-Object-Meta-");
    return html`<div class="columns">
      <section class="card" aria-labelledby="facts">
        <h2 id="facts">Facts</h2>
        <dl>${facts.map(([name, text]) => html`<div><dt>${name}</dt><dd>${text}</dd></div>`)}</dl>
      </section>
      <section class="card" aria-labelledby="metadata">
        <h2 id="metadata">Metadata</h2>
        ${metadata.length
          ? html`<dl>
              ${metadata.map(([name, text]) => html`<div><dt>${name}</dt><dd>${text}</dd></div>`)}
            </dl>`
          : html`<p class="fine">None yet.</p>`}
        <button @click=${() => this.editMetadata()}>${icon("gear")}Edit</button>
      </section>
    </div>`;
  }

  versionsTemplate() {
    return html`<section class="card" aria-labelledby="versions">
      <h2 id="versions">Versions</h2>
      ${versionsTable(this.container, this.versions, false)}
      ${this.versions.length === VERSIONS_MAX
        ? html`<a href=${route("versions", this.container, this.name)}>All versions</a>`
        : nothing}
    </section>`;
  }
}
