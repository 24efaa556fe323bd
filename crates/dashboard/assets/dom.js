// Helpers for elements. Text from the API is always inserted as text, never as markup.

/** @param {string} id @returns {any} */
export function byId(id) {
  return document.getElementById(id);
}

/**
 * Creates an element with attributes and children. Children that are not nodes become text; null and undefined are left out.
 * @param {string} name @param {Record<string, any>} attributes @param {...any} children @returns {any}
 */
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(attribute, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(attribute, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** @param {string} label @param {() => void} onClick @param {Record<string, any>} attributes */
export function button(label, onClick, attributes = {}) {
  const element = el("button", { type: "button", ...attributes }, label);
  element.addEventListener("click", onClick);
  return element;
}

/** Creates a select with `[value, label]` options. */
export function select(attributes, options, value) {
  return el("select", attributes, options.map(([key, label]) => el("option", { value: key, selected: key === value }, label)));
}

/** Creates a labelled form field. */
export function field(label, control, hint) {
  return el("label", { class: "field" }, el("span", {}, label, hint ? el("span", { class: "muted" }, ` ${hint}`) : null), control);
}

/** Creates a panel with a heading. Further children of its header follow the heading. */
export function panel(title, ...headerChildren) {
  return el("section", { class: "panel", "aria-label": title }, el("header", {}, el("h2", {}, title), headerChildren));
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
  let next = parent.firstElementChild;
  for (const child of children) {
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
  }
}

/** Returns a function that runs `draw` once in the next animation frame, however often it is called before. */
export function oncePerFrame(draw) {
  let requested = false;
  return () => {
    if (requested) return;
    requested = true;
    requestAnimationFrame(() => {
      requested = false;
      draw();
    });
  };
}

/** Returns a cache of elements: an item's element is created again only when `version` changes. */
export function createElementCache(create) {
  const known = new Map();
  return {
    get(id, version, item) {
      const found = known.get(id);
      if (found?.version === version) return found.element;
      const element = create(item);
      known.set(id, { version, element });
      return element;
    },
    /** Forgets the elements of all other ids. */
    retain(ids) {
      const keep = new Set(ids);
      for (const id of known.keys()) if (!keep.has(id)) known.delete(id);
    },
  };
}
