// Connects the parts of the page.

import { make, plural } from "./dom.js";
import { Filter } from "./filter.js";
import { MapView } from "./map.js";
import * as paint from "./paint.js";
import { Details, WaitingPods, WhatIf } from "./panels.js";
import { Store } from "./store.js";
import { Table } from "./table.js";

const $ = (id) => document.getElementById(id);
const store = new Store();
const filter = new Filter(store, $("filters"));
const view = new MapView(store, filter, { map: $("map"), canvas: $("canvas"), space: $("space"), tip: $("tip"), live: $("live") });
const whatif = new WhatIf(view);
const details = new Details(store, view, whatif);
const waiting = new WaitingPods(view, whatif);
const table = new Table(store, filter, $("table"), (found) => details.open(found));

function showMeta() {
  const { meta } = store;
  $("source").textContent = meta.source;
  filter.offer(meta);
  waiting.show(meta.waiting);
  $("problems").hidden = meta.problems.length === 0;
  $("problems-count").textContent = `(${meta.problems.length})`;
  $("problems-list").replaceChildren(...meta.problems.map((p) => make("li", {}, p)));
}

function showCounts() {
  const sum = { devices: 0, free: 0, allocated: 0, shared: 0, blocked: 0, unknown: 0, tainted: 0, conflicts: 0 };
  let nodes = 0;
  for (const tile of store.tiles.values()) {
    const counts = store.counts(tile);
    for (const key in sum) sum[key] += counts[key];
    if (!tile.x) nodes++;
  }
  if (!store.version) { $("summary").textContent = "The cluster is being read …"; return; }
  const parts = [plural(nodes, "node"), plural(sum.devices, "device")];
  for (const key of ["free", "allocated", "shared", "blocked", "unknown", "tainted"]) if (sum[key]) parts.push(`${sum[key].toLocaleString("en")} ${key}`);
  if (sum.conflicts) parts.push(`${sum.conflicts} held twice`);
  if (store.meta.without) parts.push(`${plural(store.meta.without, "node")} without devices`);
  const text = parts.join(" · ");
  if ($("summary").textContent !== text) $("summary").textContent = text;
  filter.count();
}

function legend() {
  const all = [["f", 0, false, "free"], ["a", 0, false, "allocated"], ["s", 60, false, "shared, by how much"], ["x", 0, false, "blocked by others on its counters"], ["f", 0, true, "tainted"], ["?", 0, false, "unknown"]];
  const ratio = devicePixelRatio || 1;
  $("legend").replaceChildren(...all.map(([state, level, tainted, words]) => {
    const canvas = make("canvas", { width: 14 * ratio, height: 14 * ratio, "aria-hidden": "true" });
    canvas.style.width = canvas.style.height = "14px";
    const c = canvas.getContext("2d");
    c.scale(ratio, ratio);
    paint.cell(c, 0, 0, 14, 14, state, level, tainted);
    return make("li", {}, canvas, words);
  }), make("li", {}, "red: in the chosen pod's way, or nearest"), make("li", {}, "violet: fits"));
}

store.addEventListener("reset", () => { showMeta(); showCounts(); view.layout(); table.render(); mark(); });
store.addEventListener("delta", ({ detail }) => {
  if (detail.meta) showMeta();
  showCounts();
  // With a filter, other tiles may become visible; without, only their looks change.
  if (detail.shape || filter.active) view.layout(); else view.draw();
  if (detail.published || detail.shape) filter.refresh();
  table.render();
  details.changed(detail.tiles);
  waiting.forget();
  whatif.again();
  mark();
});
store.addEventListener("connection", ({ detail }) => { $("connection").textContent = detail.text; $("connection").hidden = !detail.text; });
filter.addEventListener("change", () => { filter.count(); view.layout(); table.render(); mark(); });
view.addEventListener("open", ({ detail }) => details.open(detail));
view.addEventListener("colors", legend);

$("larger").addEventListener("click", () => view.setZoom(view.zoom + 1));
$("smaller").addEventListener("click", () => view.setZoom(view.zoom - 1));
$("fit-all").addEventListener("click", () => view.fit());
for (const [button, isMap] of [["as-map", true], ["as-table", false]]) {
  $(button).addEventListener("click", () => {
    $("map").hidden = $("map-help").hidden = !isMap;
    $("table").hidden = isMap;
    $("as-map").setAttribute("aria-pressed", isMap);
    $("as-table").setAttribute("aria-pressed", !isMap);
    if (isMap) view.layout(); else table.render();
  });
}
document.addEventListener("keydown", (e) => {
  if (e.key === "Escape" && !["INPUT", "TEXTAREA", "SELECT"].includes(e.target.tagName)) { view.show(); (($("map").hidden) ? $("as-table") : $("map")).focus(); }
});

// mark publishes the contents of the map for tests and performance measurements: data-… of the document.
const data = document.documentElement.dataset;
function mark() { data.version = store.version; data.tiles = store.tiles.size; data.shown = view.arranged?.names.length ?? 0; }
view.addEventListener("drawn", ({ detail }) => {
  // Two frames later the browser has painted the map.
  if (!data.rendered && store.version) requestAnimationFrame(() => requestAnimationFrame(() => { data.rendered ||= performance.now().toFixed(1); }));
  data.drawn = detail.tiles;
  data.took = detail.took.toFixed(1);
  data.draws = view.draws;
});

legend();
store.start().catch((error) => { $("connection").textContent = `The map cannot be read: ${error.message}`; $("connection").hidden = false; setTimeout(() => location.reload(), 5000); });
