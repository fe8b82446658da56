// The map: a canvas as large as its visible part. It only draws visible tiles.

import * as paint from "./paint.js";
import { arrange, rowAt, shape, sizes } from "./shapes.js";
import { describe } from "./store.js";

export class MapView extends EventTarget {
  // filter selects the visible devices, see filter.js.
  constructor(store, filter, elements) {
    super();
    Object.assign(this, elements, { store, filter, zoom: -1, sized: false, arranged: null, shapes: new Map(), focus: null, hover: null, pending: false, draws: 0 });
    this.context = this.canvas.getContext("2d");
    // Highlights: tiles by name with a text of 0 and 1 for their devices, sets of ids, names of the
    // nearest nodes, and names of the nodes that fit.
    this.blocks = null;
    this.plan = new Set();
    this.nodes = new Set();
    this.fits = new Set();
    paint.readColors();
    new ResizeObserver(() => this.layout()).observe(this.map);
    this.map.addEventListener("scroll", () => { this.hideTip(); this.draw(); });
    this.map.addEventListener("pointermove", (e) => this.point(e));
    this.map.addEventListener("pointerleave", () => this.hideTip());
    this.map.addEventListener("click", (e) => this.click(e));
    this.map.addEventListener("wheel", (e) => { if (e.ctrlKey) { e.preventDefault(); this.setZoom(this.zoom + (e.deltaY < 0 ? 1 : -1)); } }, { passive: false });
    this.map.addEventListener("keydown", (e) => this.key(e));
    this.map.addEventListener("focus", () => this.draw());
    this.map.addEventListener("blur", () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { paint.readColors(); this.dispatchEvent(new Event("colors")); this.draw(); });
  }

  shapeOf(name) {
    const tile = this.store.tiles.get(name);
    const values = this.filter.valuesOf(tile);
    const key = `${this.zoom}|${tile.l}|${values ? values.join("\u0001") : ""}`;
    let found = this.shapes.get(key);
    if (!found) {
      if (this.shapes.size > 20000) this.shapes.clear();
      found = shape(this.store.layouts[tile.l], values, sizes[this.zoom]);
      this.shapes.set(key, found);
    }
    return found;
  }

  // layout places the tiles, after tiles came or went or the filter changed.
  layout() {
    const width = this.map.clientWidth;
    if (!width || !this.store.meta) return;
    const names = this.store.order.filter((name) => this.filter.showsTile(this.store.tiles.get(name)));
    if (this.zoom < 0 && names.length > 0) {
      this.map.style.removeProperty("--content");
      this.zoom = this.fitting(names, width);
    }
    this.arranged = arrange(names, (name) => this.shapeOf(name), width);
    this.map.style.setProperty("--content", `${this.arranged.height + 2}px`); // A narrow screen has no room for an empty frame.
    this.fitCanvas(width);
    this.draw();
  }

  fitCanvas(width) {
    const height = this.map.clientHeight;
    const ratio = devicePixelRatio || 1;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.space.style.height = `${Math.max(0, this.arranged.height - height)}px`;
  }

  // fitting returns the largest zoom at which the whole map is visible, or the smallest zoom.
  fitting(names, width) {
    for (let zoom = sizes.length - 1; zoom > 0; zoom--) {
      this.zoom = zoom;
      if (arrange(names, (name) => this.shapeOf(name), width).height <= this.map.clientHeight) return zoom;
    }
    return 0;
  }

  // fit makes the whole map visible again, if possible, and keeps it so until somebody chooses a size.
  fit() { this.sized = false; this.zoom = -1; this.shapes.clear(); this.layout(); }

  // refit adapts the size to other tiles, unless somebody has chosen one.
  refit() { if (this.sized) this.layout(); else this.fit(); }

  setZoom(zoom) {
    this.sized = true;
    zoom = Math.max(0, Math.min(sizes.length - 1, zoom));
    if (zoom === this.zoom || !this.arranged) return;
    const middle = this.arranged.rows[rowAt(this.arranged.rows, this.map.scrollTop + this.map.clientHeight / 2)];
    const keep = this.focus?.name ?? (middle && this.arranged.names[middle.from]);
    this.zoom = zoom;
    this.shapes.clear();
    this.layout();
    const place = this.arranged.places.get(keep);
    if (place) this.map.scrollTop = place.y - this.map.clientHeight / 2;
    this.say(`size ${zoom + 1} of ${sizes.length}`);
  }

  draw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.render(); });
  }

  render() {
    if (!this.arranged) return;
    const start = performance.now();
    const { context: c, arranged } = this;
    const ratio = devicePixelRatio || 1;
    const top = this.map.scrollTop, height = this.map.clientHeight;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, this.map.clientWidth, height);
    c.setTransform(ratio, 0, 0, ratio, 0, -top * ratio);
    let drawn = 0;
    for (let row = rowAt(arranged.rows, top); row < arranged.rows.length && arranged.rows[row].y < top + height; row++) {
      for (let at = arranged.rows[row].from; at < arranged.rows[row].to; at++) { this.tile(arranged.names[at]); drawn++; }
    }
    if (this.focus) this.drawFocus();
    this.draws++;
    const took = performance.now() - start;
    this.dispatchEvent(new CustomEvent("drawn", { detail: { tiles: drawn, took } }));
  }

  tile(name) {
    const { context: c, store } = this;
    const tile = store.tiles.get(name), { x, y, shape: s } = this.arranged.places.get(name);
    paint.tileBox(c, x, y, s.width, s.height, tile.r, this.nodes.has(name) ? "near" : this.fits.has(name) ? "plan" : null);
    if (s.names) paint.text(c, store.label(tile), x + 4, y + 8, s.width - 8, 11);
    for (const box of s.boxes) paint.groupBox(c, x, y, box);
    const tainted = new Set(tile.t), blocks = this.blocks?.[name];
    for (const w of s.wholes) {
      c.globalAlpha = w.devices.some((i) => this.filter.shows(tile, i)) ? 1 : 0.18;
      const box = { ...w, x: x + w.x, y: y + w.y };
      if (w.summed) paint.whole(c, box, tile.wl?.[w.number] ?? 0); else paint.frame(c, box.x, box.y, w.width, w.height);
      if (w.summed && blocks && w.devices.some((i) => blocks[i] === "1")) paint.mark(c, box.x, box.y, w.width, w.height, "blocks");
      if (w.summed && this.plan.size && w.devices.some((i) => this.plan.has(store.id(tile, i)))) paint.mark(c, box.x, box.y, w.width, w.height, "plan");
    }
    for (let i = 0; i < tile.s.length; i++) {
      const w = s.cells[4 * i + 2];
      if (w === 0) continue;
      const a = x + s.cells[4 * i], b = y + s.cells[4 * i + 1], h = s.cells[4 * i + 3];
      c.globalAlpha = this.filter.shows(tile, i) ? 1 : 0.18;
      paint.cell(c, a, b, w, h, tile.s[i], tile.u?.[i] ?? 0, tainted.has(i));
      if (tile.c?.includes(i)) paint.mark(c, a, b, w, h, "conflict");
      if (blocks && blocks[i] === "1") paint.mark(c, a, b, w, h, "blocks");
      if (this.plan.size && this.plan.has(store.id(tile, i))) paint.mark(c, a, b, w, h, "plan");
    }
    c.globalAlpha = 1;
  }

  // box returns the place of a device, or of the GPU that it is a part of.
  box(name, i) {
    const place = this.arranged.places.get(name);
    if (!place) return null;
    const s = place.shape;
    let [x, y, w, h] = s.cells.subarray(4 * i, 4 * i + 4);
    if (w === 0) {
      const whole = s.wholes.find((one) => one.devices.includes(i));
      if (!whole) return null;
      ({ x, y, width: w, height: h } = whole);
    }
    return { x: place.x + x, y: place.y + y, w, h };
  }

  drawFocus() {
    const box = this.box(this.focus.name, this.focus.i);
    if (box) paint.focusRing(this.context, box.x, box.y, box.w, box.h, document.activeElement === this.map);
  }

  // at returns the object at a point of the map.
  at(x, y) {
    const { rows, names, places } = this.arranged;
    const row = rows[rowAt(rows, y)];
    if (!row || y < row.y) return null;
    for (let at = row.from; at < row.to; at++) {
      const place = places.get(names[at]), s = place.shape;
      const a = x - place.x, b = y - place.y;
      if (a < 0 || b < 0 || a >= s.width || b >= s.height) continue;
      const inside = (u, v, w, h) => w > 0 && a >= u && a < u + w + 1 && b >= v && b < v + h + 1;
      for (let i = 0; i < s.cells.length / 4; i++) if (inside(...s.cells.subarray(4 * i, 4 * i + 4))) return { name: names[at], i };
      const whole = s.wholes.find((w) => w.summed && inside(w.x, w.y, w.width, w.height));
      return { name: names[at], i: whole ? whole.devices[0] : -1 };
    }
    return null;
  }

  target(e) {
    if (!this.arranged) return null;
    const bounds = this.map.getBoundingClientRect();
    return this.at(e.clientX - bounds.left - this.map.clientLeft, e.clientY - bounds.top - this.map.clientTop + this.map.scrollTop);
  }

  point(e) {
    const found = this.target(e);
    this.tip.hidden = !found;
    if (!found) return;
    this.tip.textContent = this.words(found);
    this.tip.style.left = `${Math.min(e.clientX + 14, innerWidth - 330)}px`;
    this.tip.style.top = `${Math.min(e.clientY + 14, innerHeight - 60)}px`;
  }

  hideTip() { this.tip.hidden = true; }

  // words describes the object at a point, for tips and for screen readers.
  words({ name, i }) {
    const tile = this.store.tiles.get(name), counts = this.store.counts(tile);
    const node = `${name}: ${counts.devices} devices, ${counts.free} free${tile.r ? ", takes no pods" : ""}${tile.e ? `; ${tile.e}` : ""}`;
    return i < 0 ? node : `${this.store.name(tile, i)}: ${describe(tile, i)}\n${node}`;
  }

  click(e) {
    const found = this.target(e);
    if (!found) return;
    this.focus = { name: found.name, i: Math.max(0, found.i) };
    this.draw();
    this.open(found);
  }

  open(found) { this.dispatchEvent(new CustomEvent("open", { detail: found })); }
  say(words) { this.live.textContent = words; }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || !this.arranged?.names.length) return;
    if (e.key === "+" || e.key === "=") this.setZoom(this.zoom + 1);
    else if (e.key === "-") this.setZoom(this.zoom - 1);
    else if (e.key === "Enter" || e.key === " ") { if (this.focus) this.open(this.focus); }
    else if (!this.move(e.key)) return;
    e.preventDefault();
  }

  // move selects another device, and reports whether the key does that.
  move(key) {
    const names = this.arranged.names;
    const last = (name) => this.store.tiles.get(name).s.length - 1;
    const place = this.focus && this.arranged.places.get(this.focus.name);
    let next = null;
    if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"].includes(key)) return false;
    if (key === "Home" || !place) next = { name: names[0], i: 0 };
    else if (key === "End") next = { name: names.at(-1), i: last(names.at(-1)) };
    else if (key === "ArrowRight") next = this.focus.i < last(this.focus.name) ? { name: this.focus.name, i: this.focus.i + 1 } : names[place.at + 1] && { name: names[place.at + 1], i: 0 };
    else if (key === "ArrowLeft") next = this.focus.i > 0 ? { name: this.focus.name, i: this.focus.i - 1 } : names[place.at - 1] && { name: names[place.at - 1], i: last(names[place.at - 1]) };
    else next = this.vertically(key, place);
    if (next) this.focusOn(next);
    return true;
  }

  vertically(key, place) {
    const box = this.box(this.focus.name, this.focus.i);
    const down = key === "ArrowDown" || key === "PageDown";
    const screen = key.startsWith("Page") ? this.map.clientHeight * 0.9 : 0;
    const { rows, names } = this.arranged;
    const target = rows[rowAt(rows, box.y + (down ? screen : -screen))];
    const row = screen ? Math.max(0, target ? rows.indexOf(target) : down ? rows.length - 1 : 0) : place.row;
    let best = null;
    for (const r of screen ? [row] : [row, row + (down ? 1 : -1)]) {
      for (let at = rows[r]?.from ?? 0; at < (rows[r]?.to ?? 0); at++) {
        for (let i = 0; i < this.store.tiles.get(names[at]).s.length; i++) {
          const other = this.box(names[at], i);
          const dy = (other.y - box.y) * (down ? 1 : -1);
          if (dy <= 2) continue;
          const far = dy + 4 * Math.abs(other.x + other.w / 2 - box.x - box.w / 2);
          if (!best || far < best.far) best = { far, name: names[at], i };
        }
      }
      if (best) break;
    }
    return best;
  }

  focusOn(found) {
    this.focus = { name: found.name, i: found.i };
    const box = this.box(found.name, found.i);
    if (box) {
      if (box.y < this.map.scrollTop + 20) this.map.scrollTop = box.y - 40;
      else if (box.y + box.h > this.map.scrollTop + this.map.clientHeight - 10) this.map.scrollTop = box.y + box.h + 40 - this.map.clientHeight;
    }
    this.say(this.words(this.focus));
    this.draw();
  }

  // show highlights the objects of a question, and scrolls to the first of them if none is visible.
  show({ blocks = null, plan = [], nodes = [], fits = [] } = {}) {
    this.blocks = blocks;
    this.plan = new Set(plan);
    this.nodes = new Set(nodes);
    this.fits = new Set(fits);
    if (this.plan.size) {
      const found = this.store.find(plan[0]);
      const place = found && this.arranged.places.get(found.tile.n);
      if (place && (place.y < this.map.scrollTop || place.y > this.map.scrollTop + this.map.clientHeight)) this.map.scrollTop = place.y - 60;
    }
    this.draw();
  }
}
