// The filter of the map: devices by class, CEL, namespace of their holders and labels of nodes; and the attribute
// that groups devices.

import { ask } from "./store.js";

export class Filter extends EventTarget {
  constructor(store, form) {
    super();
    Object.assign(this, { store, form, choice: null, namespace: "", values: null, asked: 0, again: null });
    // They are outside of the form, so that they are visible when it is folded.
    this.result = document.getElementById("filter-result");
    this.error = document.getElementById("filter-error");
    form.addEventListener("submit", (e) => { e.preventDefault(); this.apply(); });
    form.addEventListener("reset", () => setTimeout(() => { this.apply(); this.group(); }));
    form.querySelector("#class").addEventListener("change", () => this.apply());
    form.querySelector("#namespace").addEventListener("change", () => this.apply());
    form.querySelector("#group").addEventListener("change", () => this.group());
  }

  field(id) { return this.form.querySelector("#" + id).value.trim(); }

  // offer fills the lists of choices.
  offer(meta) {
    const fill = (id, all, first) => {
      const select = this.form.querySelector("#" + id), chosen = select.value;
      const offered = all.join("\n");
      if (select.dataset.offered === offered) return; // the user may be choosing
      select.dataset.offered = offered;
      select.replaceChildren(new Option(first, ""), ...all.map((one) => new Option(one, one)));
      if (all.includes(chosen)) select.value = chosen;
      else if (chosen) this.form.dispatchEvent(new Event("submit"));
    };
    fill("class", meta.classes, "all");
    fill("namespace", meta.namespaces, "all");
    fill("group", meta.attributes, "nothing");
  }

  async apply() {
    const number = ++this.asked;
    const query = new URLSearchParams();
    for (const id of ["class", "cel", "labels"]) if (this.field(id)) query.set(id, this.field(id));
    this.error.textContent = "";
    try {
      const choice = query.size ? await ask(`api/select?${query}`) : null;
      if (number !== this.asked) return; // a newer question was asked
      this.choice = choice;
      this.namespace = this.field("namespace");
      if (choice?.failed) this.error.textContent = `Could not be evaluated for ${choice.failed} devices: ${choice.example}`;
    } catch (error) {
      if (number !== this.asked) return;
      this.error.textContent = error.message;
    }
    this.dispatchEvent(new Event("change"));
  }

  async group() {
    const name = this.field("group");
    try {
      this.values = name ? await ask(`api/attribute?name=${encodeURIComponent(name)}`) : null;
    } catch (error) {
      this.error.textContent = error.message;
    }
    this.dispatchEvent(new Event("change"));
  }

  // refresh asks again after devices changed, as soon as there was no change for a moment.
  refresh() {
    clearTimeout(this.again);
    this.again = setTimeout(() => {
      if (this.choice) this.apply();
      if (this.values) this.group();
    }, 700);
  }

  get active() { return Boolean(this.choice || this.namespace); }

  shows(tile, i) {
    if (this.choice && this.choice.tiles[tile.n]?.[i] !== "1") return false;
    return !this.namespace || Boolean(tile.h?.[i]?.some((claim) => claim.startsWith(this.namespace + "/")));
  }

  showsTile(tile) {
    if (!this.active) return true;
    for (let i = 0; i < tile.s.length; i++) if (this.shows(tile, i)) return true;
    return false;
  }

  // valuesOf returns a text for each device of a tile, null without grouping.
  valuesOf(tile) {
    if (!this.values) return null;
    const has = this.values.tiles[tile.n];
    return Array.from(tile.s, (_, i) => this.values.values[has?.[i] ?? -1] ?? "–");
  }

  // count shows the number of visible devices.
  count() {
    if (!this.active) { this.result.textContent = ""; return; }
    let devices = 0, free = 0, tiles = 0;
    for (const tile of this.store.tiles.values()) {
      let any = false;
      for (let i = 0; i < tile.s.length; i++) if (this.shows(tile, i)) { devices++; any = true; if (tile.s[i] === "f") free++; }
      if (any) tiles++;
    }
    this.result.textContent = `${devices} devices on ${tiles} nodes match, ${free} of them free`;
  }
}
