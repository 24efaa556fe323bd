// Lists of the operator's page: with actions for operators, and without for viewers.

import { mayOperate } from "./caller.js";
import { createList } from "./list.js";
import { reportMissingKey } from "./problems.js";

/** @param {Omit<import("./list.js").ListOptions, "mayAct" | "onError">} options */
export function createOperatorList(options) {
  return createList({ ...options, mayAct: mayOperate, onError: reportMissingKey });
}
