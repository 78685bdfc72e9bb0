// SPDX-License-Identifier: Apache-2.0
// Names and figures: between what is stored, what stands in a URL, and what people read.

/** The path of an account, a container or an object. Names may hold any character. */
export function pathOf(accountPath, container, object) {
  const names = [container, object].filter((name) => name !== undefined);
  const path = names.map((name) => `/${name.split("/").map(encodeURIComponent).join("/")}`).join("");
  // Browsers resolve the segments "." and "..", but not where the slash before them is encoded.
  return accountPath + path.replace(/\/(?=\.{1,2}(\/|$))/g, "%2F");
}

/** A fragment of the console's own address: `route("bucket", "photos", "2026/")`. */
export function route(...words) {
  return `#/${words.map(encodeURIComponent).join("/")}`;
}

/** The words of a fragment; none if it is malformed. */
export function wordsOf(fragment) {
  try {
    return fragment.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch {
    return [""];
  }
}

/** The last part of an object's name, with the slash of a folder. */
export function baseName(name) {
  return name.slice(name.lastIndexOf("/", name.length - 2) + 1);
}

/** Text as the value of a header: its UTF-8 bytes, one character each. */
export function toHeader(text) {
  return String.fromCharCode(...new TextEncoder().encode(text.trim()));
}

/** The text of a header's value. */
export function fromHeader(value) {
  const bytes = Uint8Array.from(value, (character) => character.charCodeAt(0));
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return value;
  }
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** A number of bytes for people: 1536 is "1.5 KiB". */
export function sizeText(bytes) {
  if (!Number.isFinite(bytes)) return "–";
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

/** Bytes from "10 GiB", "500M" or "1000"; null for no limit, NaN if it is no size. */
export function parseSize(text) {
  if (!text.trim()) return null;
  const match = /^\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGTPE]?)(?:i?B)?\s*$/i.exec(text);
  if (!match) return NaN;
  const power = " KMGTPE".indexOf(match[2].toUpperCase() || " ");
  return Math.round(Number(match[1]) * 1024 ** power);
}

/** A count with separators. */
export function countText(count) {
  return Number.isFinite(count) ? count.toLocaleString("en") : "–";
}

/** A moment in local time; listings have no time zone, and mean UTC. */
export function timeText(moment) {
  const date = moment instanceof Date ? moment : parseTime(moment);
  if (!date || Number.isNaN(date.getTime())) return "–";
  return date.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

function parseTime(text) {
  if (!text) return null;
  return new Date(/^\d{4}-\d\d-\d\dT[\d:.]+$/.test(text) ? `${text.slice(0, 23)}Z` : text);
}

/** "1 object", "2 objects". */
export function plural(count, noun) {
  return `${countText(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Whether a container may have that name; else a sentence that says why not. */
export function containerProblem(name) {
  if (!name) return "Type a name.";
  if (name.includes("/")) return "A name of a container may not contain a slash.";
  if (new TextEncoder().encode(name).length > 256) return "The name is longer than 256 bytes.";
  return "";
}

/** A number of seconds for people: "40 s", "3 min", "5 h", "2 days". */
export function spanText(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}
