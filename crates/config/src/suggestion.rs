//! Suggestions for mistyped names.

use strsim::osa_distance;

use super::setting::Setting;
use super::settings::{setting, settings};

/// Maximum length of a name that is compared. A longer one resembles no setting, and comparing it would be slow.
const NAME_LEN_MAX: usize = 100;

/// Returns the setting whose name is nearest to a mistyped one, or none if no name is near.
pub(crate) fn nearest_setting(mistyped: &str) -> Option<&'static Setting> {
    nearest(mistyped, settings().map(|setting| setting.name)).and_then(setting)
}

/// Returns the nearest of these names, ignoring case. A third of its letters may differ; two swapped letters count as one.
fn nearest(mistyped: &str, names: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    if mistyped.len() > NAME_LEN_MAX {
        return None;
    }
    let mistyped = mistyped.to_ascii_lowercase();
    let distance_max = |name: &str| (name.len() / 3).max(1);
    names
        .into_iter()
        .map(|name| (osa_distance(&mistyped, &name.to_ascii_lowercase()), name))
        .filter(|(distance, name)| *distance <= distance_max(name))
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_typing_mistakes() {
        for (a, b, mistakes) in [
            ("", "", 0),
            ("", "dns", 3),
            ("log", "log", 0),
            ("lgo", "log", 1),
            ("listn", "listen", 1),
            ("concurency", "concurrency", 1),
            ("leese_secs", "lease_seconds", 4),
        ] {
            assert_eq!((osa_distance(a, b), osa_distance(b, a)), (mistakes, mistakes), "{a} {b}");
        }
    }

    #[test]
    fn only_near_names_are_suggested() {
        let names = ["listen", "log", "log_format", "retry_base_seconds"];
        assert_eq!(nearest("lisen", names), Some("listen"));
        assert_eq!(nearest("RETRY_BASE_SECOND", names), Some("retry_base_seconds"));
        assert_eq!(nearest("log-format", names), Some("log_format"));
        assert_eq!(nearest("colour", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest(&"listen".repeat(100_000), names), None);
    }
}
