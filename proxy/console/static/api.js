// SPDX-License-Identifier: Apache-2.0
// The Swift API of the proxy that served this page.

import { ApiError, plainText } from "./errors.js";
import { fromHeader, pathOf } from "./names.js";
import { ask, session } from "./session.js";

/** Rows of one page of a listing. */
export const PAGE = 200;

/** The path of a container or an object in the user's account. */
export function path(container, object) {
  return pathOf(session.account, container, object);
}

/** Send a request. Resolves to the `Response`; a status from 300 on is an `ApiError`. */
export async function request(method, target, { query = {}, headers = {}, body, signal } = {}) {
  const parameters = new URLSearchParams(query).toString();
  const answer = await ask(parameters ? `${target}?${parameters}` : target, {
    method,
    headers: { ...headers, "X-Auth-Token": session.token },
    body,
    signal,
    cache: "no-store",
  });
  if (!answer.ok) throw await errorOf(answer);
  return answer;
}

async function errorOf(answer) {
  const page = await answer.text().catch(() => "");
  return apiError(answer.status, page, answer.headers.get("X-Trans-Id"));
}

function apiError(status, page, transaction) {
  if (status === 401) dispatchEvent(new Event("console:expired"));
  return new ApiError(status, { detail: plainText(page), transaction: transaction ?? "" });
}

/** Rows of an account (without a container) or of a container. */
export async function list(container, query = {}) {
  const answer = await request("GET", path(container), {
    query: { format: "json", limit: PAGE, ...query },
  });
  return answer.status === 204 ? [] : answer.json();
}

/** All rows of a listing, page by page; for folders and versions. */
export async function* listAll(container, query = {}) {
  let marker = {};
  for (;;) {
    const rows = await list(container, { ...query, ...marker, limit: 1000 });
    yield* rows;
    if (rows.length < 1000) return;
    const last = rows.at(-1);
    marker = { marker: last.name ?? last.subdir };
    if (last.version_id) marker.version_marker = last.version_id;
  }
}

/** The headers of an account, a container or an object. */
export async function head(container, object, query = {}) {
  return (await request("HEAD", path(container, object), { query })).headers;
}

/** Metadata with a prefix such as X-Object-Meta-, as `[[name, value]]`, sorted. */
export function metadataOf(headers, prefix) {
  const found = [];
  for (const [name, value] of headers) {
    if (name.startsWith(prefix.toLowerCase())) {
      found.push([name.slice(prefix.length), fromHeader(value)]);
    }
  }
  return found.sort((one, other) => one[0].localeCompare(other[0]));
}

let cluster = null;

/** What the cluster can do and its limits: /info. */
export async function info() {
  cluster ??= await (await request("GET", "/info")).json();
  return cluster;
}

/** Delete an object; of a large object also its segments, unless a version may need them. */
export async function remove(container, object, { isLarge = false, version } = {}) {
  const query = {};
  if (version) query["version-id"] = version;
  else if (isLarge) query["multipart-manifest"] = "delete";
  const answer = await request("DELETE", path(container, object), { query });
  if (isLarge && !version) await checkReport(answer);
}

/** The answer to a bulk request is 200 even if parts of it failed. */
async function checkReport(answer) {
  const report = await answer.text();
  const status = /^Response Status: (\d+)(.*)$/m.exec(report);
  if (status && !status[1].startsWith("2")) {
    throw new ApiError(Number(status[1]), { detail: report.slice(0, 300) });
  }
}

/**
 * Send a body, with progress, which `fetch` does not tell.
 * `onProgress` gets the bytes sent so far; `signal` stops it.
 */
export function upload(target, body, { query = {}, headers = {}, onProgress, signal }) {
  return new Promise((resolve, reject) => {
    const sender = new XMLHttpRequest();
    const parameters = new URLSearchParams(query).toString();
    sender.open("PUT", parameters ? `${target}?${parameters}` : target);
    sender.setRequestHeader("X-Auth-Token", session.token);
    for (const [name, value] of Object.entries(headers)) sender.setRequestHeader(name, value);
    sender.upload.onprogress = (event) => onProgress?.(event.loaded);
    sender.onload = () => {
      if (sender.status >= 200 && sender.status < 300) {
        resolve(sender);
        return;
      }
      const transaction = sender.getResponseHeader("X-Trans-Id");
      reject(apiError(sender.status, sender.responseText, transaction));
    };
    sender.onerror = () => reject(new ApiError(0));
    sender.onabort = () => reject(new DOMException("The upload was stopped.", "AbortError"));
    signal?.addEventListener("abort", () => sender.abort());
    if (signal?.aborted) reject(new DOMException("The upload was stopped.", "AbortError"));
    else sender.send(body);
  });
}
