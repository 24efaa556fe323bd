// A list of rows of equal height, of which only those in sight are in the document.

import { el, oncePerFrame, updateChildren } from "./dom.js";

const OVERSCAN = 6;

/**
 * @param {{ label: string, rowOf: (item: any) => HTMLElement, onScroll: () => void }} options
 * The height of a row is `--row-height` of the style sheet.
 */
export function createWindow({ label, rowOf, onScroll }) {
  const rows = el("ol", { class: "window-rows", "aria-label": label });
  const space = el("div", { class: "window-space" }, rows);
  const root = el("div", { class: "window", tabindex: "0", role: "region", "aria-label": label }, space);
  /** @type {any[]} */
  let items = [];

  const draw = oncePerFrame(() => {
    const height = parseFloat(getComputedStyle(root).getPropertyValue("--row-height")) || 32;
    const first = Math.max(0, Math.floor(root.scrollTop / height) - OVERSCAN);
    const last = Math.min(items.length, Math.ceil((root.scrollTop + root.clientHeight) / height) + OVERSCAN);
    space.style.height = `${items.length * height}px`;
    rows.style.transform = `translateY(${first * height}px)`;
    updateChildren(rows, items.slice(first, last).map(rowOf));
  });
  root.addEventListener("scroll", () => {
    onScroll();
    draw();
  });
  // As many rows are drawn as are in sight, and the style sheet changes their height with the width of the page.
  new ResizeObserver(draw).observe(root);
  return {
    root,
    /** @param {any[]} next */
    show(next) {
      items = next;
      draw();
    },
    toTop() {
      root.scrollTop = 0;
    },
  };
}
