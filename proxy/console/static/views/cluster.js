// SPDX-License-Identifier: Apache-2.0
// For operators: the rings, devices, replication, and what is wrong.

import { html, nothing } from "../vendor/lit-html.js";
import { request } from "../api.js";
import { countText, plural, sizeText, spanText } from "../names.js";
import { figure, icon, refresh } from "../page.js";
import { inOrder, ringTemplate, stateOf } from "../ring.js";

/** The cluster as its proxy sees it. */
export class ClusterView {
  title = "Cluster";
  section = "cluster";
  chosen = null;

  async load() {
    const state = await (await request("GET", "api/cluster")).json();
    const rows = new Map();
    for (const server of state.servers) {
      for (const one of server.devices) rows.set(`${server.kind} ${server.name} ${one.device}`, one);
    }
    const silent = new Set(state.servers.filter(isSilent).map((one) => `${one.kind} ${one.name}`));
    for (const ring of state.rings) {
      const kind = ring.name.split(",")[0];
      for (const device of ring.devices) {
        const server = `${kind} ${addressOf(device)}`;
        Object.assign(device, rows.get(`${server} ${device.device}`));
        device.isSilent = silent.has(server);
      }
    }
    this.state = state;
    this.chosen ??= state.rings.find((ring) => ring.name.startsWith("object")).name;
  }

  template() {
    const { rings, servers, problems } = this.state;
    const ring = rings.find((one) => one.name === this.chosen) ?? rings[0];
    const devices = rings.filter((one) => one.name.startsWith("object")).flatMap((one) => one.devices);
    const disks = [...new Map(devices.map((one) => [`${addressOf(one)} ${one.device}`, one])).values()];
    const [used, size] = ["used", "size"].map((name) =>
      disks.reduce((sum, one) => sum + (one[name] ?? 0), 0),
    );
    const ages = servers.map((one) => one.replication_age);
    const oldest = ages.includes(null) ? NaN : Math.max(...ages);
    return html`
      <div class="title">
        <h1>Cluster</h1>
        <button @click=${() => dispatchEvent(new Event("console:reload"))}>
          ${icon("reload")}Reload
        </button>
      </div>
      ${problemsTemplate(problems)}
      <div class="figures">
        ${figure("Devices of objects", countText(disks.length), {
          note: plural(new Set(disks.map((one) => one.ip)).size, "host"),
        })}
        ${figure("In use", sizeText(used), {
          share: size ? used / size : undefined,
          note: `of ${sizeText(size)}; devices on one file system count it each`,
        })}
        ${figure("Oldest last replication", spanText(oldest), { note: "of all servers" })}
      </div>
      <section class="card" aria-labelledby="ring-title">
        <div class="title">
          <h2 id="ring-title">Ring</h2>
          <select aria-label="Ring" @change=${(event) => this.choose(event.target.value)}>
            ${rings.map(
              ({ name }) =>
                html`<option .value=${name} ?selected=${name === this.chosen}>${name}</option>`,
            )}
          </select>
        </div>
        <div class="ring-and-devices">${ringTemplate(ring)} ${devicesTemplate(ring)}</div>
      </section>
      ${serversTemplate(servers)}
    `;
  }

  choose(name) {
    this.chosen = name;
    refresh();
  }
}

function isSilent(server) {
  return server.problems[0]?.startsWith("it does not answer") ?? false;
}

function addressOf({ ip, port }) {
  return ip.includes(":") ? `[${ip}]:${port}` : `${ip}:${port}`;
}

function problemsTemplate(problems) {
  if (!problems.length) {
    return html`<div class="notice good" role="status"><strong>No problem found.</strong></div>`;
  }
  return html`<div class="notice bad" role="alert">
    <strong>${plural(problems.length, "problem")}</strong>
    <ul>
      ${problems.map((problem) => html`<li>${problem}.</li>`)}
    </ul>
  </div>`;
}

function devicesTemplate(ring) {
  return html`<table>
    <thead>
      <tr>
        <th scope="col">Device</th>
        <th scope="col" class="wide-only">Region/zone</th>
        <th scope="col" class="number wide-only">Weight</th>
        <th scope="col" class="number">Partitions</th>
        <th scope="col" class="number">Used</th>
        <th scope="col">State</th>
      </tr>
    </thead>
    <tbody>
      ${inOrder(ring.devices).map(deviceTemplate)}
    </tbody>
  </table>`;
}

function deviceTemplate(device) {
  const [kind, words] = stateOf(device);
  return html`<tr>
    <td><strong>${device.device}</strong><br /><span class="fine">${addressOf(device)}</span></td>
    <td class="wide-only">${device.region}/${device.zone}</td>
    <td class="number wide-only">${device.weight}</td>
    <td class="number">${countText(device.partitions)}</td>
    <td class="number">
      ${device.size ? `${Math.round((100 * device.used) / device.size)} %` : "–"}
    </td>
    <td><span class="tag ${kind}">${words}</span></td>
  </tr>`;
}

function serversTemplate(servers) {
  return html`<section class="card" aria-labelledby="servers-title">
    <h2 id="servers-title">Servers</h2>
    <table>
      <thead>
        <tr>
          <th scope="col">Server</th>
          <th scope="col" class="number">Last replication</th>
          <th scope="col" class="number">Failures</th>
          <th scope="col" class="number wide-only">Waiting updates</th>
          <th scope="col" class="number wide-only">Quarantined</th>
          <th scope="col" class="wide-only">Version</th>
        </tr>
      </thead>
      <tbody>
        ${servers.map(
          (server) => html`<tr>
            <td>
              <strong>${server.kind}</strong> ${server.name}
              ${server.problems.length ? html`<span class="tag warn">look</span>` : nothing}
            </td>
            <td class="number">${spanText(server.replication_age ?? NaN)}</td>
            <td class="number">${countText(server.failures ?? NaN)}</td>
            <td class="number wide-only">${countText(server.pending ?? NaN)}</td>
            <td class="number wide-only">${countText(server.quarantined ?? NaN)}</td>
            <td class="wide-only">${server.version ?? "–"}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  </section>`;
}
