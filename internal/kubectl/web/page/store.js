// The server's state of the map, kept up to date.

const collator = new Intl.Collator("en", { numeric: true });
// historyAtMost bounds the changes that are kept for one device.
const historyAtMost = 100;

export const states = { f: "free", a: "allocated", s: "shared", x: "blocked", "?": "unknown" };

export async function ask(path, options) {
  const response = await fetch(path, options);
  const body = await response.json().catch(() => ({ error: response.statusText }));
  if (!response.ok) throw new Error(body.error || response.statusText);
  return body;
}

export class Store extends EventTarget {
  constructor() {
    super();
    Object.assign(this, { version: 0, meta: null, layouts: [], tiles: new Map(), order: [], domain: "", history: new Map(), stream: null });
  }

  // start reads the whole state, and follows changes.
  async start() {
    if (this.stream) this.stream.close();
    this.stream = null;
    const state = await ask("api/state");
    if (this.version) this.note(new Map(state.tiles.map((t) => [t.n, t])), state.layouts);
    Object.assign(this, { version: state.v, meta: state.meta, layouts: state.layouts });
    this.tiles = new Map(state.tiles.map((t) => [t.n, t]));
    this.sort();
    this.tell("reset");
    this.follow();
  }

  follow() {
    const stream = new EventSource(`api/events?since=${this.version}`);
    this.stream = stream;
    stream.addEventListener("open", () => this.tell("connection", { text: "" }));
    stream.addEventListener("delta", (e) => this.apply(JSON.parse(e.data)));
    stream.addEventListener("reset", () => this.restart());
    stream.addEventListener("error", () => {
      if (stream !== this.stream) return;
      this.tell("connection", { text: "Not connected: what you see is old. Is kubectl devices web still running?" });
      if (stream.readyState === EventSource.CLOSED) setTimeout(() => this.restart(), 3000);
    });
  }

  restart() {
    if (this.stream) this.stream.close();
    this.start().catch((error) => {
      this.tell("connection", { text: `Not connected: ${error.message}` });
      setTimeout(() => this.restart(), 3000);
    });
  }

  apply(delta) {
    const metaBefore = this.meta;
    if (delta.layouts) this.layouts = this.layouts.concat(delta.layouts);
    const tiles = delta.tiles || [];
    this.note(new Map(tiles.map((t) => [t.n, t])), this.layouts);
    const shape = tiles.some((t) => this.tiles.get(t.n)?.l !== t.l) || (delta.gone || []).length > 0;
    for (const name of delta.gone || []) this.tiles.delete(name);
    for (const tile of tiles) this.tiles.set(tile.n, tile);
    if (delta.meta) this.meta = delta.meta;
    this.version = delta.v;
    if (shape) this.sort();
    this.tell("delta", { shape, published: metaBefore.published !== this.meta.published, tiles: tiles.map((t) => t.n), meta: Boolean(delta.meta) });
  }

  // note records changes of devices while the page is open.
  note(tiles, layouts) {
    const time = new Date();
    for (const [name, tile] of tiles) {
      const before = this.tiles.get(name);
      if (!before) continue;
      const known = new Map(this.layouts[before.l].n.map((_, i) => [this.id(before, i), i]));
      layouts[tile.l].n.forEach((_, i) => {
        const id = deviceId(layouts, tile, i);
        const old = known.get(id);
        const now = describe(tile, i);
        if (old !== undefined && describe(before, old) === now) return;
        if (!this.history.has(id)) this.history.set(id, []);
        const entries = this.history.get(id);
        entries.push({ time, text: old === undefined ? `published, ${now}` : now });
        if (entries.length > historyAtMost) entries.shift();
      });
    }
  }

  sort() {
    this.order = [...this.tiles.values()].sort((a, b) => Number(a.x || false) - Number(b.x || false) || collator.compare(a.n, b.n)).map((t) => t.n);
    this.domain = commonDomain([...this.tiles.values()].filter((t) => !t.x).map((t) => t.n));
  }

  // label returns the name of a tile without the domain that all nodes share, as in the names that clouds give.
  label(tile) { return !tile.x && tile.n.endsWith(this.domain) ? tile.n.slice(0, tile.n.length - this.domain.length) : tile.n; }

  id(tile, i) { return deviceId(this.layouts, tile, i); }
  name(tile, i) { return this.layouts[tile.l].n[i]; }
  tell(type, detail) { this.dispatchEvent(new CustomEvent(type, { detail })); }

  // find returns the tile of a device and its index there, by its id.
  find(id) {
    for (const tile of this.tiles.values()) {
      const pool = tile.p.findIndex((p) => id.startsWith(p + "/"));
      if (pool < 0) continue;
      const layout = this.layouts[tile.l];
      const i = layout.n.findIndex((name, at) => `${tile.p[layout.p[at]]}/${name}` === id);
      if (i >= 0) return { tile, i };
    }
    return null;
  }

  counts(tile) {
    if (tile.counts) return tile.counts;
    const counts = { devices: tile.s.length, free: 0, allocated: 0, shared: 0, blocked: 0, unknown: 0, tainted: (tile.t || []).length, conflicts: (tile.c || []).length };
    for (const letter of tile.s) counts[states[letter]]++;
    tile.counts = counts;
    return counts;
  }
}

// commonDomain returns the longest ending that all names share and that begins with a dot, "" for a single name.
export function commonDomain(names) {
  const from = names[0]?.indexOf(".") ?? -1;
  if (names.length < 2 || from <= 0) return "";
  let parts = names[0].slice(from + 1).split(".");
  for (const name of names) {
    while (parts.length && !name.endsWith("." + parts.join("."))) parts = parts.slice(1);
  }
  return parts.length ? "." + parts.join(".") : "";
}

function deviceId(layouts, tile, i) {
  const layout = layouts[tile.l];
  return `${tile.p[layout.p[i]]}/${layout.n[i]}`;
}

// describe describes the state of a device in words.
export function describe(tile, i) {
  const letter = tile.s[i];
  let text = letter === "x" ? "blocked, because other partitions have used up its counters" : states[letter];
  if (letter === "s") text += `, ${tile.u?.[i] ?? 0} % taken`;
  const holders = tile.h?.[i];
  if (holders) text += ` by ${holders.slice(0, 5).join(", ")}${holders.length > 5 ? ` and ${holders.length - 5} more` : ""}`;
  if (tile.t?.includes(i)) text += ", tainted";
  if (tile.c?.includes(i)) text += ", held twice";
  return text;
}

export { collator };
