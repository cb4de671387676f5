// Every run in a table that sorts and filters; those that ended without a result stand apart.
function initRuns(data) {
  if (!data) return;
  const varying = Object.keys(data.runs.reduce((keys, run) => Object.assign(keys, run.spec), {}));
  const telling = ["task.name", "model.dim", "model.layers", "model.heads", "model.rank", "protocol", "seed", "tags"]
    .filter((key) => varying.includes(key) || ["model.heads", "model.rank", "seed"].includes(key));
  const indexed = data.runs.map((run, index) => ({ run, index, spec: specOf(data, run) }));
  const open = ({ run, index }) => openProvenance(data, [index], `Run ${run.id}`);
  const id = { label: "run", value: ({ run }) => run.id, show: (value) => value.slice(0, 8) };
  const specColumns = telling.map((key) => ({ label: key.split(".").at(-1), value: ({ spec }) => spec[key] }));
  const failed = byId("failures-body");
  if (failed) {
    const rows = indexed.filter(({ run }) => !["done", "pending", "running"].includes(run.status));
    failed.append(sortable({
      caption: "Runs that ended without a result", rows, opened: open,
      columns: [id, { label: "outcome", value: ({ run }) => run.status }, { label: "reason", value: ({ run }) => run.reason, show: (value) => (value ?? "").split("\n")[0] }, ...specColumns, { label: "attempts", value: ({ run }) => run.attempts }],
    }));
  }
  const host = byId("runs-body");
  if (!host) return;
  const columns = [
    id, { label: "status", value: ({ run }) => run.status }, ...specColumns,
    { label: "error", value: ({ run }) => run.result.error }, { label: "standard error", value: ({ run }) => run.result.error_se, show: (value) => shown(value, 2) },
    { label: "parameters", value: ({ run }) => run.result.parameters }, { label: "steps", value: ({ run }) => run.result.steps }, { label: "seconds", value: ({ run }) => run.seconds, show: (value) => shown(value) },
  ];
  const search = h("input", { type: "search", id: "run-filter", placeholder: "rank 8, seed 1, an id …" });
  const table = h("div", {}), count = h("span", { class: "note", role: "status" });
  host.append(h("p", { class: "field" }, h("label", { for: "run-filter" }, "Filter"), search, count), h("div", { class: "tools" },
    h("button", { type: "button", class: "quiet", "data-get": "csv", onclick: () => download("runs.csv", "text/csv", allRuns(data)) }, "Download all runs as CSV")), table);
  const text = indexed.map(({ run, spec }) => [run.status, ...telling.map((key) => `${key.split(".").at(-1)} ${shown(spec[key])}`)].join(" ").replaceAll(",", "").toLowerCase());
  // The beginning of any word, but numbers are whole: rank 8 is not rank 80. Only an id may end anywhere.
  const finds = (word, { run }, at) => run.id.startsWith(word) || ` ${text[at]} `.includes(/\d$/.test(word) ? ` ${word} ` : ` ${word}`);
  function draw() {
    // A comma before three digits is part of a number as the table shows it.
    const words = search.value.toLowerCase().split(/;|,(?!\d{3}\b)/).map((word) => word.replaceAll(",", "").trim()).filter(Boolean);
    const rows = indexed.filter((one, at) => words.every((word) => finds(word, one, at)));
    count.textContent = words.length ? `${shown(rows.length)} of ${plural(indexed.length, "run")}` : "";
    table.replaceChildren(sortable({ caption: `${plural(rows.length, "run")}`, columns, rows, opened: open }));
  }
  search.addEventListener("input", draw);
  draw();
}

// One row per run, every key of its spec and its result, at full precision.
function allRuns(data) {
  const specs = data.runs.map((run) => specOf(data, run));
  const specKeys = distinct(specs.flatMap(Object.keys)), resultKeys = distinct(data.runs.flatMap((run) => Object.keys(run.result)));
  const columns = ["run_id", "status", ...specKeys, ...resultKeys.map((key) => `result.${key}`), "reason", "attempts", "seconds"];
  return csv(columns, data.runs.map((run, at) => [run.id, run.status, ...specKeys.map((key) => specs[at][key]), ...resultKeys.map((key) => run.result[key]), run.reason, run.attempts, run.seconds]));
}
