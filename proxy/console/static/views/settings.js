// SPDX-License-Identifier: Apache-2.0
// Settings of a bucket or of the account: who may read it, versions, quotas, metadata.

import { html, nothing } from "../vendor/lit-html.js";
import { head, metadataOf, path, request } from "../api.js";
import { ApiError } from "../errors.js";
import { countText, fromHeader, parseSize, route, sizeText, toHeader } from "../names.js";
import { askUser, attempt, field, figure, icon, say, toggle, trail } from "../page.js";
import { metadataDialog } from "../metadata.js";
import { usageTemplate } from "./account.js";

/** Metadata that has a card of its own, or is secret. */
const OTHERS = /^(quota-(bytes|count)|temp-url-key(-2)?)$/i;
const PUBLIC = [".r:*", ".rlistings"];

/** Settings of a bucket; without a name those of the account. */
export class SettingsView {
  section = "buckets";

  constructor(container) {
    this.container = container;
    this.kind = container === undefined ? "Account" : "Container";
    this.title = container === undefined ? "Account" : `Settings of ${container}`;
  }

  async load() {
    this.headers = await head(this.container);
  }

  value(name) {
    return fromHeader(this.headers.get(name) ?? "");
  }

  async save(headers, text) {
    const coded = Object.entries(headers).map(([name, value]) => [name, toHeader(value)]);
    const target = path(this.container);
    await request("POST", target, { headers: Object.fromEntries(coded) });
    say(text);
    dispatchEvent(new Event("console:reload"));
    return true;
  }

  /** Save what a switch says; without success it goes back. */
  async flip(control, headers, text) {
    if (!(await attempt(() => this.save(headers, text)))) control.checked = !control.checked;
  }

  template() {
    const isAccount = this.container === undefined;
    return html`
      ${trail([
        ["Buckets", "#/"],
        ...(isAccount ? [] : [[this.container, route("bucket", this.container)]]),
        [isAccount ? "Account" : "Settings", null],
      ])}
      <div class="title">
        <h1>${isAccount ? "Account" : html`Settings of <bdi>${this.container}</bdi>`}</h1>
      </div>
      ${isAccount ? usageTemplate(this.headers) : this.usage()}
      <div class="columns">
        ${isAccount ? nothing : html`${this.access()} ${this.versions()} ${this.quotas()}`}
        ${this.metadata()} ${this.keys()}
      </div>
    `;
  }

  usage() {
    const bytes = Number(this.value("X-Container-Bytes-Used"));
    const count = Number(this.value("X-Container-Object-Count"));
    const [bytesMax, countMax] = ["Bytes", "Count"].map((what) =>
      Number(this.value(`X-Container-Meta-Quota-${what}`)),
    );
    return html`<div class="figures">
      ${figure("Stored", sizeText(bytes), {
        share: bytesMax ? bytes / bytesMax : undefined,
        note: bytesMax ? `of a quota of ${sizeText(bytesMax)}` : "no quota",
      })}
      ${figure("Objects", countText(count), {
        share: countMax ? count / countMax : undefined,
        note: countMax ? `of a quota of ${countText(countMax)}` : "no quota",
      })}
      ${figure("Storage policy", this.value("X-Storage-Policy") || "–")}
    </div>`;
  }

  access() {
    const read = this.value("X-Container-Read");
    const entries = read.split(",").map((entry) => entry.trim()).filter(Boolean);
    const isPublic = entries.includes(".r:*");
    const setPublic = (event) => {
      const others = entries.filter((entry) => !PUBLIC.includes(entry));
      const wanted = event.target.checked ? [...PUBLIC, ...others] : others;
      const text = event.target.checked
        ? "Everyone can read this bucket now."
        : "Only those with permission can read this bucket now.";
      this.flip(event.target, { "X-Container-Read": wanted.join(",") }, text);
    };
    return html`<section class="card" aria-labelledby="access">
      <h2 id="access">Access</h2>
      ${toggle("Public", isPublic, setPublic, "Everyone can read and list it, without a login.")}
      <dl>
        <div><dt>May read</dt><dd><code>${read || "only the account"}</code></dd></div>
        <div>
          <dt>May write</dt>
          <dd><code>${this.value("X-Container-Write") || "only the account"}</code></dd>
        </div>
      </dl>
      <button @click=${() => this.editAccess()}>${icon("gear")}Edit</button>
    </section>`;
  }

  editAccess() {
    return askUser({
      title: "Access",
      body: () => html`
        ${field("May read", "read", {
          value: this.value("X-Container-Read"),
          autofocus: true,
          hint: "Users such as account:user, and .r:* for everyone, separated by commas",
        })}
        ${field("May write", "write", {
          value: this.value("X-Container-Write"),
          hint: "Users such as account:user",
        })}
      `,
      submit: ({ read, write }) =>
        this.save({ "X-Container-Read": read, "X-Container-Write": write }, "Access is changed."),
    });
  }

  versions() {
    const isOn = this.value("X-Versions-Enabled").toLowerCase() === "true";
    const set = (event) => {
      const text = event.target.checked
        ? "From now on each upload keeps the version before it."
        : "New uploads replace objects. Existing versions stay.";
      this.flip(event.target, { "X-Versions-Enabled": String(event.target.checked) }, text);
    };
    return html`<section class="card" aria-labelledby="versions">
      <h2 id="versions">Versions</h2>
      ${toggle("Keep old versions", isOn, set, "A deleted or replaced object can be restored.")}
      <a class="button" href=${route("versions", this.container, "")}>
        ${icon("history")}Show versions
      </a>
    </section>`;
  }

  quotas() {
    const bytes = this.value("X-Container-Meta-Quota-Bytes");
    const count = this.value("X-Container-Meta-Quota-Count");
    return html`<section class="card" aria-labelledby="quotas">
      <h2 id="quotas">Quotas</h2>
      <dl>
        <div><dt>Size</dt><dd>${bytes ? sizeText(Number(bytes)) : "no limit"}</dd></div>
        <div><dt>Objects</dt><dd>${count ? countText(Number(count)) : "no limit"}</dd></div>
      </dl>
      <button @click=${() => this.editQuotas(bytes, count)}>${icon("gear")}Edit</button>
    </section>`;
  }

  editQuotas(bytes, count) {
    return askUser({
      title: "Quotas of this bucket",
      body: () => html`
        ${field("Size", "bytes", {
          value: bytes,
          autofocus: true,
          hint: "Bytes, or for example 10 GiB; empty: no limit",
        })}
        ${field("Objects", "count", { value: count, hint: "A number; empty: no limit" })}
      `,
      submit: (fields) => {
        const size = parseSize(fields.bytes);
        const isCount = /^\s*[0-9]*\s*$/.test(fields.count);
        if (Number.isNaN(size) || !isCount) {
          const next = "Type a number, for a size with a unit such as GiB.";
          throw new ApiError(400, { what: "That is no quota.", next });
        }
        const headers = {
          "X-Container-Meta-Quota-Bytes": size === null ? "" : String(size),
          "X-Container-Meta-Quota-Count": fields.count.trim(),
        };
        return this.save(headers, "The quotas are changed.");
      },
    });
  }

  metadata() {
    const rows = this.rows();
    return html`<section class="card" aria-labelledby="metadata">
      <h2 id="metadata">Metadata</h2>
      ${rows.length
        ? html`<dl>
            ${rows.map(([name, text]) => html`<div><dt>${name}</dt><dd>${text}</dd></div>`)}
          </dl>`
        : html`<p class="fine">None yet.</p>`}
      <button @click=${() => this.editMetadata(rows)}>${icon("gear")}Edit</button>
    </section>`;
  }

  rows() {
    const all = metadataOf(this.headers, `X-${this.kind}-Meta-`);
    return all.filter(([name]) => !OTHERS.test(name));
  }

  async editMetadata(known) {
    const wanted = await metadataDialog("Metadata", known);
    if (!wanted) return;
    const names = new Set(wanted.rows.map(([name]) => name.toLowerCase()));
    const headers = {};
    for (const [name] of known) {
      if (!names.has(name.toLowerCase())) headers[`X-${this.kind}-Meta-${name}`] = "";
    }
    for (const [name, value] of wanted.rows) headers[`X-${this.kind}-Meta-${name}`] = value;
    await attempt(() => this.save(headers, "The metadata are saved."));
  }

  keys() {
    const hasKey = ["", "-2"].some((end) => this.headers.has(`X-${this.kind}-Meta-Temp-URL-Key${end}`));
    if (!hasKey) return nothing;
    return html`<section class="card" aria-labelledby="keys">
      <h2 id="keys">Links</h2>
      <p class="fine">A key signs the links that you share. Without it they stop working.</p>
      <button class="danger" @click=${() => this.removeKeys()}>
        ${icon("trash")}Remove the key
      </button>
    </section>`;
  }

  removeKeys() {
    return askUser({
      title: "Remove the key?",
      action: "Remove",
      isDanger: true,
      body: () => html`<p>All links that were signed with it stop working within a minute.</p>`,
      submit: () => {
        const names = ["", "-2"].map((end) => `X-${this.kind}-Meta-Temp-URL-Key${end}`);
        const headers = Object.fromEntries(names.map((name) => [name, ""]));
        return this.save(headers, "The key is removed.");
      },
    });
  }
}
