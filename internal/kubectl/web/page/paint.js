// Draws devices. Each state has a colour and a form: free devices are pale with a border, allocated ones solid,
// shared ones filled from below, blocked ones have a bar, unknown ones have a question mark, and tainted ones are
// hatched. Marks have a form of their own as well: a dot for devices in a pod's way, a tick for devices that a pod would
// get, a red frame for devices that are held twice.

let colors = {}, hatches = new Map();

export function readColors() {
  const style = getComputedStyle(document.documentElement);
  const names = ["page", "panel", "line", "text", "soft", "free", "free-line", "allocated", "share", "blocked", "blocked-line", "unknown", "unknown-line", "taint", "conflict", "blocks", "near", "plan", "focus", "accent"];
  colors = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  hatches = new Map();
}

function hatch(context, size) {
  const step = size < 9 ? 3 : 5;
  if (!hatches.has(step)) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = step;
    const c = canvas.getContext("2d");
    c.strokeStyle = colors.taint;
    c.lineWidth = step < 5 ? 1 : 1.6;
    c.beginPath();
    for (const shift of [-step, 0, step]) { c.moveTo(shift, step); c.lineTo(shift + step, 0); }
    c.stroke();
    hatches.set(step, context.createPattern(canvas, "repeat"));
  }
  return hatches.get(step);
}

export function cell(c, x, y, w, h, state, level, tainted) {
  switch (state) {
    case "f": box(c, x, y, w, h, colors.free, colors["free-line"]); break;
    case "a": c.fillStyle = colors.allocated; c.fillRect(x, y, w, h); break;
    case "s": {
      box(c, x, y, w, h, colors.free, colors.share);
      const filled = Math.max(h * 0.15, h * level / 100);
      c.fillStyle = colors.share;
      c.fillRect(x, y + h - filled, w, filled);
      break;
    }
    case "x":
      box(c, x, y, w, h, colors.blocked, colors["blocked-line"]);
      if (h >= 5 && w >= 5) { c.fillStyle = colors["blocked-line"]; c.fillRect(x + w * 0.2, y + h / 2 - Math.max(1, h / 10), w * 0.6, Math.max(2, h / 5)); }
      break;
    default:
      box(c, x, y, w, h, colors.unknown, colors["unknown-line"]);
      if (h >= 11) { c.fillStyle = colors["unknown-line"]; c.font = `bold ${Math.min(h - 2, 16)}px sans-serif`; c.textAlign = "center"; c.textBaseline = "middle"; c.fillText("?", x + w / 2, y + h / 2 + 1); }
  }
  if (tainted) {
    c.fillStyle = hatch(c, Math.min(w, h));
    c.fillRect(x, y, w, h);
    if (h >= 6) outline(c, x, y, w, h, colors.taint, 1);
  }
}

// whole draws a GPU whose partitions are too small to be visible: the used part of its counters.
export function whole(c, w, level) {
  cell(c, w.x, w.y, w.width, w.height, level === 0 ? "f" : level >= 100 ? "a" : "s", level, false);
}

export function frame(c, x, y, w, h) { outline(c, x, y, w, h, colors.soft, 1); }

export function mark(c, x, y, w, h, kind) {
  if (kind === "blocks") { dot(c, x + w / 2, y + h / 2, Math.max(1.2, Math.min(w, h) * 0.27)); return; }
  const width = kind === "plan" ? Math.max(1.5, Math.min(4, w / 5)) : Math.max(1, Math.min(2, h / 6));
  outline(c, x - 0.5, y - 0.5, w + 1, h + 1, colors[kind], width);
  if (kind === "plan" && w >= 13) {
    c.strokeStyle = colors.plan; c.lineWidth = 2.5; c.beginPath();
    c.moveTo(x + w * 0.2, y + h * 0.55); c.lineTo(x + w * 0.42, y + h * 0.78); c.lineTo(x + w * 0.82, y + h * 0.25); c.stroke();
  }
}

function dot(c, x, y, radius) {
  c.beginPath(); c.arc(x, y, radius, 0, 2 * Math.PI);
  c.fillStyle = colors.blocks; c.fill();
  if (radius >= 2) { c.strokeStyle = colors.text; c.lineWidth = 1; c.stroke(); }
}

// focusRing marks the device that the keys move from. Without the keyboard's focus it is the one that is shown in full.
export function focusRing(c, x, y, w, h, focused) {
  outline(c, x - 3, y - 3, w + 6, h + 6, colors.panel, 5);
  outline(c, x - 3, y - 3, w + 6, h + 6, focused ? colors.focus : colors.accent, 3);
}

export function tileBox(c, x, y, w, h, unready, highlighted) {
  c.fillStyle = colors.page;
  c.fillRect(x, y, w, h);
  if (unready) c.setLineDash([4, 3]);
  outline(c, x, y, w, h, highlighted ? colors[highlighted] : colors.line, highlighted ? 3 : 1);
  c.setLineDash([]);
}

export function groupBox(c, x, y, box) {
  outline(c, x + box.x, y + box.y, box.width, box.height, colors.line, 1);
  if (box.label) text(c, box.label, x + box.x + 3, y + box.y + 8, box.width - 4, 10);
}

// text writes a name, without its middle if it is too long: names of nodes differ at their end or at their beginning.
export function text(c, words, x, y, width, size) {
  c.fillStyle = colors.text; c.font = `${size}px sans-serif`; c.textAlign = "left"; c.textBaseline = "middle";
  c.fillText(shortened(words, Math.max(1, Math.floor(width / (size * 0.56)))), x, y, width);
}

export function shortened(words, most) {
  if (words.length <= most) return words;
  const end = Math.ceil((most - 1) * 0.6);
  return words.slice(0, most - 1 - end) + "…" + words.slice(words.length - end);
}

function box(c, x, y, w, h, fill, stroke) {
  c.fillStyle = fill;
  c.fillRect(x, y, w, h);
  if (w >= 6) outline(c, x, y, w, h, stroke, 1);
}

function outline(c, x, y, w, h, color, width) {
  c.strokeStyle = color; c.lineWidth = width;
  c.strokeRect(x + width / 2, y + width / 2, w - width, h - width);
}
