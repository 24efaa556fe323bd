//! A scanner for PromQL that returns the series an expression reads.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::str::CharIndices;

const OPERATORS: [&str; 6] = ["and", "or", "unless", "bool", "offset", "atan2"];
/// Keywords that a list of labels follows.
const GROUPINGS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];

/// Returns the names of the series in an expression, without label selectors.
pub(crate) fn series_names(expression: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut chars = expression.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' | '\'' => skip_string(&mut chars, c),
            '{' => skip_to(&mut chars, '}'),
            '[' => skip_to(&mut chars, ']'),
            c if c.is_ascii_digit() => {
                word_end(&mut chars, at);
            }
            c if is_name_char(c) => {
                let name = &expression[at..word_end(&mut chars, at)];
                let rest = expression[at + name.len()..].trim_start();
                if GROUPINGS.contains(&name) {
                    if rest.starts_with('(') {
                        skip_to(&mut chars, ')');
                    }
                } else if !OPERATORS.contains(&name) && !follows_function(rest) {
                    names.insert(name.to_owned());
                }
            }
            _ => {}
        }
    }
    names
}

/// Returns whether the name before this text is a function or an aggregation.
fn follows_function(rest: &str) -> bool {
    let word = rest.split(|c| !is_name_char(c)).next().unwrap_or_default();
    rest.starts_with('(') || word == "by" || word == "without"
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// Advances past the word that begins at `start`, and returns the index of its end.
fn word_end(chars: &mut Peekable<CharIndices<'_>>, start: usize) -> usize {
    let mut end = start + 1;
    while let Some((at, _)) = chars.next_if(|(_, c)| is_name_char(*c)) {
        end = at + 1;
    }
    end
}

fn skip_string(chars: &mut Peekable<CharIndices<'_>>, quote: char) {
    while let Some((_, c)) = chars.next() {
        match c {
            '\\' => _ = chars.next(),
            c if c == quote => return,
            _ => {}
        }
    }
}

fn skip_to(chars: &mut Peekable<CharIndices<'_>>, end: char) {
    while let Some((_, c)) = chars.next() {
        match c {
            '"' => skip_string(chars, c),
            c if c == end => return,
            _ => {}
        }
    }
}

#[test]
fn only_series_names_are_returned() {
    let cases: [(&str, &[&str]); 7] = [
        ("up == 0", &["up"]),
        ("absent(up{job=\"posthaste\"} == 1)", &["up"]),
        ("sum by (job, le) (rate(a_bucket{le=~\"30(\\\\.0)?\"}[5m])) > 0", &["a_bucket"]),
        ("max(a) by (job) and on (job) b{x=\"} c\"} offset 5m", &["a", "b"]),
        ("a:b:c > 0.05 and deriv(d[1h]) * 3600 > 2e3", &["a:b:c", "d"]),
        ("histogram_quantile(0.95, sum by (le) (rate(x_bucket[$__rate_interval])))", &["x_bucket"]),
        ("(sum(a) or 0 * b)\n+ c", &["a", "b", "c"]),
    ];
    for (expression, names) in cases {
        assert_eq!(series_names(expression).into_iter().collect::<Vec<_>>(), names, "{expression}");
    }
}
