//! Untrusted text, escaped so that it cannot move a terminal's cursor or hide or reorder other text; and text quoted
//! for a shell.

use posthaste_domain::Excerpt;

/// Escapes invisible characters, as `\u{1b}`, but keeps line breaks and tabs.
pub(crate) fn escape_text(text: &str) -> String {
    escape_except(text, |c| matches!(c, '\n' | '\t'))
}

/// Escapes invisible characters, line breaks included: the result is one line.
pub(crate) fn escape_line(text: &str) -> String {
    escape_except(text, |_| false)
}

/// Returns `1 event`, `2 events`: the count and its noun, with an s unless the count is 1.
pub(crate) fn pluralize(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn escape_except(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_invisible(c) && !keep(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Returns whether a character shows nothing by itself: a control or formatting character, but not a space. These are
/// the characters that an [`Excerpt`] drops.
pub(crate) fn is_invisible(c: char) -> bool {
    match c {
        ' '..='~' => false,
        '\u{2028}' | '\u{2029}' => true,
        c if c.is_control() => true,
        c if c.is_whitespace() => false,
        c => Excerpt::from_text(c.encode_utf8(&mut [0; 4])).is_empty(),
    }
}

/// Quotes text, where necessary, so that a shell reads it as one word.
pub(crate) fn shell_quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_reordering_characters_are_escaped() {
        assert_eq!(escape_line("a\u{1b}[2Jb\r\n\u{202e}c"), r"a\u{1b}[2Jb\r\n\u{202e}c");
        assert_eq!(escape_text("one\n\ttwo\u{7f}"), "one\n\ttwo\\u{7f}");
    }

    #[test]
    fn text_of_any_language_is_unchanged() {
        let text = "Grüße, 請求書\u{3000}支払済, счёт";
        assert_eq!(escape_line(text), text);
    }
}
