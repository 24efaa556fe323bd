//! Indented JSON for people. Only white space changes: numbers, escapes and the order of keys stay as they were sent,
//! because the signature covers those bytes.

use jsonformat::Indentation;
use serde::de::IgnoredAny;

use super::text::is_invisible;

/// Maximum nesting depth of JSON that is indented. Each level indents every line inside it, so deep nesting would
/// multiply the output.
const DEPTH_MAX: usize = 64;

/// Indents JSON and escapes its invisible characters. Returns None for bytes that are not JSON or are nested deeper
/// than [`DEPTH_MAX`].
pub(crate) fn indent_json(bytes: &[u8]) -> Option<String> {
    serde_json::from_slice::<IgnoredAny>(bytes).ok()?;
    let json = std::str::from_utf8(bytes).ok()?;
    if nesting_depth(json) > DEPTH_MAX {
        return None;
    }
    let indented = jsonformat::format(json, Indentation::TwoSpace);
    Some(escape_invisible(indented.trim_end()))
}

/// Counts the levels of arrays and objects in valid JSON.
fn nesting_depth(json: &str) -> usize {
    let (mut depth, mut depth_max) = (0_usize, 0);
    let mut chars = json.chars();
    let mut in_string = false;
    while let Some(c) = chars.next() {
        match c {
            '"' => in_string = !in_string,
            '\\' => drop(chars.next()),
            '[' | '{' if !in_string => depth += 1,
            ']' | '}' if !in_string => depth -= 1,
            _ => {}
        }
        depth_max = depth_max.max(depth);
    }
    depth_max
}

/// Writes characters that act on a terminal as JSON escapes. In valid JSON they occur only inside strings, except for
/// the line breaks between its lines.
fn escape_invisible(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if is_invisible(c) && c != '\n' {
            for unit in c.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            escaped.push(c);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_white_space_changes() {
        let sent = br#"{"b":1.50,"a":[12345678901234567890, {}, [ ] ,null],"a":"x\"y\\","e":"\u00e9"}"#;
        let shown = indent_json(sent).unwrap();
        let expected = r#"{
  "b": 1.50,
  "a": [
    12345678901234567890,
    {},
    [],
    null
  ],
  "a": "x\"y\\",
  "e": "\u00e9"
}"#;
        assert_eq!(shown, expected);
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(indent_json("\"a\u{9b}b\u{202e}\"".as_bytes()).unwrap(), r#""a\u009bb\u202e""#);
    }

    #[test]
    fn brackets_and_commas_inside_strings_are_text() {
        assert_eq!(indent_json(br#"["a,[b]: {c}"]"#).unwrap(), "[\n  \"a,[b]: {c}\"\n]");
    }

    #[test]
    fn text_that_is_not_json_returns_none() {
        assert_eq!(indent_json(b"{\"a\":"), None);
        assert_eq!(indent_json(b"a=1&b=2"), None);
    }

    #[test]
    fn json_nested_deeper_than_the_limit_returns_none() {
        let nested = |depth| [b"[".repeat(depth), b"]".repeat(depth)].concat();
        assert!(indent_json(&nested(DEPTH_MAX)).is_some());
        assert_eq!(indent_json(&nested(100_000)), None);
    }
}
