// SPDX-License-Identifier: Apache-2.0
// Links that work without a login: temporary URLs (doc/tempurl.md).

import { html, nothing } from "./vendor/lit-html.js";
import { head, info, path, request } from "./api.js";
import { ApiError } from "./errors.js";
import { baseName, fromHeader, timeText } from "./names.js";
import { askUser, attempt, field, icon, refresh } from "./page.js";
import { session } from "./session.js";

const KEY = "Temp-URL-Key";
const LIFETIMES = [
  [3600, "1 hour"],
  [86400, "1 day"],
  [7 * 86400, "7 days"],
  [30 * 86400, "30 days"],
];

/** Ask how long a link shall work, make it, and show it. */
export async function shareObject(container, name) {
  await checkAbility();
  const key = await signingKey(container, name);
  if (!key) return;
  const link = await askUser({
    title: `Share “${baseName(name)}”`,
    action: "Make the link",
    body: lifetimeTemplate,
    submit: async ({ seconds, inline }) => {
      const expires = Math.floor(Date.now() / 1000) + Number(seconds);
      return { url: await temporaryUrl(container, name, key, expires, { inline }), expires };
    },
  });
  if (link) await showLink(name, link);
}

/** A link for a download that starts within ten minutes; undefined without the user's consent. */
export async function downloadLink(container, name) {
  await checkAbility();
  const key = await signingKey(container, name);
  if (!key) return undefined;
  const expires = Math.floor(Date.now() / 1000) + 600;
  return temporaryUrl(container, name, key, expires, { filename: baseName(name) });
}

async function checkAbility() {
  const { tempurl } = await info();
  if (!tempurl?.allowed_digests?.includes("sha256")) {
    throw new ApiError(405, {
      what: "This cluster has no temporary URLs with SHA-256.",
      next: "Ask your operator for the filter tempurl.",
    });
  }
  if (!crypto.subtle) {
    throw new ApiError(405, {
      what: "The browser signs links on secure pages only.",
      next: "Open the console by HTTPS.",
    });
  }
}

/**
 * The key that signs: that of the account or of the bucket. Without one, the user may let the
 * console make it. A large object needs that of the account: its segments lie in another bucket.
 */
async function signingKey(container, name) {
  const [account, bucket, object] = await Promise.all([
    head(),
    head(container),
    head(container, name),
  ]);
  const isLarge = object.has("X-Static-Large-Object") || object.has("X-Object-Manifest");
  const known = keyOf(account, "Account") ?? (isLarge ? null : keyOf(bucket, "Container"));
  if (known) return known;
  const [kind, target, of] = isLarge
    ? ["Account", path(), "account"]
    : ["Container", path(container), `bucket “${container}”`];
  return askUser({
    title: "Make a key for links?",
    action: "Make the key",
    body: () => html`<p>
        A link is signed with a key that is stored with the ${of}. There is none yet. The console
        makes a random one, which only owners can read.
      </p>
      <p>Whoever has a link can read that object until the link expires, without a login.</p>`,
    submit: async () => {
      const bytes = crypto.getRandomValues(new Uint8Array(32));
      const key = hex(bytes);
      await request("POST", target, { headers: { [`X-${kind}-Meta-${KEY}`]: key } });
      return key;
    },
  });
}

function keyOf(headers, kind) {
  const value = headers.get(`X-${kind}-Meta-${KEY}`) ?? headers.get(`X-${kind}-Meta-${KEY}-2`);
  return value ? fromHeader(value) : null;
}

function hex(buffer) {
  return Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function temporaryUrl(container, name, key, expires, { inline, filename }) {
  const message = `GET\n${expires}\n${decodeURIComponent(session.account)}/${container}/${name}`;
  const encoder = new TextEncoder();
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const hmac = await crypto.subtle.importKey("raw", encoder.encode(key), algorithm, false, ["sign"]);
  const signature = hex(await crypto.subtle.sign("HMAC", hmac, encoder.encode(message)));
  const url = new URL(path(container, name), location.origin);
  url.search = new URLSearchParams({ temp_url_sig: signature, temp_url_expires: expires });
  if (filename) url.searchParams.set("filename", filename);
  return inline ? `${url.href}&inline` : url.href;
}

function lifetimeTemplate() {
  return html`<label class="field">
      <span>The link works for</span>
      <select name="seconds" autofocus>
        ${LIFETIMES.map(([seconds, text]) => html`<option .value=${String(seconds)}>${text}</option>`)}
      </select>
    </label>
    <label class="check">
      <input type="checkbox" name="inline" /> Show it in the browser, where that is possible
    </label>`;
}

async function showLink(name, { url, expires }) {
  const works = await fetch(url, { method: "HEAD", credentials: "omit", cache: "no-store" }).then(
    (answer) => answer.ok,
    () => false,
  );
  let isCopied = false;
  const copy = () =>
    attempt(async () => {
      await navigator.clipboard.writeText(url);
      isCopied = true;
      refresh();
    });
  await askUser({
    title: `Link to “${baseName(name)}”`,
    isWide: true,
    body: () => html`
      ${field("Anyone with this link can read the object", "link", { value: url, isFixed: true })}
      <p class="fine">It works until ${timeText(new Date(expires * 1000))}.</p>
      ${works
        ? nothing
        : html`<div class="notice">
            The key is new. The link works at all servers within a minute.
          </div>`}
      <button type="button" autofocus @click=${copy}>
        ${icon(isCopied ? "check" : "copy")}${isCopied ? "Copied" : "Copy the link"}
      </button>
    `,
  });
}
