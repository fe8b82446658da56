// The panels beside the map: a device in full, waiting pods, and what would fit.

import { age, link, make, plural } from "./dom.js";
import { ask, describe } from "./store.js";

const $ = (id) => document.getElementById(id);
const named = (all) => make("dl", {}, ...all.flatMap(({ name, value, left }) => [make("dt", {}, name), make("dd", {}, left ? `${value}, ${left} left` : value)]));

// Details shows one device: its current state, and its changes since the page was opened.
export class Details {
  constructor(store, view, whatif) { Object.assign(this, { store, view, whatif, id: null, asked: 0 }); }

  async open({ name, i }, focus = true) {
    const tile = this.store.tiles.get(name);
    if (i < 0) { this.node(tile); return; }
    this.id = this.store.id(tile, i);
    await this.load();
    if (focus && matchMedia("(max-width: 800px)").matches) $("details-title").scrollIntoView();
    if (focus) $("details-title").focus({ preventScroll: true });
  }

  node(tile) {
    this.id = null;
    $("details-title").textContent = tile.x ? "Pool" : "Node";
    $("details").replaceChildren(make("p", {}, this.view.words({ name: tile.n, i: -1 })));
  }

  // changed shows the device again if it is on a changed tile.
  changed(tiles) {
    const found = this.id && this.store.find(this.id);
    if (found && tiles.includes(found.tile.n)) this.load();
  }

  async load() {
    const id = this.id, number = ++this.asked;
    let d;
    try {
      d = await ask(`api/device?id=${encodeURIComponent(id)}`);
    } catch (error) {
      d = null;
      if (number === this.asked) $("details").replaceChildren(make("p", { className: "bad" }, error.message));
    }
    const found = this.store.find(id);
    if (!d || number !== this.asked || !found) return;
    $("details-title").textContent = `Device ${id.slice(id.lastIndexOf("/") + 1)}`;
    const parts = [make("p", {}, describe(found.tile, found.i))];
    if (d.problem) parts.push(make("p", { className: "bad" }, d.problem));
    parts.push(named([{ name: "node", value: d.node || "several" }, { name: "device", value: id }, { name: "slice", value: d.slice }]));
    if (d.holders.length) parts.push(make("h3", {}, "Holders"), make("ul", {}, ...d.holders.map((h) => this.holder(h))));
    if (d.taints.length) parts.push(make("h3", {}, "Taints"), make("ul", {}, ...d.taints.map((t) => make("li", {}, t))));
    for (const [title, all] of [["Attributes", d.attributes], ["Capacity", d.capacity], ["Draws from counters", d.counters], ["Takes of its node", d.ofNode]]) {
      if (all.length) parts.push(make("h3", {}, title), named(all));
    }
    const history = this.store.history.get(id) || [];
    parts.push(make("h3", {}, "Since this page was opened"), history.length
      ? make("ul", { id: "history" }, ...history.toReversed().map((h) => make("li", {}, `${h.time.toLocaleTimeString()} ${h.text}`)))
      : make("p", { className: "hint" }, "Nothing has changed."));
    $("details").replaceChildren(...parts);
  }

  holder(h) {
    const share = (h.share || []).map((s) => `${s.name} ${s.value}`).join(", ");
    return make("li", {}, `claim ${h.claim}`, share && ` (${share})`, h.pods.length ? `, for ${h.pods.join(", ")}` : ", which no pod uses",
      h.since ? `, since ${age(h.since)} ` : " ", link("do without it", () => this.whatif.drop(h.claim)));
  }
}

// reasons shows why a pod has no node.
export function reasons(r, onDrop) {
  const parts = [];
  if (r.notKnown) parts.push(make("p", { className: "bad" }, `Nothing can be said about nodes: ${r.notKnown}.`));
  if (r.problem) parts.push(make("p", { className: "bad" }, r.problem));
  if (r.fits?.length) parts.push(make("p", {}, `It would fit on ${plural(r.fits.length, "node")} now: ${r.fits.slice(0, 5).join(", ")}${r.fits.length > 5 ? ", …" : ""}`));
  if (r.groups?.length) {
    parts.push(make("ul", {}, ...r.groups.slice(0, 20).map((g) => make("li", {},
      make("strong", {}, g.nodes.length === 1 ? g.nodes[0] : plural(g.nodes.length, "node")), `: ${g.reason}`,
      g.example ? make("details", {}, make("summary", {}, `${g.example.node} in full`), make("pre", {}, g.example.text)) : null))));
  }
  if (r.nearest?.length) parts.push(make("h3", {}, "Nearest"), make("ul", {}, ...r.nearest.map((n) => make("li", {}, `${n.node}: ${n.lacking.join("; ")}`))));
  for (const doubt of r.doubts || []) parts.push(make("p", { className: "hint" }, `May be wrong: ${doubt}.`));
  if (r.unchecked?.length) parts.push(make("p", { className: "hint" }, `Not looked at: ${r.unchecked.join(", ")}.`));
  if (r.holders.length) {
    parts.push(make("details", {}, make("summary", {}, `${plural(r.holders.length, "claim")} with devices that it could use`),
      make("ul", {}, ...r.holders.map((claim) => make("li", {}, claim + " ", link("do without it", () => onDrop(claim)))))));
  }
  return parts;
}

// Waiting lists the waiting pods. Hovering over a pod highlights what blocks it.
export class WaitingPods {
  constructor(view, whatif) {
    Object.assign(this, { view, whatif, known: new Map(), chosen: null, timer: null });
  }

  show(pods) {
    $("waiting-count").textContent = `(${pods.length})`;
    const focused = document.activeElement?.closest("#waiting li")?.dataset.pod;
    $("waiting").replaceChildren(...pods.slice(0, 500).map((p, at) => {
      const message = p.message && p.message === pods[at - 1]?.message ? "same message" : p.message || "";
      const button = link(p.pod, () => this.choose(p.pod));
      const item = make("li", {}, button, make("small", {}, [p.priority ? `priority ${p.priority}` : "", p.since ? `since ${age(p.since)}` : "", p.held || "", message].filter(Boolean).join(" · ")));
      item.dataset.pod = p.pod;
      item.addEventListener("pointerenter", () => this.preview(p.pod));
      item.addEventListener("pointerleave", () => this.preview(this.chosen));
      button.addEventListener("focus", () => this.preview(p.pod));
      return item;
    }));
    if (pods.length > 500) $("waiting").append(make("li", {}, `and ${pods.length - 500} more`));
    if (focused) $("waiting").querySelector(`li[data-pod="${CSS.escape(focused)}"] button`)?.focus();
    if (this.chosen && !pods.some((p) => p.pod === this.chosen)) { this.chosen = null; $("explanation").replaceChildren(); this.view.show(); }
  }

  // forget removes explanations after a change of the cluster, because they may be outdated.
  forget() {
    this.known.clear();
    clearTimeout(this.again);
    if (this.chosen) this.again = setTimeout(() => this.choose(this.chosen), 1000);
  }

  ask(pod) {
    if (!this.known.has(pod)) {
      const asked = ask(`api/explain?pod=${encodeURIComponent(pod)}`);
      asked.catch(() => this.known.delete(pod));
      this.known.set(pod, asked);
    }
    return this.known.get(pod);
  }

  preview(pod) {
    clearTimeout(this.timer);
    if (!pod) { this.view.show(); return; }
    this.timer = setTimeout(async () => {
      const r = await this.ask(pod).catch(() => null);
      if (r) this.view.show({ blocks: r.blocks, nodes: (r.nearest || []).map((n) => n.node), fits: r.fits || [] });
    }, 120);
  }

  async choose(pod) {
    clearTimeout(this.timer);
    this.chosen = pod;
    const title = make("h3", {}, `Why ${pod} waits`);
    try {
      const r = await this.ask(pod);
      if (this.chosen !== pod) return;
      this.view.show({ blocks: r.blocks, nodes: (r.nearest || []).map((n) => n.node), fits: r.fits || [] });
      $("explanation").replaceChildren(title, ...reasons(r, (claim) => { this.whatif.about(pod); this.whatif.drop(claim); }), make("p", {}, link("What if …", () => this.whatif.about(pod))));
    } catch (error) {
      $("explanation").replaceChildren(title, make("p", { className: "bad" }, error.message));
    }
  }
}

// WhatIf asks where a pod would go, also without some claims.
export class WhatIf {
  constructor(view) {
    Object.assign(this, { view, pod: null, without: [], asked: 0, answered: false });
    $("whatif").addEventListener("submit", (e) => { e.preventDefault(); this.ask(); });
    $("manifest").addEventListener("input", () => { this.answered = false; });
  }

  // about asks about a waiting pod instead of a manifest.
  about(pod) {
    this.pod = pod;
    this.render();
    $("whatif-title").scrollIntoView({ block: "nearest" });
    this.ask();
  }

  drop(claim) {
    if (!this.without.includes(claim)) this.without.push(claim);
    this.render();
    if (this.pod || $("manifest").value.trim()) this.ask();
  }

  render() {
    $("whatif-of").hidden = !this.pod;
    $("whatif-manifest").hidden = Boolean(this.pod);
    $("whatif-of").replaceChildren(`Pod ${this.pod}, which waits. `, link("Another one", () => { this.pod = null; this.answered = false; this.render(); }));
    $("dropped-title").hidden = this.without.length === 0;
    $("dropped").replaceChildren(...this.without.map((claim) => make("li", {}, claim + " ", link("keep it", () => {
      this.without = this.without.filter((one) => one !== claim);
      this.render();
      if (this.answered) this.ask();
    }))));
  }

  // again asks again after the cluster changed.
  again() {
    clearTimeout(this.timer);
    if (this.answered) this.timer = setTimeout(() => this.ask(), 1000);
  }

  async ask() {
    const number = ++this.asked;
    const question = { without: this.without, ...(this.pod ? { waiting: this.pod } : { pod: $("manifest").value }) };
    try {
      const a = await ask("api/fit", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) });
      if (number !== this.asked) return;
      this.answered = true;
      const words = { Fits: `Fits on ${a.node}`, DoesNotFit: "Does not fit", CannotTell: a.node ? `Fits on ${a.node}, as far as can be told` : "Cannot tell" };
      const parts = [make("p", { className: "verdict" }, words[a.verdict])];
      if (a.devices.length) parts.push(make("ul", {}, ...a.devices.map((d) => make("li", {}, `${d.request}: ${d.device}`))));
      for (const doubt of a.doubts || []) parts.push(make("p", { className: "bad" }, doubt));
      if (a.unchecked?.length) parts.push(make("p", { className: "hint" }, `Not looked at: ${a.unchecked.join(", ")}.`));
      if (a.reasons) parts.push(...reasons({ ...a.reasons, unchecked: null }, (claim) => this.drop(claim)));
      $("answer").replaceChildren(...parts);
      this.view.show({ plan: a.devices.map((d) => d.device), blocks: a.reasons?.blocks, nodes: a.node ? [] : (a.reasons?.nearest || []).map((n) => n.node), fits: a.node ? [a.node] : [] });
    } catch (error) {
      if (number !== this.asked) return;
      this.answered = false;
      $("answer").replaceChildren(make("p", { className: "bad" }, error.message));
      this.view.show();
    }
  }
}
