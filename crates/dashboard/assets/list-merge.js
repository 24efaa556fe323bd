// Joins the newest pages of a list, which were loaded again, with the older rows that it shows.

/**
 * @typedef {object} Loaded what is loaded of a list
 * @property {any[]} items newest first
 * @property {string | null} cursor where the next page starts; null at the end of the list
 * @property {string | null} searchedUntil for a list by time: how far back it was searched; null at its end
 * @property {boolean} isPartial whether the search found less than was asked for
 * @property {boolean} isOutdated whether there are newer rows, which could not be joined with these
 */

/**
 * Returns the rows of `head`, followed by the rows of `shown` that are older than those. Rows that `head` should contain and
 * does not are gone. Returns null if rows may be missing between the two.
 * @param {Loaded} shown @param {number} shownAtMs when the first page of `shown` was loaded, by the server's clock
 * @param {Loaded} head @param {(item: any) => string} keyOf
 * @param {((item: any) => string) | undefined} timeOf the time by which the list is sorted, if it is sorted by time
 * @returns {Loaded | null}
 */
export function mergeHead(shown, shownAtMs, head, keyOf, timeOf) {
  if (head.cursor === null) return head;
  const loaded = new Set(head.items.map(keyOf));
  const until = head.searchedUntil;
  if (timeOf && until !== null) {
    const reachesFurther = shown.cursor === null || (shown.searchedUntil !== null && shown.searchedUntil < until);
    if (!reachesFurther) return head;
    if (Date.parse(until) > shownAtMs) return null;
    const older = shown.items.filter((item) => timeOf(item) <= until && !loaded.has(keyOf(item)));
    return { ...shown, items: head.items.concat(older) };
  }
  const positions = new Map(shown.items.map((item, index) => [keyOf(item), index]));
  const last = head.items.map((item) => positions.get(keyOf(item))).findLast((position) => position !== undefined);
  if (last === undefined) return null;
  const older = shown.items.slice(last + 1).filter((item) => !loaded.has(keyOf(item)));
  return older.length === 0 ? head : { ...shown, items: head.items.concat(older) };
}
