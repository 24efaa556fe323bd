// JSON as text. It is laid out without parsing its values: large numbers, 1.10 and repeated keys stay as they are.

const INDENT = "  ";
// Deeper levels are not indented further, so that the text stays small.
const DEPTH_MAX = 50;
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** Throws an error unless a text is JSON. @param {string} text */
export function checkJson(text) {
  JSON.parse(text);
}

/** Lays out a text over several lines. Returns a text that is not JSON as it is. @param {string} text */
export function indentJson(text) {
  try {
    checkJson(text);
  } catch {
    return text;
  }
  const parts = [];
  let depth = 0;
  let previous = "";
  for (const [token] of text.matchAll(TOKEN)) {
    const isEnd = token === "}" || token === "]";
    const isEmpty = isEnd && (previous === "{" || previous === "[");
    if (isEnd) depth -= 1;
    if (!isEmpty && (isEnd || previous === "{" || previous === "[" || previous === ",")) parts.push("\n", INDENT.repeat(Math.min(depth, DEPTH_MAX)));
    parts.push(token === ":" ? ": " : token);
    if (token === "{" || token === "[") depth += 1;
    previous = token;
  }
  return parts.join("");
}

/** Returns the text of a member of an object; null if there is none. @param {string} text of the object @param {string} name */
export function memberText(text, name) {
  let depth = 0;
  let key = "";
  let previous = "";
  let start = -1;
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    if (depth === 1 && start !== -1 && (token === "," || token === "}")) return text.slice(start, index).trim();
    if (depth === 1 && previous === ":" && start === -1 && key === JSON.stringify(name)) start = index;
    if (token === "{" || token === "[") depth += 1;
    else if (token === "}" || token === "]") depth -= 1;
    else if (token === ":") key = previous;
    previous = token;
  }
  return null;
}

/** Returns the text of an object with one more member, whose value is a JSON text. @param {object} object not empty @param {string} name @param {string} value */
export function withMember(object, name, value) {
  return `${JSON.stringify(object).slice(0, -1)},${JSON.stringify(name)}:${value}}`;
}
