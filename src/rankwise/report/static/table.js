// Tables that sort by a click or the keyboard, and stay quick with thousands of rows.
const FIRST_ROWS = 200;

// columns: {label, value(row), show(value, row)?, numeric?}; opened(row) makes a row lead to its provenance.
function sortable({ caption, columns, rows, opened = null, sorted = null }) {
  let order = sorted, all = false;
  const numeric = columns.map((column) => column.numeric ?? rows.some((row) => typeof column.value(row) === "number"));
  const body = h("tbody");
  const heads = columns.map((column, at) =>
    h("th", { scope: "col", class: numeric[at] ? "number" : null, "aria-sort": "none" },
      h("button", { type: "button", onclick: () => sortBy(at) }, column.label)));
  const more = h("button", { type: "button", class: "quiet", onclick: () => { all = true; draw(); } });

  function sortBy(at) {
    order = { at, falling: order?.at === at ? !order.falling : false };
    draw();
  }

  function draw() {
    const found = [...rows];
    if (order) {
      const value = columns[order.at].value, sign = order.falling ? -1 : 1;
      found.sort((a, b) => sign * compare(value(a), value(b)));
    }
    heads.forEach((head, at) => head.setAttribute("aria-sort", order?.at === at ? (order.falling ? "descending" : "ascending") : "none"));
    const visible = all ? found : found.slice(0, FIRST_ROWS);
    body.replaceChildren(...visible.map(line));
    more.hidden = visible.length === found.length;
    more.textContent = `Show all ${shown(found.length)} rows`;
  }

  function line(row) {
    return h("tr", {}, columns.map((column, at) => {
      const value = column.value(row);
      const text = column.show ? column.show(value, row) : shown(value, 4);
      const content = at === 0 && opened ? h("button", { type: "button", class: "link", onclick: () => opened(row) }, text) : text;
      return at === 0 ? h("th", { scope: "row", class: numeric[at] ? "number" : null }, content) : h("td", { class: numeric[at] ? "number" : null }, content);
    }));
  }

  draw();
  return h("div", {},
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
      h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, heads)), body)),
    more);
}

// Numbers before text, missing values last.
function compare(a, b) {
  const missing = (value) => value === null || value === undefined || value === "";
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}
