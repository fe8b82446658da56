// The map as a table, for users who cannot use a map.

import { link, make, plural } from "./dom.js";
import { describe } from "./store.js";

const rowsAtOnce = 200;

export class Table {
  constructor(store, filter, element, open) { Object.assign(this, { store, filter, element, open, from: 0, node: null }); }

  render() {
    if (this.element.hidden) return;
    const focused = this.element.contains(document.activeElement) ? document.activeElement.textContent : null;
    this.element.replaceChildren(this.node && this.store.tiles.has(this.node) ? this.devices(this.store.tiles.get(this.node)) : this.nodes());
    if (focused) [...this.element.querySelectorAll("button")].find((b) => b.textContent === focused)?.focus();
  }

  nodes() {
    const all = this.store.order.map((name) => this.store.tiles.get(name)).filter((tile) => this.filter.showsTile(tile));
    this.from = Math.min(this.from, Math.max(0, all.length - 1));
    this.from -= this.from % rowsAtOnce;
    const shown = all.slice(this.from, this.from + rowsAtOnce);
    const columns = ["devices", "free", "allocated", "shared", "blocked", "unknown", "tainted"];
    const go = (by, words) => make("button", { type: "button", onclick: () => { this.from += by; this.render(); } }, words);
    return make("div", {},
      make("table", {}, make("caption", {}, `${plural(all.length, "node")}${all.length > rowsAtOnce ? `, ${this.from + 1} to ${this.from + shown.length}` : ""}`),
        make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Node"), ...columns.map((c) => make("th", { scope: "col" }, c)))),
        make("tbody", {}, ...shown.map((tile) => {
          const counts = this.store.counts(tile);
          return make("tr", {}, make("th", { scope: "row" }, link(tile.n, () => { this.node = tile.n; this.render(); this.element.querySelector("button")?.focus(); })), ...columns.map((c) => make("td", {}, String(counts[c]))));
        }))),
      this.from > 0 ? go(-rowsAtOnce, "Before") : null, this.from + rowsAtOnce < all.length ? go(rowsAtOnce, "Next") : null);
  }

  devices(tile) {
    const indices = Array.from(tile.s, (_, i) => i).filter((i) => this.filter.shows(tile, i));
    return make("div", {}, make("p", {}, link("All nodes", () => { this.node = null; this.render(); this.element.querySelector("button")?.focus(); })),
      tile.e ? make("p", { className: "bad" }, tile.e) : null,
      make("table", {}, make("caption", {}, `${tile.n}: ${plural(indices.length, "device")}`),
        make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Device"), make("th", { scope: "col" }, "State"))),
        make("tbody", {}, ...indices.map((i) => make("tr", {}, make("th", { scope: "row" }, link(this.store.name(tile, i), () => this.open({ name: tile.n, i }))), make("td", {}, describe(tile, i)))))));
  }
}
