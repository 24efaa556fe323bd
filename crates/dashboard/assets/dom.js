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

/** What a click on each button does. @type {WeakMap<Element, () => void>} */
const actions = new WeakMap();

/** @param {string} label @param {() => void} onClick @param {Record<string, any>} attributes */
export function button(label, onClick, attributes = {}) {
  const element = el("button", { type: "button", ...attributes }, label);
  actions.set(element, onClick);
  element.addEventListener("click", () => actions.get(element)?.());
  return element;
}

/** Marks the link of the open view in the navigation. @param {string} name */
export function markOpenView(name) {
  for (const link of byId("nav").querySelectorAll("a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** Creates a select with `[value, label]` options. @param {Record<string, any>} attributes @param {string[][]} options @param {string} value */
export function select(attributes, options, value) {
  return el("select", attributes, options.map(([key, label]) => el("option", { value: key, selected: key === value }, label)));
}

/** Creates a labelled form field. @param {string} label @param {HTMLElement} control @param {string} [hint] */
export function field(label, control, hint) {
  return el("label", { class: "field" }, el("span", {}, label, hint ? el("span", { class: "muted" }, ` ${hint}`) : null), control);
}

/** Creates a panel with a heading. Further children of its header follow the heading. @param {string} title @param {...any} headerChildren */
export function panel(title, ...headerChildren) {
  return el("section", { class: "panel", "aria-label": title }, el("header", {}, el("h2", {}, title), headerChildren));
}

/** Sets a text that differs. An equal one stays, so that screen readers do not repeat it. @param {Element} element @param {string} text */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Shows an error in its element, or hides the element if there is none. @param {HTMLElement} element @param {string | null} text */
export function setError(element, text) {
  element.hidden = !text;
  setText(element, text ?? "");
}

/** Replaces the children of `parent` without moving those that stay: a moved element loses the focus. @param {Element} parent @param {Element[]} children */
export function updateChildren(parent, children) {
  const keep = new Set(children);
  for (const child of [...parent.children]) if (!keep.has(child)) child.remove();
  let next = parent.firstElementChild;
  for (const child of children) {
    if (next !== null && child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
  }
}

/** Returns a function that runs `draw` once in the next animation frame, however often it is called before. @param {() => void} draw */
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

/**
 * Returns a cache of elements. When the version of an item changes, its element stays, and so do the children that look the
 * same: a button under the pointer or with the focus is not replaced.
 * @param {(item: any) => HTMLElement} create
 */
export function createElementCache(create) {
  /** @type {Map<string, { version: string, element: HTMLElement }>} */
  const known = new Map();
  return {
    /** @param {string} id @param {string} version @param {any} item */
    get(id, version, item) {
      const found = known.get(id);
      if (found?.version === version) return found.element;
      const element = create(item);
      if (found) updateElement(found.element, element);
      known.set(id, { version, element: found?.element ?? element });
      return found?.element ?? element;
    },
    /** Forgets the elements of all other ids. @param {string[]} ids */
    retain(ids) {
      const keep = new Set(ids);
      for (const id of known.keys()) if (!keep.has(id)) known.delete(id);
    },
  };
}

/** Lets the buttons of a node do what those of an equal node do: they look the same, but may act on another item. @param {Node} node @param {Node} next */
function takeActions(node, next) {
  const buttonsOf = (/** @type {Node} */ root) => (root instanceof Element ? [root, ...root.querySelectorAll("button")] : []);
  const buttons = buttonsOf(next);
  buttonsOf(node).forEach((element, index) => {
    const action = actions.get(buttons[index]);
    if (action) actions.set(element, action);
  });
}

/** Gives an element the children of another one, apart from those that look the same. Keeps the focus. @param {HTMLElement} element @param {HTMLElement} next */
export function updateElement(element, next) {
  const focused = /** @type {HTMLElement | null} */ (element.contains(document.activeElement) ? document.activeElement : null);
  const present = [...element.childNodes];
  const wanted = [...next.childNodes];
  wanted.forEach((node, index) => {
    if (index >= present.length) element.append(node);
    else if (!present[index].isEqualNode(node)) present[index].replaceWith(node);
    else takeActions(present[index], node);
  });
  present.slice(wanted.length).forEach((node) => node.remove());
  if (focused === null || focused.isConnected) return;
  /** @type {NodeListOf<HTMLElement>} */
  const candidates = element.querySelectorAll("a, button");
  const same = [...candidates].find((candidate) => candidate.dataset.action === focused.dataset.action && candidate.textContent === focused.textContent)
    ?? [...candidates].find((candidate) => candidate.dataset.open !== undefined);
  same?.focus({ preventScroll: true });
}
