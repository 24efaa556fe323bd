//! Text of strangers, made fit for a terminal: nothing in it moves a cursor, hides or reorders what is read. And words,
//! made fit to be copied into a shell.

use posthaste_domain::Excerpt;

/// Keeps lines and tabs; whatever else does not show is written out, as `\u{1b}`.
pub(crate) fn harmless(text: &str) -> String {
    written_out(text, |c| matches!(c, '\n' | '\t'))
}

/// As [`harmless`], on one line.
pub(crate) fn harmless_line(text: &str) -> String {
    written_out(text, |_| false)
}

/// `1 event`, `2 events`; what is more than one ends in an s.
pub(crate) fn counted(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

fn written_out(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) && !keep(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// What an excerpt would leave out, apart from spaces.
pub(crate) fn is_hidden(c: char) -> bool {
    match c {
        ' '..='~' => false,
        '\u{2028}' | '\u{2029}' => true,
        c if c.is_control() => true,
        c if c.is_whitespace() => false,
        c => Excerpt::from_text(c.encode_utf8(&mut [0; 4])).is_empty(),
    }
}

/// As a shell reads it as one word.
pub(crate) fn quoted(word: &str) -> String {
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
    fn escapes_and_reordering_are_written_out() {
        assert_eq!(harmless_line("a\u{1b}[2Jb\r\n\u{202e}c"), r"a\u{1b}[2Jb\r\n\u{202e}c");
        assert_eq!(harmless("one\n\ttwo\u{7f}"), "one\n\ttwo\\u{7f}");
    }

    #[test]
    fn text_of_any_language_stays_as_it_is() {
        let text = "Grüße, 請求書\u{3000}支払済, счёт";
        assert_eq!(harmless_line(text), text);
    }
}
