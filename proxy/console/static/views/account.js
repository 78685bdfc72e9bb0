// SPDX-License-Identifier: Apache-2.0
// The first page: what the account uses, and its buckets.

import { html, nothing } from "../vendor/lit-html.js";
import { PAGE, head, info, list, path, request } from "../api.js";
import { ApiError } from "../errors.js";
import { containerProblem, countText, route, sizeText, timeText } from "../names.js";
import { askUser, attempt, emptyTemplate, field, figure, icon, refresh, say } from "../page.js";

/** The buckets of the account; a bucket of S3 and a container of Swift are the same. */
export class AccountView {
  title = "Buckets";
  section = "buckets";
  prefix = "";
  rows = [];

  async load() {
    const [headers, rows] = await Promise.all([head(), list(undefined, this.query())]);
    this.headers = headers;
    this.rows = rows;
    this.hasMore = rows.length === PAGE;
  }

  query(more = {}) {
    return this.prefix ? { prefix: this.prefix, ...more } : more;
  }

  async loadMore() {
    const rows = await list(undefined, this.query({ marker: this.rows.at(-1).name }));
    this.rows = [...this.rows, ...rows];
    this.hasMore = rows.length === PAGE;
    refresh();
  }

  async search(event) {
    event.preventDefault();
    this.prefix = new FormData(event.target).get("prefix");
    await attempt(() => this.load());
    refresh();
  }

  async create() {
    const { policies = [] } = (await attempt(info))?.swift ?? {};
    const name = await askUser({
      title: "New bucket",
      action: "Create",
      body: () => html`
        ${field("Name", "name", {
          required: true,
          autofocus: true,
          hint: "Small letters, digits and hyphens work with every client.",
        })}
        ${policies.length > 1 ? policyField(policies) : nothing}
      `,
      submit: createBucket,
    });
    if (name !== undefined) location.hash = route("bucket", name);
  }

  async remove(row) {
    const isGone = await askUser({
      title: `Delete the bucket “${row.name}”?`,
      body: () => html`<p>Only an empty bucket can be deleted.</p>`,
      action: "Delete",
      isDanger: true,
      submit: () => deleteBucket(row.name),
    });
    if (!isGone) return;
    say(`The bucket “${row.name}” is deleted.`);
    dispatchEvent(new Event("console:reload"));
  }

  template() {
    return html`
      <div class="title">
        <h1>Buckets</h1>
        <a class="button" href=${route("settings")}>${icon("gear")}Account</a>
        <button class="primary" @click=${() => this.create()}>${icon("plus")}New bucket</button>
      </div>
      ${usageTemplate(this.headers)}
      <form class="bar" role="search" @submit=${(event) => this.search(event)}>
        <input name="prefix" type="search" aria-label="Names that begin with" .value=${this.prefix}
          placeholder="Names that begin with …" spellcheck="false" />
        <button>Search</button>
      </form>
      ${this.rows.length ? this.table() : this.nothingYet()}
    `;
  }

  nothingYet() {
    if (this.prefix) return emptyTemplate("bucket", "No bucket", "No name begins with that.");
    const text = "A bucket holds your objects. Make the first one with “New bucket”.";
    return emptyTemplate("bucket", "No buckets yet", text);
  }

  table() {
    return html`<table>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col" class="number">Objects</th>
            <th scope="col" class="number">Size</th>
            <th scope="col" class="wide-only">Changed</th>
            <th scope="col"><span class="hidden">Actions</span></th>
          </tr>
        </thead>
        <tbody>
          ${this.rows.map(
            (row) => html`<tr>
              <td class="name">
                <a href=${route("bucket", row.name)}>${icon("bucket")}<bdi>${row.name}</bdi></a>
              </td>
              <td class="number">${countText(row.count)}</td>
              <td class="number">${sizeText(row.bytes)}</td>
              <td class="wide-only">${timeText(row.last_modified)}</td>
              <td class="actions">
                <a class="button quiet icon" href=${route("settings", row.name)}
                  aria-label="Settings of ${row.name}" title="Settings">${icon("gear")}</a>
                <button class="quiet icon" @click=${() => this.remove(row)}
                  aria-label="Delete ${row.name}" title="Delete">${icon("trash")}</button>
              </td>
            </tr>`,
          )}
        </tbody>
      </table>
      ${this.hasMore
        ? html`<button class="more" @click=${() => attempt(() => this.loadMore())}>
            Show more
          </button>`
        : nothing}`;
  }
}

function policyField(policies) {
  return html`<label class="field">
    <span>Storage policy</span>
    <select name="policy">
      ${policies.map(
        (policy) => html`<option .value=${policy.name} ?selected=${policy.default}>
          ${policy.name}${policy.default ? " (default)" : ""}
        </option>`,
      )}
    </select>
  </label>`;
}

async function createBucket({ name, policy }) {
  const problem = containerProblem(name);
  if (problem) throw new ApiError(400, { what: problem, next: "" });
  const headers = policy ? { "X-Storage-Policy": policy } : {};
  const answer = await request("PUT", path(name), { headers });
  if (answer.status === 202) say(`The bucket “${name}” was there before.`);
  return name;
}

async function deleteBucket(name) {
  try {
    await request("DELETE", path(name));
  } catch (error) {
    if (error.status !== 409) throw error;
    const next = "Delete its objects first, and its old versions.";
    throw new ApiError(409, { what: "The bucket is not empty.", next });
  }
  return true;
}

/** What the account uses, beside its quota. */
export function usageTemplate(headers) {
  const number = (name) => (headers.has(name) ? Number(headers.get(name)) : undefined);
  const bytes = number("X-Account-Bytes-Used");
  const quota = number("X-Account-Meta-Quota-Bytes") ?? number("X-Account-Quota-Bytes");
  return html`<div class="figures">
    ${figure("Stored", sizeText(bytes), {
      share: quota ? bytes / quota : undefined,
      note: quota ? `of a quota of ${sizeText(quota)}` : "no quota",
    })}
    ${figure("Objects", countText(number("X-Account-Object-Count")))}
    ${figure("Buckets", countText(number("X-Account-Container-Count")))}
  </div>`;
}
