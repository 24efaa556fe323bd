//! The known name that a mistyped one was probably meant to be.

/// None where nothing is near enough to be of help.
pub(super) fn nearest(written: &str, known: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    // A long name is no near miss of anything, and comparing it would cost its length over and over.
    if written.len() > 100 {
        return None;
    }
    let written = written.to_ascii_lowercase();
    let near_enough = |name: &str| (name.len() / 3).max(1);
    known
        .into_iter()
        .map(|name| (distance(&written, &name.to_ascii_lowercase()), name))
        .filter(|(distance, name)| *distance <= near_enough(name))
        .min()
        .map(|(_, name)| name)
}

/// Insertions, deletions and substitutions from one text to the other; two letters swapped count as one.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut previous_char = None;
    for (row, char_a) in (1..).zip(a.chars()) {
        let mut current = vec![row];
        for (column, &char_b) in (1..).zip(&b) {
            let substituted = last[column - 1] + usize::from(char_a != char_b);
            let mut least = substituted.min(last[column] + 1).min(current[column - 1] + 1);
            if column > 1 && previous_char == Some(char_b) && char_a == b[column - 2] {
                least = least.min(before_last[column - 2] + 1);
            }
            current.push(least);
        }
        previous_char = Some(char_a);
        before_last = std::mem::replace(&mut last, current);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_what_fingers_do() {
        for (a, b, steps) in [
            ("", "", 0),
            ("", "dns", 3),
            ("log", "log", 0),
            ("lgo", "log", 1),
            ("listn", "listen", 1),
            ("concurency", "concurrency", 1),
            ("leese_secs", "lease_seconds", 4),
        ] {
            assert_eq!((distance(a, b), distance(b, a)), (steps, steps), "{a} {b}");
        }
    }

    #[test]
    fn only_what_is_near_is_suggested() {
        let known = ["listen", "log", "log_format", "retry_base_seconds"];
        assert_eq!(nearest("lisen", known), Some("listen"));
        assert_eq!(nearest("RETRY_BASE_SECOND", known), Some("retry_base_seconds"));
        assert_eq!(nearest("log-format", known), Some("log_format"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest(&"listen".repeat(100_000), known), None);
    }
}
