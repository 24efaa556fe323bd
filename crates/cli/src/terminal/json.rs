//! JSON laid out to be read, with nothing else about it changed: numbers, escapes and the order of keys stay as they
//! were sent, because those bytes are what was signed.

use serde::de::IgnoredAny;

use super::text::is_hidden;

/// Deeper than anyone would read; every level makes every line longer.
const DEPTH_MAX: usize = 64;

/// None if it is not JSON, or nested deeper than [`DEPTH_MAX`].
pub(crate) fn indented(bytes: &[u8]) -> Option<String> {
    serde_json::from_slice::<IgnoredAny>(bytes).ok()?;
    let text = std::str::from_utf8(bytes).ok()?;
    let mut layout = Layout { out: String::with_capacity(text.len() * 2), depth: 0 };
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => layout.string(&mut chars),
            '{' | '[' => {
                skip_space(&mut chars);
                match chars.next_if(|next| matches!(next, '}' | ']')) {
                    Some(close) => layout.out.extend([c, close]),
                    None if layout.depth == DEPTH_MAX => return None,
                    None => layout.open(c),
                }
            }
            '}' | ']' => layout.close(c),
            ',' => layout.separate(),
            ':' => layout.out.push_str(": "),
            ' ' | '\t' | '\r' | '\n' => {}
            c => layout.out.push(c),
        }
    }
    Some(layout.out)
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn skip_space(chars: &mut Chars<'_>) {
    while chars.next_if(char::is_ascii_whitespace).is_some() {}
}

struct Layout {
    out: String,
    depth: usize,
}

impl Layout {
    fn open(&mut self, bracket: char) {
        self.out.push(bracket);
        self.depth += 1;
        self.line();
    }

    fn close(&mut self, bracket: char) {
        self.depth = self.depth.saturating_sub(1);
        self.line();
        self.out.push(bracket);
    }

    fn separate(&mut self) {
        self.out.push(',');
        self.line();
    }

    fn line(&mut self) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n("  ", self.depth));
    }

    /// The rest of a string, after its opening quote. What a terminal would act on is escaped as JSON escapes it.
    fn string(&mut self, chars: &mut Chars<'_>) {
        self.out.push('"');
        while let Some(c) = chars.next() {
            match c {
                '\\' => self.out.extend([c].into_iter().chain(chars.next())),
                c if is_hidden(c) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        self.out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => self.out.push(c),
            }
            if c == '"' {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_layout_changes() {
        let sent = br#"{"b":1.50,"a":[12345678901234567890, {}, [ ] ,null],"a":"x\"y\\","e":"\u00e9"}"#;
        let shown = indented(sent).unwrap();
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
    fn what_a_terminal_would_act_on_is_escaped() {
        assert_eq!(indented("\"a\u{9b}b\u{202e}\"".as_bytes()).unwrap(), r#""a\u009bb\u202e""#);
    }

    #[test]
    fn brackets_and_commas_inside_strings_are_text() {
        assert_eq!(indented(br#"["a,[b]: {c}"]"#).unwrap(), "[\n  \"a,[b]: {c}\"\n]");
    }

    #[test]
    fn what_is_not_json_is_left_to_the_caller() {
        assert_eq!(indented(b"{\"a\":"), None);
        assert_eq!(indented(b"a=1&b=2"), None);
    }

    #[test]
    fn what_is_nested_deeper_than_anyone_would_read_is_left_as_it_is() {
        let nested = |depth| [b"[".repeat(depth), b"]".repeat(depth)].concat();
        assert!(indented(&nested(DEPTH_MAX)).is_some());
        assert_eq!(indented(&nested(100_000)), None);
    }
}
