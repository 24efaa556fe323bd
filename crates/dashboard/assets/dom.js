// Helpers for the page's elements. Text from the API is always inserted as text, never as markup.

export function byId(id) {
  return document.getElementById(id);
}

/** Creates an element with attributes and children. Children that are not nodes become text. */
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(attribute, value);
  }
  element.append(...children);
  return element;
}

/** Sets a text that differs. An equal one stays, so that screen readers do not repeat it. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Shows an error in its element, or hides the element if there is none. */
export function setError(element, text) {
  element.hidden = !text;
  setText(element, text ?? "");
}

/** Replaces the children of `parent` without moving those that stay: a moved element loses the focus. */
export function updateChildren(parent, children) {
  const keep = new Set(children);
  for (const child of [...parent.children]) if (!keep.has(child)) child.remove();
  children.forEach((child, index) => {
    if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] ?? null);
  });
}

/** Returns the URL fragment that opens an event on this page. */
export function eventHash(eventId) {
  return "#event=" + encodeURIComponent(eventId);
}

/** A link that keeps its last characters when shortened: ids of the same time begin alike. */
export function eventLink(eventId) {
  return el("a", { class: "id", href: eventHash(eventId), title: eventId },
    el("span", {}, eventId.slice(0, -6)), el("span", {}, eventId.slice(-6)));
}
