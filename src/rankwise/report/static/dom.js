// Elements, numbers and downloads. Text only ever enters the page as text nodes, whatever a run is called.
const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const h = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) => fill(document.createElementNS(SVG_NAMESPACE, name), attributes, children);
const byId = (id) => document.getElementById(id);

// "0.0123", "12,300", "1.2e-7": three digits, or as many as `digits` says.
function shown(value, digits = 3) {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return Array.isArray(value) ? value.map((one) => shown(one)).join(", ") : String(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e15) return value.toLocaleString("en");
  if (size < 1e-4 || size >= 1e7) return value.toExponential(digits - 1).replace("e+", "e");
  const rounded = Number(value.toPrecision(digits));
  return size >= 1000 ? rounded.toLocaleString("en") : trimmed(rounded.toFixed(decimals(rounded, digits)));
}

const decimals = (value, digits) => Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value) || 1)));
const trimmed = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

function withSpread(error, spread) {
  return spread ? `${shown(error)} ± ${shown(spread, 2)}` : shown(error);
}

// Large counts in words a person reads at once: "1.33 M".
function amount(value) {
  for (const [size, unit] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"]]) {
    if (value >= size) return `${shown(value / size)} ${unit}`;
  }
  return value >= 1e5 ? `${shown(value / 1e3)} k` : shown(Math.round(value));
}

function bytes(value) {
  for (const [size, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (value >= size) return `${shown(value / size)} ${unit}`;
  }
  return `${shown(value)} B`;
}

function duration(seconds) {
  if (seconds < 90) return `${shown(seconds)} s`;
  if (seconds < 5400) return `${shown(seconds / 60)} min`;
  return seconds < 172800 ? `${shown(seconds / 3600)} h` : `${shown(seconds / 86400)} days`;
}

const instant = (seconds) => (seconds === null ? "–" : new Date(1000 * seconds).toISOString().replace("T", " ").slice(0, 19) + " UTC");
const plural = (count, word) => `${shown(count)} ${word}${count === 1 ? "" : "s"}`;
const distinct = (values) => [...new Set(values)];
const ascending = (a, b) => a - b;

// A cell that no spreadsheet takes for a formula, quoted as RFC 4180 wants it.
function csvCell(value) {
  if (value === null || value === undefined) return "";
  let text = typeof value === "object" ? JSON.stringify(value) : String(value);
  if (typeof value === "string" && /^\s*[=+\-@]/.test(text) && !(text.trim() !== "" && isFinite(text))) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const csv = (columns, rows) => [columns, ...rows].map((row) => row.map(csvCell).join(",") + "\r\n").join("");

function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

const fileName = (title, ending) => `${title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "") || "figure"}.${ending}`;

// The data blocks of the page, each read once.
const documents = {};
function pageData(id) {
  if (!(id in documents)) {
    const block = byId(id);
    documents[id] = block ? JSON.parse(block.textContent) : null;
  }
  return documents[id];
}
