//! A good log and a good list pass; each way of doctoring one of them is found.

use super::*;
use crate::log::parse_log;
use crate::requirements::parse_requirements;

const CRITERION_TEST: &str = "s0_fr001_ac1_jitter_is_valid_from_0_to_10000";

/// Every required row: the first has a test, all others wait.
fn good_list() -> String {
    let rows = REQUIRED_IDS.iter().map(|&id| match id {
        "S0-FR-001-AC1" => format!("| {id} | jitter is valid from 0 to 10000 | `{CRITERION_TEST}` |\n"),
        _ => format!("| {id} | something | not yet: the rest |\n"),
    });
    format!("| id | what | tests |\n|---|---|---|\n{}", rows.collect::<String>())
}

fn good_log() -> String {
    let names = BACKOFF_TESTS.iter().chain(&[CRITERION_TEST]);
    names.map(|name| format!("test tests::{name} ... ok\n")).collect()
}

fn findings(log: &str, list: &str) -> Vec<Finding> {
    check(&parse_log(log), &parse_requirements(list)).findings
}

/// Replaces in a text that must contain what is replaced, or the test would prove nothing.
fn doctored(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "`{from}` is not in the text to doctor");
    text.replace(from, to)
}

fn only(findings: Vec<Finding>) -> Finding {
    assert_eq!(findings.len(), 1, "{findings:?}");
    findings.into_iter().next().unwrap()
}

#[test]
fn a_good_log_and_list_pass_and_are_counted() {
    let report = check(&parse_log(&good_log()), &parse_requirements(&good_list()));
    assert_eq!(report, Report { findings: vec![], covered: 1, waiting: REQUIRED_IDS.len() - 1 });
}

#[test]
fn s1_phase3_ci_each_backoff_test_that_is_removed_renamed_ignored_or_failed_is_found() {
    for test in BACKOFF_TESTS {
        let line = format!("test tests::{test} ... ok\n");
        let changed = |to: &str| only(findings(&doctored(&good_log(), &line, to), &good_list())).to_string();

        for log in [String::new(), format!("test tests::{test}_or_so ... ok\n")] {
            let message = changed(&log);
            let expected = format!("{test} did not run, and the retry contract names it; restore it");
            assert!(message.starts_with(&expected), "{message}");
        }
        assert!(changed(&format!("test tests::{test} ... FAILED\n")).contains(" failed; fix it"));
        assert!(changed(&format!("test tests::{test} ... ignored\n")).contains("(no reason given)"));
        assert!(changed(&format!("test tests::{test} ... ignored, slow\n")).contains("is ignored (slow)"));
        assert!(changed(&format!("test tests::{test} ... okay\n")).contains("ended in `okay`"));
    }
}

#[test]
fn a_listed_test_is_guarded_like_a_backoff_test() {
    let id = "S0-FR-001-AC1".to_owned();
    let gone = doctored(&good_log(), &format!("test tests::{CRITERION_TEST} ... ok\n"), "");
    assert_eq!(
        only(findings(&gone, &good_list())),
        Finding::NotRun { test: CRITERION_TEST.to_owned(), guarded_by: id.clone() }
    );
    let failed =
        doctored(&good_log(), &format!("{CRITERION_TEST} ... ok"), &format!("{CRITERION_TEST} ... FAILED"));
    assert_eq!(
        only(findings(&failed, &good_list())),
        Finding::Failed { path: format!("tests::{CRITERION_TEST}"), guarded_by: id }
    );
}

#[test]
fn tests_of_a_waiting_row_are_guarded_too() {
    let list = doctored(&good_list(), &format!("`{CRITERION_TEST}`"), "`a_test`, not yet: the rest");
    assert!(
        findings(&good_log(), &list)
            .contains(&Finding::NotRun { test: "a_test".to_owned(), guarded_by: "S0-FR-001-AC1".to_owned() })
    );
}

#[test]
fn a_renamed_criterion_test_is_missing_under_one_name_and_unlisted_under_the_other() {
    let log = doctored(&good_log(), CRITERION_TEST, "s0_fr001_ac1_renamed");
    assert_eq!(
        findings(&log, &good_list()),
        [
            Finding::NotRun { test: CRITERION_TEST.to_owned(), guarded_by: "S0-FR-001-AC1".to_owned() },
            Finding::Unlisted { path: "tests::s0_fr001_ac1_renamed".to_owned() },
        ]
    );
}

#[test]
fn a_name_that_occurs_twice_must_pass_both_times() {
    let log = format!("{}test sqlite::{CRITERION_TEST} ... ok\n", good_log());
    assert_eq!(findings(&log, &good_list()), []);

    let log = format!("{}test sqlite::{CRITERION_TEST} ... ignored, no database\n", good_log());
    let finding = only(findings(&log, &good_list())).to_string();
    assert!(finding.starts_with(&format!("sqlite::{CRITERION_TEST} is ignored (no database)")), "{finding}");
}

#[test]
fn a_criterion_test_that_no_row_lists_is_found_even_if_it_is_ignored() {
    for result in ["ok", "ignored"] {
        let log = format!("{}test a::s4_f1_dead_letter ... {result}\n", good_log());
        assert_eq!(
            only(findings(&log, &good_list())),
            Finding::Unlisted { path: "a::s4_f1_dead_letter".to_owned() }
        );
    }
}

#[test]
fn every_required_row_that_is_dropped_is_found() {
    for &id in REQUIRED_IDS {
        let list: String = good_list()
            .lines()
            .filter(|line| !line.contains(&format!("| {id} |")))
            .fold(String::new(), |all, line| all + line + "\n");
        assert!(findings(&good_log(), &list).contains(&Finding::NoRow { id: id.to_owned() }), "{id}");
    }
}

#[test]
fn a_shortened_row_leaves_its_test_unlisted() {
    let list = doctored(&good_list(), &format!("`{CRITERION_TEST}`"), "not yet: the rest");
    assert_eq!(
        only(findings(&good_log(), &list)),
        Finding::Unlisted { path: format!("tests::{CRITERION_TEST}") }
    );
}

#[test]
fn a_malformed_row_is_found_with_its_line_and_its_id_counts_as_dropped() {
    let list = doctored(
        &good_list(),
        "| S4-RESET | something | not yet: the rest |",
        "| S4-RESET | something | later |",
    );
    let found = findings(&good_log(), &list);
    assert_eq!(found[1..], [Finding::NoRow { id: "S4-RESET".to_owned() }]);
    let line = REQUIRED_IDS.len() + 2;
    assert!(found[0].to_string().starts_with(&format!("requirements line {line}: S4-RESET has `later`")));
}

#[test]
fn an_empty_log_is_one_finding() {
    assert_eq!(findings("", &good_list()), [Finding::EmptyLog]);
    assert_eq!(findings("error: could not compile\n", &good_list()), [Finding::EmptyLog]);
}

#[test]
fn an_empty_list_is_every_row_dropped() {
    let dropped =
        findings(&good_log(), "").into_iter().filter(|found| matches!(found, Finding::NoRow { .. }));
    assert_eq!(dropped.count(), REQUIRED_IDS.len());
}
