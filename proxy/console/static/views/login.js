// SPDX-License-Identifier: Apache-2.0
// The login: a user and key of tempauth, or a password of Keystone.

import { html, nothing } from "../vendor/lit-html.js";
import { errorTemplate, field, refresh } from "../page.js";
import { loadSettings, logInToKeystone, logInToTempauth } from "../session.js";

/** The page without a session. */
export class LoginView {
  title = "Log in";
  error = null;
  isBusy = false;
  hasKeystone = false;

  async load() {
    this.hasKeystone = Boolean((await loadSettings()).keystone_url);
  }

  async submit(event) {
    event.preventDefault();
    const fields = Object.fromEntries(new FormData(event.target));
    this.isBusy = true;
    this.error = null;
    refresh();
    try {
      await (this.hasKeystone ? logInToKeystone(fields) : logInToTempauth(fields));
      dispatchEvent(new Event("console:login"));
    } catch (error) {
      this.error = error;
    }
    this.isBusy = false;
    refresh();
  }

  template() {
    return html`<div class="login">
      <form class="card" @submit=${(event) => this.submit(event)}>
        <img src="martlet.svg" alt="" width="56" height="56" />
        <h1>martlet console</h1>
        <p class="fine">Log in with your credentials of the object store.</p>
        ${this.hasKeystone ? keystoneFields() : tempauthFields()}
        ${this.error ? errorTemplate(this.error) : nothing}
        <button class="primary" ?disabled=${this.isBusy}>
          ${this.isBusy ? "Logging in …" : "Log in"}
        </button>
      </form>
    </div>`;
  }
}

function tempauthFields() {
  return html`
    ${field("User", "user", {
      hint: "account:user",
      required: true,
      autofocus: true,
      autocomplete: "username",
    })}
    ${field("Key", "key", { type: "password", required: true, autocomplete: "current-password" })}
  `;
}

function keystoneFields() {
  return html`
    ${field("User", "user", { required: true, autofocus: true, autocomplete: "username" })}
    ${field("Password", "key", {
      type: "password",
      required: true,
      autocomplete: "current-password",
    })}
    ${field("Project", "project", { required: true })}
    <details>
      <summary>Domains</summary>
      ${field("Domain of the user", "userDomain", { value: "Default" })}
      ${field("Domain of the project", "projectDomain", { value: "Default" })}
    </details>
  `;
}
