//! A rule in words is the rule that is applied.

use posthaste_config::{SETTINGS, Setting};

use crate::Said;

/// The ends of "from 1 to 100", where a rule has them.
fn range(setting: &Setting) -> Option<(u64, u64)> {
    let (_, rest) = setting.rule.split_once("from ")?;
    let (low, rest) = rest.split_once(" to ")?;
    let high: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((low.parse().ok()?, high.parse().ok()?))
}

fn is_accepted(setting: &Setting, value: u64) -> bool {
    Said::nothing().flag(setting.name, &value.to_string()).load().is_ok()
}

#[test]
fn both_ends_of_a_range_are_accepted_and_what_lies_beyond_is_not() {
    let ranges: Vec<_> =
        SETTINGS.into_iter().filter_map(|setting| Some((setting, range(setting)?))).collect();
    for (setting, (low, high)) in &ranges {
        assert!(is_accepted(setting, *low) && is_accepted(setting, *high), "{} {low} {high}", setting.name);
        assert!(!is_accepted(setting, high + 1), "{} {high}", setting.name);
        assert!(low.checked_sub(1).is_none_or(|below| !is_accepted(setting, below)), "{}", setting.name);
    }
    assert!(ranges.len() >= 14, "{}", ranges.len());
}

#[test]
fn words_that_a_rule_offers_are_accepted() {
    for name in ["retry_strategy", "allow_fast_retries", "dns", "log_format"] {
        let setting = posthaste_config::setting(name).unwrap();
        for word in setting.rule.split(" or ") {
            assert!(Said::nothing().flag(name, word).load().is_ok(), "{name} {word}");
        }
    }
}
