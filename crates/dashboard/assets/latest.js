// Orders responses: of two requests for the same part of a page, the one that was sent later wins, also if its response comes first.

/** Returns a function to call before each request. What it returns is called with the response, and says whether to show it. */
export function createSequence() {
  let sent = 0;
  let shown = 0;
  return () => {
    sent += 1;
    const mine = sent;
    return () => {
      if (mine < shown) return false;
      shown = mine;
      return true;
    };
  };
}
