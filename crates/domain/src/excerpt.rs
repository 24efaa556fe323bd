//! Short, safe excerpts of untrusted text.

use std::fmt;

/// Longest excerpt, in characters.
const EXCERPT_CHARS_MAX: usize = 200;

/// Printable text of at most 200 characters, safe in a database row, a log line, a terminal and a web page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Excerpt(String);

impl Excerpt {
    /// Takes an excerpt of a response body. Invalid UTF-8 becomes the replacement character.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self::from_text(&String::from_utf8_lossy(bytes))
    }

    /// Takes an excerpt of a text. A run of white space, control and invisible characters becomes one space.
    pub fn from_text(text: &str) -> Self {
        let mut safe = String::new();
        let mut chars = 0;
        let mut gap = false;
        for c in text.chars() {
            if c.is_whitespace() || c.is_control() || is_invisible(c) {
                gap = !safe.is_empty();
                continue;
            }
            let needed = 1 + usize::from(gap);
            if chars + needed > EXCERPT_CHARS_MAX {
                break;
            }
            if gap {
                safe.push(' ');
            }
            safe.push(c);
            chars += needed;
            gap = false;
        }
        Self(safe)
    }

    /// Wraps an excerpt read from a store.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Matches format characters that reorder or hide text. With them a receiver could forge the text that an operator
/// reads.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_characters_become_single_spaces() {
        let excerpt = Excerpt::from_bytes(b"  bad\r\n\x1b[31m gateway\0\0 \n");
        assert_eq!(excerpt.as_str(), "bad [31m gateway");
    }

    #[test]
    fn text_direction_cannot_be_forged() {
        assert_eq!(Excerpt::from_text("paid\u{202e}diap").as_str(), "paid diap");
    }

    proptest! {
        #[test]
        fn any_bytes_become_short_printable_text(bytes in proptest::collection::vec(any::<u8>(), 0..4_000)) {
            let excerpt = Excerpt::from_bytes(&bytes);
            prop_assert!(excerpt.as_str().chars().count() <= EXCERPT_CHARS_MAX);
            prop_assert!(!excerpt.as_str().chars().any(char::is_control));
        }
    }
}
