// make builds elements. Text is always text: no text of a cluster is parsed as HTML.
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function link(text, onclick) { return make("button", { type: "button", className: "link", onclick }, text); }

export function plural(n, one, many = one + "s") { return `${n.toLocaleString("en")} ${n === 1 ? one : many}`; }

export function age(seconds) {
  const s = Math.max(0, Math.round(Date.now() / 1000 - seconds));
  return s < 120 ? `${s}s` : s < 7200 ? `${Math.round(s / 60)}m` : s < 172800 ? `${Math.round(s / 3600)}h` : `${Math.round(s / 86400)}d`;
}
