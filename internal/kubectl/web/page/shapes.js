// The layout of the map: devices in their tile, and tiles on the map.

import { collator } from "./store.js";

// sizes are the widths of a device, by zoom.
export const sizes = [4, 6, 9, 13, 18, 26, 36];
const partsFrom = 13; // the least size at which partitions are drawn,
const namesFrom = 13; // and names
const gap = 1;

// shape computes the cells of a tile: x, y, width and height by device (width 0: not drawn), the wholes, and the boxes of groups.
// values is a text for each device, or null if nothing is grouped.
export function shape(layout, values, size) {
  const count = layout.n.length;
  const result = { size, cells: new Float32Array(4 * count), wholes: [], boxes: [], names: size >= namesFrom, width: 0, height: 0 };
  const groups = new Map();
  for (const unit of units(layout)) {
    const value = values ? values[unit.devices[0]] : "";
    if (!groups.has(value)) groups.set(value, []);
    groups.get(value).push(unit);
  }
  const named = [...groups.keys()];
  if (values) named.sort(collator.compare);
  const across = values ? Math.ceil(Math.sqrt(named.length)) : 1;
  const pad = size >= 9 ? 4 : 2;
  const label = values && size >= 18 ? 12 : 0;
  const top = result.names ? 16 : pad;
  let x = pad, y = top, rowHeight = 0;
  named.forEach((value, at) => {
    if (at > 0 && at % across === 0) { x = pad; y += rowHeight + 3; rowHeight = 0; }
    const inner = values ? 2 : 0;
    const block = flow(result, groups.get(value), x + inner, y + inner + label, size, Boolean(values));
    const width = Math.max(block.width + 2 * inner, label ? Math.min(value.length * 6 + 6, 80) : 0);
    const height = block.height + 2 * inner + label;
    if (values) result.boxes.push({ x, y, width, height, label: label ? value : "" });
    x += width + 3;
    result.width = Math.max(result.width, x - 3 + pad);
    rowHeight = Math.max(rowHeight, height);
  });
  result.height = y + rowHeight + pad;
  if (result.names) result.width = Math.max(result.width, 84);
  return result;
}

// units are devices, or GPUs with their partitions.
function units(layout) {
  const wholes = (layout.w || []).map((whole, number) => ({ whole: number, device: whole.d, devices: [] }));
  const result = [];
  layout.n.forEach((_, i) => {
    const part = layout.g ? layout.g[i] : -1;
    if (part < 0) { result.push({ whole: -1, devices: [i] }); return; }
    const unit = wholes[part];
    if (unit.devices.length === 0) result.push(unit);
    unit.devices.push(i);
  });
  return result;
}

function flow(result, all, left, top, size, grouped) {
  const perRow = grouped ? Math.ceil(Math.sqrt(all.length)) : all.length <= 4 ? all.length <= 2 ? all.length : 2 * Math.ceil(all.length / 2) : all.length <= 8 ? 4 : all.length <= 64 ? 8 : Math.ceil(Math.sqrt(all.length) * 1.3);
  let x = left, y = top, rowHeight = 0, width = 0;
  all.forEach((unit, at) => {
    if (at > 0 && at % perRow === 0) { x = left; y += rowHeight + gap; rowHeight = 0; }
    const box = place(result, unit, x, y, size);
    x += box.width + gap;
    width = Math.max(width, x - gap - left);
    rowHeight = Math.max(rowHeight, box.height);
  });
  return { width, height: y + rowHeight - top };
}

function place(result, unit, x, y, size) {
  const set = (i, a, b, w, h) => result.cells.set([a, b, w, h], 4 * i);
  if (unit.whole < 0) { set(unit.devices[0], x, y, size, size); return { width: size, height: size }; }
  if (size < partsFrom) {
    result.wholes.push({ number: unit.whole, x, y, width: size, height: size, summed: true, devices: unit.devices });
    return { width: size, height: size };
  }
  const parts = unit.devices.filter((i) => i !== unit.device);
  const part = Math.max(5, Math.floor(size / 2.4));
  const columns = Math.max(2, Math.ceil(Math.sqrt(parts.length)));
  const strip = unit.device >= 0 ? Math.max(5, Math.floor(size / 3)) + gap : 0;
  const width = columns * (part + gap) - gap + 4;
  const height = Math.ceil(parts.length / columns) * (part + gap) - gap + 4 + strip;
  if (unit.device >= 0) set(unit.device, x + 2, y + 2, width - 4, strip - gap);
  parts.forEach((i, at) => set(i, x + 2 + (at % columns) * (part + gap), y + 2 + strip + Math.floor(at / columns) * (part + gap), part, part));
  result.wholes.push({ number: unit.whole, x, y, width, height, summed: false, devices: unit.devices });
  return { width, height };
}

// arrange puts tiles into rows.
export function arrange(names, shapeOf, width) {
  const between = 4;
  const rows = [];
  const places = new Map();
  let x = between, y = between, height = 0, from = 0;
  names.forEach((name, at) => {
    const s = shapeOf(name);
    if (x > between && x + s.width + between > width) {
      rows.push({ y, height, from, to: at });
      x = between; y += height + between; height = 0; from = at;
    }
    places.set(name, { x, y, shape: s, row: rows.length, at });
    x += s.width + between;
    height = Math.max(height, s.height);
  });
  if (names.length > from) rows.push({ y, height, from, to: names.length });
  return { rows, places, height: y + height + between, names };
}

// rowAt returns the number of the first row that ends below y.
export function rowAt(rows, y) {
  let low = 0, high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle].y + rows[middle].height < y) low = middle + 1; else high = middle;
  }
  return low;
}
