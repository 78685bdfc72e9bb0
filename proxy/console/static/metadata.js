// SPDX-License-Identifier: Apache-2.0
// A dialog that edits names and values.

import { html, nothing } from "./vendor/lit-html.js";
import { ApiError } from "./errors.js";
import { askUser, field, icon, refresh } from "./page.js";

/**
 * Edit metadata. `fixed` are headers with given names; an empty value means none.
 * Resolves to `{rows, fixed}`, or undefined if cancelled.
 */
export function metadataDialog(title, known, fixed = []) {
  const rows = known.map(([name, value]) => ({ name, value }));
  const add = () => {
    rows.push({ name: "", value: "" });
    refresh();
  };
  const drop = (row) => {
    rows.splice(rows.indexOf(row), 1);
    refresh();
  };
  return askUser({
    title,
    isWide: true,
    body: () => html`
      <fieldset>
        <legend>Own metadata</legend>
        ${rows.map((row) => rowTemplate(row, () => drop(row)))}
        <button type="button" @click=${add}>${icon("plus")}Add</button>
      </fieldset>
      ${fixed.length
        ? html`<fieldset>
            <legend>Headers</legend>
            ${fixed.map(([name, value]) => field(name, name, { value, hint: HINTS[name] }))}
          </fieldset>`
        : nothing}
    `,
    submit: (fields) => ({
      rows: rows.map(checked),
      fixed: fixed.map(([name]) => [name, fields[name].trim()]),
    }),
  });
}

const HINTS = {
  "X-Delete-At": "Seconds since 1970; empty: never",
  "Content-Disposition": "attachment; filename=report.pdf",
};

function rowTemplate(row, drop) {
  return html`<div class="pair">
    <input aria-label="Name" placeholder="Name" .value=${row.name} spellcheck="false"
      @input=${(event) => (row.name = event.target.value)} />
    <input aria-label="Value" placeholder="Value" .value=${row.value}
      @input=${(event) => (row.value = event.target.value)} />
    <button type="button" class="quiet icon" aria-label="Remove ${row.name}" @click=${drop}>
      ${icon("trash")}
    </button>
  </div>`;
}

function checked({ name, value }) {
  if (!/^[A-Za-z0-9!#$%&'*+.^`|~-]{1,128}$/.test(name)) {
    const next = "Use letters, digits and hyphens, at most 128.";
    throw new ApiError(400, { what: `“${name}” cannot be the name of metadata.`, next });
  }
  return [name, value];
}
