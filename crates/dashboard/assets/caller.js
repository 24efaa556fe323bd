// What the user's key may do. The page offers actions only to a caller who may perform them.

import { currentKey, getCaller } from "./api.js";
import { byId, setText } from "./dom.js";

/** @type {{ key: string | null, permissions: string[] } | null} */
let loaded = null;
/** @type {{ key: string | null, result: Promise<void> } | null} */
let loading = null;

/** Loads what the current key may do, once per key. */
export function loadCaller() {
  const key = currentKey();
  if (loading?.key !== key) loading = { key, result: load(key) };
  return loading.result;
}

/** @param {string | null} key */
async function load(key) {
  try {
    const { name, role, permissions } = await getCaller();
    loaded = { key, permissions };
    setText(byId("caller"), role === null ? "" : `${name} (${role})`);
    byId("nav-send").hidden = !may("enqueue");
  } catch (error) {
    loading = null;
    throw error;
  }
}

/** @param {"enqueue" | "read_all" | "operate"} permission */
export function may(permission) {
  return loaded !== null && loaded.key === currentKey() && loaded.permissions.includes(permission);
}

/** Returns whether the current key may requeue, cancel, discard, pause and resume. */
export function mayOperate() {
  return may("operate");
}
