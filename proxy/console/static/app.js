// SPDX-License-Identifier: Apache-2.0
// The frame of the page: which view is shown, the head, and what is on its way.

import { html, nothing, render } from "./vendor/lit-html.js";
import { AccountView } from "./views/account.js";
import { BucketView } from "./views/bucket.js";
import { ClusterView } from "./views/cluster.js";
import { LoginView } from "./views/login.js";
import { ObjectView } from "./views/object.js";
import { SettingsView } from "./views/settings.js";
import { VersionsView } from "./views/versions.js";
import { wordsOf } from "./names.js";
import {
  dialogTemplate,
  errorTemplate,
  icon,
  messagesTemplate,
  refresh,
  say,
  setDraw,
} from "./page.js";
import { logOut, session } from "./session.js";
import { isSending, transfersTemplate } from "./transfers.js";

const VIEWS = {
  "": AccountView,
  bucket: BucketView,
  cluster: ClusterView,
  object: ObjectView,
  settings: SettingsView,
  versions: VersionsView,
};

let view = null;
let error = null;
let isLoading = false;
let isLoaded = false;

/** Show what the address names. */
async function open() {
  const [kind, ...words] = wordsOf(location.hash);
  const View = session ? (VIEWS[kind] ?? AccountView) : LoginView;
  const opened = new View(...words);
  view = opened;
  isLoaded = false;
  await load();
  if (view === opened && session) document.querySelector("main").focus({ preventScroll: true });
}

/** Load what the view shows, also anew: then it stays visible meanwhile. */
async function load() {
  const loaded = view;
  error = null;
  isLoading = true;
  document.title = `${view.title} · martlet console`;
  refresh();
  try {
    await loaded.load();
    if (view === loaded) isLoaded = true;
  } catch (problem) {
    if (view === loaded) error = problem;
  }
  if (view !== loaded) return;
  isLoading = false;
  refresh();
}

function leave() {
  logOut();
  location.hash = "";
  open();
}

/** After the end of a session: a login, and from there back to the same page. */
function expire() {
  if (!session) return;
  logOut();
  say("Your session has ended. Log in again.", "bad");
  open();
}

function headTemplate() {
  return html`<header>
    <a class="brand" href="#/" aria-label="martlet">
      <img src="martlet.svg" alt="" width="28" height="28" /><span class="wide-only">martlet</span>
    </a>
    <nav aria-label="Main">
      <a href="#/" aria-current=${view.section === "buckets" ? "page" : nothing}>
        ${icon("bucket")}Buckets
      </a>
      ${session.isOperator
        ? html`<a href="#/cluster" aria-current=${view.section === "cluster" ? "page" : nothing}>
            ${icon("ring")}Cluster
          </a>`
        : nothing}
    </nav>
    <span class="who" title="You are logged in as this user">${session.user}</span>
    <button @click=${leave}>Log out</button>
  </header>`;
}

function pageTemplate() {
  let body = nothing;
  if (error) body = html`${errorTemplate(error, load)}<p><a href="#/">All buckets</a></p>`;
  else if (isLoaded) body = view.template();
  return html`
    <a class="skip" href="#main" @click=${skip}>Skip to the content</a>
    ${session ? headTemplate() : nothing}
    <div class="loading ${isLoading ? "on" : ""}" role="progressbar" aria-label="Loading"
      ?hidden=${!isLoading}></div>
    <main id="main" tabindex="-1" aria-busy=${isLoading}>${body}</main>
    ${transfersTemplate()} ${messagesTemplate()} ${dialogTemplate()}
  `;
}

function skip(event) {
  event.preventDefault();
  document.querySelector("main").focus();
}

addEventListener("hashchange", open);
addEventListener("console:reload", load);
addEventListener("console:login", open);
addEventListener("console:expired", expire);
addEventListener("beforeunload", (event) => {
  if (isSending()) event.preventDefault();
});
setDraw(() => render(pageTemplate(), document.querySelector("#app")));
open();
