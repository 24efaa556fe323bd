//! Which series an expression of PromQL reads.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::str::CharIndices;

const OPERATORS: [&str; 6] = ["and", "or", "unless", "bool", "offset", "atan2"];
/// What is followed by a list of labels.
const GROUPINGS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];

/// The names of the series, without what selects among them.
pub(crate) fn series(expression: &str) -> BTreeSet<String> {
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
            c if is_of_name(c) => {
                let name = &expression[at..word_end(&mut chars, at)];
                let rest = expression[at + name.len()..].trim_start();
                if GROUPINGS.contains(&name) {
                    if rest.starts_with('(') {
                        skip_to(&mut chars, ')');
                    }
                } else if !OPERATORS.contains(&name) && !is_called(rest) {
                    names.insert(name.to_owned());
                }
            }
            _ => {}
        }
    }
    names
}

/// Whether a name before this is that of a function or an aggregation.
fn is_called(rest: &str) -> bool {
    let word = rest.split(|c| !is_of_name(c)).next().unwrap_or_default();
    rest.starts_with('(') || word == "by" || word == "without"
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// Moves past the word that begins at `start`, and returns where it ends.
fn word_end(chars: &mut Peekable<CharIndices<'_>>, start: usize) -> usize {
    let mut end = start + 1;
    while let Some((at, _)) = chars.next_if(|(_, c)| is_of_name(*c)) {
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
fn the_series_of_an_expression_are_found_and_nothing_else_is() {
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
        assert_eq!(series(expression).into_iter().collect::<Vec<_>>(), names, "{expression}");
    }
}
