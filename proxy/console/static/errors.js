// SPDX-License-Identifier: Apache-2.0
// Errors of requests, as sentences: what happened, and what to do next.

const SENTENCES = {
  0: ["The server did not answer.", "Check your connection, then try again."],
  400: ["The server refused the request.", "Change what you entered, then try again."],
  401: ["Your session has ended.", "Log in again."],
  403: ["You have no permission for this.", "Ask the owner of the account to allow it."],
  404: ["It does not exist.", "Someone may have deleted it. Reload the list."],
  405: ["This is switched off here.", "Ask your operator whether the account is read-only."],
  409: ["It is in use, or it changed at the same moment.", "Reload, then try again."],
  412: ["The server does not accept this name, or a condition failed.", "Use another name."],
  413: ["It is too large, or a quota is used up.", "Delete something, or ask for a larger quota."],
  422: ["The data changed on the way.", "Upload it again."],
  429: ["There are too many requests.", "Wait a moment, then try again."],
  498: ["There are too many requests.", "Wait a moment, then try again."],
  507: ["The cluster has no space left.", "Tell your operator."],
};
const SERVER_ERROR = ["The cluster could not do this now.", "Try again in a moment."];

/** A request that failed. `what` and `next` are sentences; `status` 0 means no answer. */
export class ApiError extends Error {
  constructor(status, { what, next, detail = "", transaction = "" } = {}) {
    const known = SENTENCES[status] ?? (status >= 500 ? SERVER_ERROR : SENTENCES[400]);
    super(what ?? known[0]);
    this.status = status;
    this.what = what ?? known[0];
    this.next = next ?? known[1];
    this.detail = detail;
    this.transaction = transaction;
  }
}

/** The text of an error page: the server escapes what it quotes in it. */
export function plainText(page) {
  if (!page.startsWith("<")) return unescaped(page).trim().slice(0, 300);
  const paragraph = /<p>([^<]*)<\/p>/.exec(page);
  return paragraph ? unescaped(paragraph[1]).trim().slice(0, 300) : "";
}

function unescaped(text) {
  return text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}
