//! The rules in words agree with the parsers.

use posthaste_config::{Setting, settings};

use crate::UserInput;

/// Returns the bounds of a rule such as "from 1 to 100".
fn range(setting: &Setting) -> Option<(u64, u64)> {
    let (_, rest) = setting.rule.split_once("from ")?;
    let (low, rest) = rest.split_once(" to ")?;
    let high: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((low.parse().ok()?, high.parse().ok()?))
}

fn is_valid(setting: &Setting, value: u64) -> bool {
    UserInput::new().flag(setting.name, &value.to_string()).parse().is_ok()
}

#[test]
fn both_bounds_of_a_range_are_valid_and_values_beyond_are_not() {
    let ranges: Vec<_> = settings().filter_map(|setting| Some((setting, range(setting)?))).collect();
    for (setting, (low, high)) in &ranges {
        assert!(is_valid(setting, *low) && is_valid(setting, *high), "{} {low} {high}", setting.name);
        assert!(!is_valid(setting, high + 1), "{} {high}", setting.name);
        assert!(low.checked_sub(1).is_none_or(|below| !is_valid(setting, below)), "{}", setting.name);
    }
    assert!(ranges.len() >= 14, "{}", ranges.len());
}

#[test]
fn names_in_a_rule_are_valid() {
    for name in ["retry_strategy", "allow_fast_retries", "dns", "log_format", "compat_headers"] {
        let setting = posthaste_config::setting(name).unwrap();
        for value in setting.rule.split(" or ") {
            assert!(UserInput::new().flag(name, value).parse().is_ok(), "{name} {value}");
        }
    }
}
