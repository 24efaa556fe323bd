//! Rule: README states the retry contract, because the contract is a commitment to receivers.

use std::fs;
use std::path::Path;

fn readme() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("this package is two levels below the root");
    fs::read_to_string(root.join("README.md")).expect("README.md can be read")
}

/// Returns the statements of the retry contract that a text does not contain.
fn missing_statements(text: &str) -> Vec<&'static str> {
    let contract = [
        "| 1 | 60 s ± 20 % | 1 min |",
        "| 2 | 120 s ± 20 % | 3 min |",
        "| 3 | 240 s ± 20 % | 7 min |",
        "| 4 | 480 s ± 20 % | 15 min |",
        "| 5 | 960 s ± 20 % | 31 min |",
        "A first delay under 30 s is refused",
        "docs/retry-contract.md",
    ];
    contract.into_iter().filter(|part| !text.contains(part)).collect()
}

#[test]
fn s1_phase3_readme_states_every_delay_the_jitter_and_the_floor() {
    assert_eq!(missing_statements(&readme()), Vec::<&str>::new());
}

#[test]
fn readme_with_a_shorter_delay_is_found() {
    let changed = readme().replace("60 s ± 20 %", "5 s");
    assert!(!missing_statements(&changed).is_empty());
}
