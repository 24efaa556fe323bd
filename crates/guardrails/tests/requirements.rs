//! Rule: `docs/requirements.md` is complete. This test needs no test log, so it fails earlier than `make guardrails`.

use std::fs;
use std::path::Path;

use posthaste_guardrails::{Finding, TestLog, check, parse_requirements};

#[test]
fn every_required_criterion_has_a_row_with_a_test_of_its_prefix() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("this package is two levels below the root");
    let list = fs::read_to_string(root.join("docs/requirements.md")).expect("the list can be read");
    let mut findings = check(&TestLog::default(), &parse_requirements(&list)).findings;
    findings.retain(|finding| *finding != Finding::EmptyLog);
    let findings: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}
