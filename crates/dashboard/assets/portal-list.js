// Lists of the portal: what is wrong with the link is shown once, instead of in each list.

import { createList } from "./list.js";
import { endIfRefused } from "./portal-session.js";

/** @param {Omit<import("./list.js").ListOptions, "mayAct" | "onError">} options */
export function createPortalList(options) {
  return createList({ ...options, mayAct: () => true, onError: endIfRefused });
}
