// SPDX-License-Identifier: Apache-2.0
// Who is logged in. The token is kept for this tab only, and never stands in a URL.

import { ApiError, plainText } from "./errors.js";
import { toHeader } from "./names.js";

const KEY = "martlet.session";

/** `{token, account, user, isOperator}` of the user who is logged in; null without one. */
export let session = restore();
let settings = null;

function restore() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY));
  } catch {
    return null;
  }
}

async function keep(token, account, user) {
  const isOperator = await askIsOperator(token);
  session = { token, account, user, isOperator };
  sessionStorage.setItem(KEY, JSON.stringify(session));
}

/** Whether the user may see the cluster; without an answer, the rest of the console works. */
async function askIsOperator(token) {
  try {
    const headers = { "X-Auth-Token": token };
    const answer = await ask("api/user", { headers, cache: "no-store" });
    return answer.ok && (await answer.json()).is_operator;
  } catch {
    return false;
  }
}

/** Forget the user and the token. */
export function logOut() {
  session = null;
  sessionStorage.clear();
}

/** The settings of the console: `{auth_path, keystone_url}`. */
export async function loadSettings() {
  if (!settings) {
    const answer = await ask("settings.json", { cache: "no-store" });
    if (!answer.ok) throw new ApiError(answer.status);
    settings = await answer.json();
  }
  return settings;
}

/** Log in at tempauth: `user` is account:user. */
export async function logInToTempauth({ user, key }) {
  const { auth_path: path } = await loadSettings();
  const headers = { "X-Auth-User": toHeader(user), "X-Auth-Key": toHeader(key) };
  const answer = await ask(path, { headers });
  if (answer.status === 401) throw wrongCredentials("user name or key");
  if (!answer.ok) throw new ApiError(answer.status, { detail: plainText(await answer.text()) });
  const token = answer.headers.get("X-Auth-Token");
  await keep(token, accountPath(answer.headers.get("X-Storage-Url")), user);
}

/** Log in at Keystone with a password, for one project. */
export async function logInToKeystone({ user, key, userDomain, project, projectDomain }) {
  const { keystone_url: url } = await loadSettings();
  const person = { name: user, domain: { name: userDomain || "Default" }, password: key };
  const scope = { name: project, domain: { name: projectDomain || "Default" } };
  const identity = { methods: ["password"], password: { user: person } };
  const answer = await ask(`${url}/auth/tokens`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ auth: { identity, scope: { project: scope } } }),
  });
  if (answer.status === 401) throw wrongCredentials("user name, password or project");
  if (!answer.ok) throw new ApiError(answer.status);
  const { token } = await answer.json();
  const service = token.catalog?.find((one) => one.type === "object-store");
  const endpoint = service?.endpoints.find((one) => one.interface === "public");
  if (!endpoint) {
    throw new ApiError(404, {
      what: "Keystone lists no object store for this project.",
      next: "Ask your operator to add the endpoint to Keystone's catalog.",
    });
  }
  await keep(answer.headers.get("X-Subject-Token"), accountPath(endpoint.url), `${user} · ${project}`);
}

function wrongCredentials(which) {
  return new ApiError(401, { what: `Wrong ${which}.`, next: "Check your entries, then try again." });
}

/** Only the path counts: the console uses the server that it came from. */
function accountPath(url) {
  return new URL(url, location.href).pathname.replace(/\/$/, "");
}

/** `fetch` without cookies; no answer is an `ApiError` of status 0. */
export async function ask(url, options = {}) {
  try {
    return await fetch(url, { credentials: "omit", redirect: "error", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0);
  }
}
