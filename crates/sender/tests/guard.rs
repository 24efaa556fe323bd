//! The address guard in a complete sender: no destination leads into a network that was not allowed, neither by the
//! spelling of its URL, nor by the addresses of its name, nor by a DNS answer that changes.
//!
//! Canary listeners on loopback detect connections that the guard should have prevented. No test connects to another host.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

#[path = "guard/case.rs"]
mod case;
#[path = "guard/harness.rs"]
mod harness;

#[path = "guard/acceptance.rs"]
mod acceptance;
#[path = "guard/proxy.rs"]
mod proxy;
#[path = "guard/ranges.rs"]
mod ranges;
#[path = "guard/rebinding.rs"]
mod rebinding;
#[path = "guard/spellings.rs"]
mod spellings;

use std::collections::BTreeSet;

#[test]
fn at_least_400_different_cases_exist() {
    let cases =
        [ranges::literals(), ranges::embedded(), ranges::answers(), ranges::allow_lists(), spellings::all()];
    let different: BTreeSet<_> = cases.iter().flatten().map(ToString::to_string).collect();
    assert!(different.len() >= 400, "only {} cases", different.len());
}
