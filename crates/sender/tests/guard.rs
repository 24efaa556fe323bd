//! No destination leads into a network that was not allowed: not by how its URL is spelled, not by what its name
//! resolves to, and not by an answer that changes.
//!
//! Every case goes through a whole sender, with canaries on loopback where a connection would end that should not be
//! made. Nothing here leaves this host.
#![expect(clippy::unwrap_used, reason = "what only sets a test up says enough by failing it")]

#[path = "guard/case.rs"]
mod case;
#[path = "guard/stage.rs"]
mod stage;

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
fn there_are_at_least_400_different_cases() {
    let cases =
        [ranges::literals(), ranges::carriers(), ranges::answers(), ranges::allow_lists(), spellings::all()];
    let different: BTreeSet<_> = cases.iter().flatten().map(ToString::to_string).collect();
    assert!(different.len() >= 400, "only {} cases", different.len());
}
