// SPDX-License-Identifier: Apache-2.0
// Uploads: a queue, its progress, and large files in segments.

import { html, nothing } from "./vendor/lit-html.js";
import { head, info, path, remove, request, upload } from "./api.js";
import { ApiError } from "./errors.js";
import { plural, sizeText, toHeader } from "./names.js";
import { confirmAction, icon, refresh, sentenceOf } from "./page.js";

const AT_ONCE_MAX = 3;
/** Larger files are sent in segments: one that fails is sent again, not the whole file. */
const WHOLE_BYTES_MAX = 1024 ** 3;
const SEGMENT_BYTES = 256 * 1024 ** 2;
const TRIES = 3;
/** How long the list stays once all is done. */
const SHOWN_SECONDS = 8;

let transfers = [];
let running = 0;

/** Whether an upload is under way or waits. */
export function isSending() {
  return transfers.some((one) => one.state === "waits" || one.state === "sends");
}

/** The files of a drop, those of folders too: `[{file, name}]`. */
export async function filesOf(dropped) {
  const entries = [...dropped.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const found = [];
  for (const entry of entries) await collect(entry, found);
  return found;
}

async function collect(entry, found) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    found.push({ file, name: entry.fullPath.replace(/^\//, "") });
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return;
    for (const one of some) await collect(one, found);
  }
}

/** Upload files below a folder. Asks before it replaces objects. */
export async function sendFiles(container, folder, files) {
  const { swift, slo } = await info();
  const wanted = files.map(({ file, name }) => ({ file, name: folder + name }));
  const headers = await head(container);
  if (headers.get("X-Versions-Enabled")?.toLowerCase() !== "true") {
    const known = await existing(container, wanted);
    const text = `${known.slice(0, 5).join(", ")}${known.length > 5 ? " …" : ""}`;
    const title = `Replace ${plural(known.length, "object")}?`;
    if (known.length && !(await confirmAction(title, text, "Replace"))) return;
  }
  for (const { file, name } of wanted) {
    const transfer = { container, name, file, sent: 0, state: "waits", stop: new AbortController() };
    transfer.problem = tooLarge(file.size, swift, slo);
    if (transfer.problem) transfer.state = "failed";
    transfers.push(transfer);
  }
  startNext();
}

async function existing(container, wanted) {
  const found = [];
  const queue = [...wanted];
  const look = async () => {
    for (let one = queue.shift(); one; one = queue.shift()) {
      try {
        await head(container, one.name);
        found.push(one.name);
      } catch (error) {
        if (error.status !== 404) throw error;
      }
    }
  };
  await Promise.all([look(), look(), look(), look()]);
  return found;
}

function isWhole(bytes, swift, slo) {
  return bytes <= (slo ? Math.min(swift.max_file_size, WHOLE_BYTES_MAX) : swift.max_file_size);
}

function tooLarge(bytes, swift, slo) {
  const most = swift.max_file_size * (slo?.max_manifest_segments ?? 1);
  return bytes <= most ? "" : `Too large: an object of this cluster has at most ${sizeText(most)}.`;
}

function startNext() {
  while (running < AT_ONCE_MAX) {
    const next = transfers.find((one) => one.state === "waits");
    if (!next) break;
    next.state = "sends";
    running += 1;
    send(next).finally(() => {
      running -= 1;
      startNext();
      if (!isSending()) finish();
    });
  }
  refresh();
}

function finish() {
  dispatchEvent(new Event("console:reload"));
  if (transfers.some((one) => one.state !== "done")) return;
  setTimeout(clearDone, SHOWN_SECONDS * 1000);
}

async function send(transfer) {
  try {
    const { swift, slo } = await info();
    if (isWhole(transfer.file.size, swift, slo)) await sendWhole(transfer);
    else await sendSegments(transfer, swift, slo);
    transfer.state = "done";
  } catch (error) {
    transfer.state = error.name === "AbortError" ? "stopped" : "failed";
    transfer.problem = error.name === "AbortError" ? "Stopped." : sentenceOf(error);
  }
  refresh();
}

function headersOf(file) {
  return {
    "Content-Type": file.type || "application/octet-stream",
    "X-Object-Meta-Mtime": (file.lastModified / 1000).toFixed(3),
  };
}

function sendWhole(transfer) {
  const { container, name, file, stop } = transfer;
  const onProgress = (sent) => progress(transfer, sent);
  return upload(path(container, name), file, {
    headers: headersOf(file),
    onProgress,
    signal: stop.signal,
  });
}

function progress(transfer, sent) {
  transfer.sent = Math.min(sent, transfer.file.size);
  refresh();
}

/** Send a file as a static large object; without success its segments are removed. */
async function sendSegments(transfer, swift, slo) {
  const { container, name, file, stop } = transfer;
  const store = `${container}_segments`;
  const least = Math.ceil(file.size / slo.max_manifest_segments);
  const size = Math.max(Math.min(SEGMENT_BYTES, swift.max_file_size), least);
  const prefix = `${name}/${Date.now()}-${file.size}`;
  await request("PUT", path(store));
  const parts = [];
  try {
    for (let start = 0; start < file.size; start += size) {
      const part = `${prefix}/${String(parts.length).padStart(8, "0")}`;
      parts.push(await sendSegment(transfer, store, part, start, Math.min(start + size, file.size)));
    }
    const query = { "multipart-manifest": "put" };
    const body = JSON.stringify(parts);
    const headers = headersOf(file);
    await upload(path(container, name), body, { query, headers, signal: stop.signal });
  } catch (error) {
    for (const part of parts) {
      await remove(store, part.path.slice(store.length + 2)).catch(() => {});
    }
    throw error;
  }
}

async function sendSegment(transfer, store, name, start, end) {
  const { file, stop } = transfer;
  for (let attempt = 1; ; attempt += 1) {
    try {
      const answer = await upload(path(store, name), file.slice(start, end), {
        onProgress: (sent) => progress(transfer, start + sent),
        signal: stop.signal,
      });
      const etag = answer.getResponseHeader("Etag")?.replaceAll('"', "");
      return { path: `/${store}/${name}`, size_bytes: end - start, etag };
    } catch (error) {
      const isLasting = error instanceof ApiError && error.status > 0 && error.status < 500;
      if (error.name === "AbortError" || isLasting || attempt === TRIES) throw error;
    }
  }
}

function retry(transfer) {
  Object.assign(transfer, { sent: 0, state: "waits", problem: "", stop: new AbortController() });
  startNext();
}

function stop(transfer) {
  if (transfer.state === "waits") Object.assign(transfer, { state: "stopped", problem: "Stopped." });
  transfer.stop.abort();
  refresh();
}

function clearDone() {
  transfers = transfers.filter((one) => one.state !== "done");
  refresh();
}

function clear() {
  transfers = transfers.filter((one) => one.state === "waits" || one.state === "sends");
  refresh();
}

/** The panel of uploads. */
export function transfersTemplate() {
  if (!transfers.length) return nothing;
  const done = transfers.filter((one) => one.state === "done").length;
  const title = isSending()
    ? `Uploading: ${done} of ${transfers.length} done`
    : `${done} of ${plural(transfers.length, "upload")} done`;
  return html`<section class="transfers" aria-label="Uploads">
    <header>
      <strong role="status">${title}</strong>
      ${isSending()
        ? nothing
        : html`<button class="quiet icon" aria-label="Close the list of uploads" @click=${clear}>
            ${icon("close")}
          </button>`}
    </header>
    <ul>
      ${transfers.slice(-50).map(rowTemplate)}
    </ul>
  </section>`;
}

function rowTemplate(transfer) {
  const { name, file, sent, state, problem } = transfer;
  const canStop = state === "waits" || state === "sends";
  return html`<li class=${state}>
    <span class="name"><bdi>${name}</bdi></span>
    <span class="fine">${sizeText(file.size)}</span>
    ${canStop
      ? html`<button class="quiet icon" aria-label="Stop ${name}" @click=${() => stop(transfer)}>
          ${icon("close")}
        </button>`
      : state === "done"
        ? html`<span class="good" title="Done">${icon("check")}</span>`
        : html`<button class="quiet icon" aria-label="Try ${name} again" title="Try again"
            @click=${() => retry(transfer)}>${icon("reload")}</button>`}
    ${state === "sends"
      ? html`<progress max="1" .value=${file.size ? sent / file.size : 0}
          aria-label="Progress of ${name}"></progress>`
      : nothing}
    ${problem ? html`<span class="problem">${problem}</span>` : nothing}
  </li>`;
}
