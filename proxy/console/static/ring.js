// SPDX-License-Identifier: Apache-2.0
// A ring as a picture: zones inside, then servers, then devices, each as wide as its partitions.

import { svg } from "./vendor/lit-html.js";
import { countText, sizeText } from "./names.js";

const LEVELS = [
  { inner: 62, outer: 92, key: (one) => `region ${one.region}, zone ${one.zone}` },
  {
    inner: 95,
    outer: 125,
    key: (one) => `${one.region}/${one.zone}/${one.ip}`,
    name: (one) => one.ip,
  },
  { inner: 128, outer: 172, key: (one) => one.id, name: (one) => one.device },
];
const FULL_SHARE = 0.9;

/** The place of a device in its ring. */
function place(one) {
  return [one.region, one.zone, one.ip, one.port, one.device];
}

/** The devices in the order of the picture: neighbours are in the same zone and server. */
export function inOrder(devices) {
  return [...devices].sort((one, other) => {
    const [left, right] = [place(one), place(other)];
    const index = left.findIndex((value, position) => value !== right[position]);
    return index < 0 ? 0 : left[index] < right[index] ? -1 : 1;
  });
}

/** "bad", "warn" or "good", and the words for it. */
export function stateOf(device) {
  if (device.isSilent) return ["bad", "no answer"];
  if (device.mounted !== true) return ["bad", "cannot be used"];
  if (device.used / device.size >= FULL_SHARE) return ["warn", "nearly full"];
  return ["good", "in use"];
}

function share(device, all) {
  return all ? device.partitions / all : 0;
}

/** Devices that follow each other and have the same key, as one arc. */
function arcsOf(devices, key, all) {
  const arcs = [];
  let start = 0;
  for (const device of devices) {
    const end = start + share(device, all);
    const last = arcs.at(-1);
    if (last?.key === key(device)) {
      last.end = end;
      last.members.push(device);
    } else arcs.push({ key: key(device), start, end, members: [device] });
    start = end;
  }
  return arcs.filter((arc) => arc.end > arc.start);
}

function point(radius, turn) {
  const angle = (turn - 0.25) * 2 * Math.PI;
  return `${(radius * Math.cos(angle)).toFixed(2)} ${(radius * Math.sin(angle)).toFixed(2)}`;
}

/** The outline of a part of a ring; turns are from 0 to 1. A whole ring has two halves. */
function outline(inner, outer, start, end) {
  if (end - start > 0.999) {
    return `${outline(inner, outer, 0, 0.5)} ${outline(inner, outer, 0.5, 0.9985)}`;
  }
  const gap = Math.min(0.0015, (end - start) / 6);
  const [from, to] = [start + gap, end - gap];
  const isLong = to - from > 0.5 ? 1 : 0;
  return `M${point(outer, from)}A${outer} ${outer} 0 ${isLong} 1 ${point(outer, to)}
    L${point(inner, to)}A${inner} ${inner} 0 ${isLong} 0 ${point(inner, from)}Z`;
}

function labelOf(level, arc) {
  const middle = (arc.start + arc.end) / 2;
  const [x, y] = point((level.inner + level.outer) / 2, middle).split(" ");
  const [first] = arc.members;
  const name = level.name ? level.name(first) : `${first.region}/${first.zone}`;
  // Above and below the middle there is room along the arc, beside it only across.
  const along = (arc.end - arc.start) * 2 * Math.PI * level.inner;
  const sidewards = Math.abs(Math.sin(2 * Math.PI * middle));
  const room = Math.min(along, (level.outer - level.inner) / Math.max(sidewards, 0.01));
  const isRoomy = room > name.length * 5.5 + 6;
  return isRoomy ? svg`<text x=${x} y=${y}>${name}</text>` : "";
}

function arcTemplate(level, arc, isDevice, all) {
  const sum = arc.members.reduce((total, one) => total + one.partitions, 0);
  const [device] = arc.members;
  const percent = `${((100 * sum) / all).toFixed(1)} %`;
  let title = `${level.name ? level.name(device) : arc.key}: ${countText(sum)} partitions, ${percent}`;
  let state = "plain";
  let filled = "";
  if (isDevice) {
    const [kind, words] = stateOf(device);
    state = kind;
    title += `, weight ${device.weight}, ${words}`;
    if (device.size) {
      title += `, ${sizeText(device.used)} of ${sizeText(device.size)} used`;
      const top = level.inner + ((level.outer - level.inner) * device.used) / device.size;
      filled = svg`<path class="used" d=${outline(level.inner, top, arc.start, arc.end)} />`;
    }
  }
  return svg`<g class=${state}>
    <title>${title}</title>
    <path d=${outline(level.inner, level.outer, arc.start, arc.end)} />${filled}
    ${labelOf(level, arc)}
  </g>`;
}

/** The picture of a ring. The table beside it says the same in words. */
export function ringTemplate(ring) {
  const devices = inOrder(ring.devices);
  const all = devices.reduce((total, one) => total + one.partitions, 0);
  const levels = LEVELS.map((level, index) =>
    arcsOf(devices, level.key, all).map((arc) => arcTemplate(level, arc, index === 2, all)),
  );
  return svg`<svg class="ring" viewBox="-176 -176 352 352" role="img"
      aria-label="The ring: zones inside, then servers, then devices">
    ${levels}
    <text class="big" y="-6">${countText(ring.partitions)}</text>
    <text y="14">partitions × ${ring.replicas}</text>
  </svg>`;
}
