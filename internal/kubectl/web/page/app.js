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
  if (!sum.devices && store.meta.problems.length) parts.splice(0, parts.length, `No devices can be shown: ${store.meta.problems[0]}`);
  if (store.meta.without) parts.push(`${plural(store.meta.without, "node")} without devices`);
  const text = parts.join(" · ");
  if ($("summary").textContent !== text) $("summary").textContent = text;
  filter.count();
}

function legend() {
  const cell = (state, level = 0, tainted = false) => (c) => paint.cell(c, 1, 1, 14, 14, state, level, tainted);
  const marked = (state, kind) => (c) => { cell(state)(c); paint.mark(c, 1, 1, 14, 14, kind); };
  const frame = (kind) => (c) => paint.tileBox(c, 0, 1, 16, 14, false, kind);
  const all = [
    [cell("f"), "free"], [cell("a"), "allocated"], [cell("s", 60), "shared, filled by use"], [cell("x"), "blocked: other partitions use its counters"],
    [cell("f", 0, true), "tainted"], [cell("?"), "unknown"], [marked("a", "conflict"), "held twice"],
    [marked("a", "blocks"), "held or tainted, and usable for the chosen pod"], [frame("near"), "node that lacks the least"],
    [frame("plan"), "node where it fits"], [marked("f", "plan"), "device that it would get"],
  ];
  const ratio = devicePixelRatio || 1;
  $("legend").replaceChildren(...all.map(([draw, words]) => {
    const canvas = make("canvas", { width: 16 * ratio, height: 16 * ratio, "aria-hidden": "true" });
    canvas.style.width = canvas.style.height = "16px";
    const c = canvas.getContext("2d");
    c.scale(ratio, ratio);
    draw(c);
    return make("li", {}, canvas, words);
  }));
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
filter.addEventListener("change", () => { filter.count(); view.refit(); table.render(); mark(); });
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

// On a narrow screen, filters and legend are folded, so that the map begins at the top.
const narrow = matchMedia("(max-width: 800px)");
function fold() { $("filter-box").open = $("legend-box").open = !narrow.matches; }
narrow.addEventListener("change", fold);
fold();

legend();
store.start().catch((error) => { $("connection").textContent = `The map cannot be read: ${error.message}`; $("connection").hidden = false; setTimeout(() => location.reload(), 5000); });
