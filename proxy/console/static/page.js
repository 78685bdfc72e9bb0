// SPDX-License-Identifier: Apache-2.0
// What every view shares: drawing the page anew, messages, dialogs, errors and icons.

import { html, nothing, svg } from "./vendor/lit-html.js";
import { ApiError } from "./errors.js";

let draw = () => {};
let isDue = false;

/** Set the function that draws the whole page. */
export function setDraw(drawPage) {
  draw = drawPage;
}

/** Draw the page anew, once for all calls of this moment. */
export function refresh() {
  if (isDue) return;
  isDue = true;
  queueMicrotask(() => {
    isDue = false;
    draw();
  });
}

// Messages.

const MESSAGE_SECONDS = 6;
let messages = [];

/** Show a sentence for some seconds; `kind` is "good" or "bad". */
export function say(text, kind = "good") {
  const message = { text, kind };
  messages = [...messages.slice(-3), message];
  setTimeout(() => unsay(message), MESSAGE_SECONDS * 1000);
  refresh();
}

function unsay(message) {
  messages = messages.filter((one) => one !== message);
  refresh();
}

/** The messages, read aloud by screen readers. */
export function messagesTemplate() {
  return html`<div class="messages" role="status" aria-live="polite">
    ${messages.map(
      (message) => html`<div class="message ${message.kind}">
        <span>${message.text}</span>
        <button class="quiet icon" aria-label="Close message" @click=${() => unsay(message)}>
          ${icon("close")}
        </button>
      </div>`,
    )}
  </div>`;
}

// Errors.

/** Run what a button starts; an error becomes a message. */
export async function attempt(action) {
  try {
    return await action();
  } catch (error) {
    if (error.name !== "AbortError") say(sentenceOf(error), "bad");
    return undefined;
  }
}

/** An error in one line. */
export function sentenceOf(error) {
  if (!(error instanceof ApiError)) return `The console failed: ${error.message}`;
  return [error.what, error.detail, error.next].filter(Boolean).join(" ");
}

/** An error as a box: what happened, what to do, and the id for the operator. */
export function errorTemplate(error, retry) {
  const { what, next, detail, transaction } =
    error instanceof ApiError ? error : { what: "The console failed.", detail: error.message };
  return html`<div class="notice bad" role="alert">
    <strong>${what}</strong>
    ${detail && detail !== what ? html`<p class="detail">${detail}</p>` : nothing}
    ${next ? html`<p>${next}</p>` : nothing}
    ${transaction ? html`<p class="fine">Transaction <code>${transaction}</code></p>` : nothing}
    ${retry ? html`<button @click=${retry}>Try again</button>` : nothing}
  </div>`;
}

// Dialogs.

let dialog = null;

/**
 * Ask in a dialog. `body` makes its template; `submit` gets the form's fields and may throw an
 * error, which the dialog shows. Resolves to what `submit` returned, undefined if cancelled.
 */
export function askUser({ title, body, action, submit, isDanger = false, isWide = false }) {
  return new Promise((resolve) => {
    const opener = document.activeElement;
    dialog = { title, body, action, submit, isDanger, isWide, resolve, opener };
    refresh();
  });
}

/** Ask whether to go on; resolves to true or undefined. */
export function confirmAction(title, text, action) {
  const body = () => html`<p>${text}</p>`;
  return askUser({ title, body, action, isDanger: true, submit: () => true });
}

function closeDialog(result) {
  const { resolve, opener } = dialog;
  dialog = null;
  draw(); // at once: the next dialog must be another element
  resolve(result);
  if (opener?.isConnected) setTimeout(() => opener.focus());
}

async function submitDialog(event) {
  event.preventDefault();
  const open = dialog;
  if (open.isBusy) return;
  if (!open.submit) {
    closeDialog();
    return;
  }
  open.isBusy = true;
  open.error = null;
  refresh();
  try {
    const result = await open.submit(Object.fromEntries(new FormData(event.target)));
    if (dialog === open) closeDialog(result);
  } catch (error) {
    open.isBusy = false;
    open.error = error;
    refresh();
  }
}

/** Show a dialog once it is in the page. */
function showModal() {
  const element = document.querySelector("dialog");
  if (element && !element.open) element.showModal();
}

/** The open dialog. */
export function dialogTemplate() {
  if (!dialog) return nothing;
  queueMicrotask(showModal);
  const { title, body, action, submit, isDanger, isWide, isBusy, error } = dialog;
  return html`<dialog
    class=${isWide ? "wide" : ""}
    aria-labelledby="dialog-title"
    @cancel=${(event) => {
      event.preventDefault();
      if (!dialog?.isBusy) closeDialog();
    }}
  >
    <form @submit=${submitDialog}>
      <h2 id="dialog-title">${title}</h2>
      ${body()} ${error ? errorTemplate(error) : nothing}
      <div class="buttons">
        <button type="button" ?disabled=${isBusy} @click=${() => closeDialog()}>
          ${submit ? "Cancel" : "Close"}
        </button>
        ${submit
          ? html`<button class=${isDanger ? "danger" : "primary"} ?disabled=${isBusy}>
              ${isBusy ? "Please wait …" : (action ?? "Save")}
            </button>`
          : nothing}
      </div>
    </form>
  </dialog>`;
}

// Parts of pages.

/** A labelled field of a form. `attributes` of the input: type, value, required, and so on. */
export function field(label, name, { hint, type = "text", value = "", ...more } = {}) {
  return html`<label class="field">
    <span>${label}</span>
    <input
      name=${name}
      type=${type}
      .value=${value}
      ?required=${more.required}
      ?autofocus=${more.autofocus}
      ?readonly=${more.isFixed}
      autocomplete=${more.autocomplete ?? "off"}
      placeholder=${more.placeholder ?? ""}
      spellcheck="false"
    />
    ${hint ? html`<small>${hint}</small>` : nothing}
  </label>`;
}

/** A switch with its label. */
export function toggle(label, isOn, onChange, hint) {
  return html`<label class="toggle">
    <input type="checkbox" role="switch" .checked=${isOn} @change=${onChange} />
    <span><strong>${label}</strong>${hint ? html`<small>${hint}</small>` : nothing}</span>
  </label>`;
}

/** A page without content: what it is for, and what to do. */
export function emptyTemplate(name, title, text) {
  return html`<div class="empty">${icon(name)}<h2>${title}</h2><p>${text}</p></div>`;
}

/** The way to where the user is; the last entry is the page itself. */
export function trail(entries) {
  return html`<nav class="trail" aria-label="Where you are">
    <ol>
      ${entries.map(([text, address]) =>
        address
          ? html`<li><a href=${address}>${text}</a></li>`
          : html`<li aria-current="page">${text}</li>`,
      )}
    </ol>
  </nav>`;
}

/** A figure with its label; `share` from 0 to 1 adds a bar. */
export function figure(label, value, { share, note } = {}) {
  return html`<div class="figure">
    <span class="label">${label}</span>
    <span class="value">${value}</span>
    ${share === undefined
      ? nothing
      : html`<meter min="0" max="1" high="0.9" .value=${Math.min(share, 1)} aria-label=${label}>
        </meter>`}
    ${note ? html`<span class="fine">${note}</span>` : nothing}
  </div>`;
}

const SHAPES = {
  bucket: svg`<path d="M4 7c0-1.7 3.6-3 8-3s8 1.3 8 3-3.6 3-8 3-8-1.3-8-3z"/><path d="M4 7l1.6 11.2C5.8 19.8 8.6 21 12 21s6.2-1.2 6.4-2.8L20 7"/>`,
  check: svg`<path d="M5 12.5l4.5 4.5L19 7"/>`,
  close: svg`<path d="M6 6l12 12M18 6L6 18"/>`,
  copy: svg`<rect x="9" y="9" width="11" height="11" rx="2"/><path d="M15 9V6a2 2 0 0 0-2-2H6a2 2 0 0 0-2 2v7a2 2 0 0 0 2 2h3"/>`,
  download: svg`<path d="M12 4v11m0 0l-4.5-4.5M12 15l4.5-4.5M4 20h16"/>`,
  file: svg`<path d="M7 3h7l5 5v11a2 2 0 0 1-2 2H7a2 2 0 0 1-2-2V5a2 2 0 0 1 2-2z"/><path d="M14 3v5h5"/>`,
  folder: svg`<path d="M3 7a2 2 0 0 1 2-2h4l2 2.5h8a2 2 0 0 1 2 2V17a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2z"/>`,
  gear: svg`<path d="M4 7h9M17 7h3M4 17h3M11 17h9"/><circle cx="15" cy="7" r="2"/><circle cx="9" cy="17" r="2"/>`,
  history: svg`<path d="M4 5v5h5"/><path d="M4.6 10A8 8 0 1 1 4 13"/><path d="M12 8v4.5l3 2"/>`,
  plus: svg`<path d="M12 5v14M5 12h14"/>`,
  reload: svg`<path d="M20 5v5h-5"/><path d="M19.4 10A8 8 0 1 0 20 13"/>`,
  ring: svg`<circle cx="12" cy="12" r="8.5"/><circle cx="12" cy="12" r="3.5"/><path d="M12 3.5v5M19.4 16.2l-4.4-2.5M4.6 16.2l4.4-2.5"/>`,
  share: svg`<path d="M10 14a4 4 0 0 0 6 .4l2.6-2.6a4 4 0 0 0-5.7-5.7L11.5 7.5"/><path d="M14 10a4 4 0 0 0-6-.4l-2.6 2.6a4 4 0 0 0 5.7 5.7l1.4-1.4"/>`,
  trash: svg`<path d="M5 7h14M10 4h4M7 7l.8 12a1.5 1.5 0 0 0 1.5 1.4h5.4a1.5 1.5 0 0 0 1.5-1.4L17 7M10.5 11v5.5M13.5 11v5.5"/>`,
  upload: svg`<path d="M12 16V5m0 0L7.5 9.5M12 5l4.5 4.5M4 20h16"/>`,
};

/** A picture beside a word; screen readers skip it. */
export function icon(name) {
  return html`<svg class="glyph" viewBox="0 0 24 24" aria-hidden="true">${SHAPES[name]}</svg>`;
}
