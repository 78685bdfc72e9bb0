// SPDX-License-Identifier: Apache-2.0
// Downloads: small objects with the token, large ones by a link of ten minutes.

import { path, request } from "./api.js";
import { baseName, sizeText } from "./names.js";
import { say } from "./page.js";
import { downloadLink } from "./share.js";

/** Up to this size the browser keeps an object in memory while it is loaded. */
const IN_MEMORY_BYTES_MAX = 64 * 1024 * 1024;

/** Store an object, or one version of it, as a file. */
export async function download(container, name, bytes, version) {
  if (bytes > IN_MEMORY_BYTES_MAX && !version) {
    const url = await downloadLink(container, name);
    if (url) saveAs(url, baseName(name));
    return;
  }
  if (bytes > IN_MEMORY_BYTES_MAX) say(`${sizeText(bytes)} are loaded. This takes a while.`);
  const query = version ? { "version-id": version } : {};
  const answer = await request("GET", path(container, name), { query });
  const url = URL.createObjectURL(await answer.blob());
  saveAs(url, baseName(name));
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

function saveAs(url, name) {
  const link = document.createElement("a");
  link.href = url;
  link.download = name.replaceAll("/", "_") || "object";
  link.rel = "noreferrer";
  link.click();
}
