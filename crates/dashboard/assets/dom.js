// The page's elements. Whatever comes from the API becomes text here, never markup.

export function byId(id) {
  return document.getElementById(id);
}

/** An element with attributes and children; a child that is not a node becomes text. */
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(attribute, value);
  }
  element.append(...children);
  return element;
}

/** Writes only what has changed, so that a selection survives and nothing is announced twice. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Shows a refusal where it belongs, or hides its place. */
export function setRefusal(element, text) {
  element.hidden = !text;
  setText(element, text ?? "");
}

/** Brings the children of `parent` to `wanted` without moving those that stay: a moved element loses the focus. */
export function arrange(parent, wanted) {
  const keep = new Set(wanted);
  for (const child of [...parent.children]) if (!keep.has(child)) child.remove();
  wanted.forEach((child, index) => {
    if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] ?? null);
  });
}

/** The address of an event on this page. */
export function eventAddress(eventId) {
  return "#event=" + encodeURIComponent(eventId);
}

/** A link that keeps its last characters when there is no room: ids made at the same time start alike. */
export function eventLink(eventId) {
  return el("a", { class: "id", href: eventAddress(eventId), title: eventId },
    el("span", {}, eventId.slice(0, -6)), el("span", {}, eventId.slice(-6)));
}
