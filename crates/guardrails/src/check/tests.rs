//! Tests of the check: a complete log and list pass, and each change to one of them gives its finding.

use super::*;
use crate::log::parse_log;
use crate::requirements::parse_requirements;

const DOMAIN: &str =
    "     Running unittests src/lib.rs (target/debug/deps/posthaste_domain-7173841a0c4739c0)\n";
const CONTRACT: &str =
    "     Running tests/retry_contract.rs (target/debug/deps/retry_contract-582123af89f3b5b0)\n";
const DOC_TESTS: &str = "   Doc-tests posthaste_domain\n";

/// The only test of its criterion. It covers no other criterion.
const CRITERION_TEST: &str = "s0_fr001_ac2_holds";
const CRITERION_ROW: &str = "| S0-FR-001-AC2 | something | `s0_fr001_ac2_holds` |\n";

/// Returns one test name for each prefix of a criterion.
fn tests_of(id: &str) -> Vec<String> {
    let complete = |prefix: String| if prefix.ends_with('_') { prefix + "holds" } else { prefix };
    test_prefixes(id).into_iter().map(complete).collect()
}

/// Returns a list with every required row and its tests.
fn complete_list() -> String {
    let rows = REQUIRED_IDS.iter().map(|&id| {
        let tests = tests_of(id).join("` `");
        format!("| {id} | something | `{tests}` |\n")
    });
    format!("| id | what | tests |\n|---|---|---|\n{}", rows.collect::<String>())
}

/// Returns a log in which every listed test passes, and the backoff tests run in the binary of the retry contract.
fn passing_log() -> String {
    let list = parse_requirements(&complete_list());
    let listed: BTreeSet<_> = list.rows.iter().flat_map(|row| &row.tests).map(String::as_str).collect();
    let others = listed.into_iter().filter(|test| !BACKOFF_TESTS.contains(test));
    let others: String = others.map(|test| format!("test tests::{test} ... ok\n")).collect();
    let contract: String = BACKOFF_TESTS.iter().map(|test| format!("test {test} ... ok\n")).collect();
    format!("{DOMAIN}{others}{CONTRACT}{contract}{DOC_TESTS}")
}

fn findings(log: &str, list: &str) -> Vec<Finding> {
    check(&parse_log(log), &parse_requirements(list)).findings
}

/// Replaces a part of a text. The text must contain the part, because the test would prove nothing otherwise.
fn replace_in(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "the text does not contain `{from}`");
    text.replace(from, to)
}

fn row_of(id: &str) -> String {
    let list = complete_list();
    let row = list.lines().find(|line| line.starts_with(&format!("| {id} |"))).expect("each id has a row");
    format!("{row}\n")
}

/// Returns the only finding, and fails if there are others.
fn only(findings: Vec<Finding>) -> Finding {
    assert_eq!(findings.len(), 1, "{findings:?}");
    findings.into_iter().next().unwrap()
}

#[test]
fn complete_log_and_list_have_no_findings() {
    let report = check(&parse_log(&passing_log()), &parse_requirements(&complete_list()));
    assert_eq!(report, Report { findings: vec![], covered: REQUIRED_IDS.len() });
}

#[test]
fn s1_phase3_ci_each_backoff_test_that_is_removed_renamed_ignored_or_failed_is_found() {
    for test in BACKOFF_TESTS {
        let line = format!("test {test} ... ok\n");
        let finding_with =
            |to: &str| only(findings(&replace_in(&passing_log(), &line, to), &complete_list())).to_string();

        for log in [String::new(), format!("test {test}_or_so ... ok\n")] {
            let message = finding_with(&log);
            let expected = format!("{test} did not run, but the retry contract, ");
            assert!(message.starts_with(&expected), "{message}");
        }
        assert!(finding_with(&format!("test {test} ... FAILED\n")).contains(" failed; fix it"));
        assert!(finding_with(&format!("test {test} ... ignored\n")).contains("(without a reason)"));
        assert!(finding_with(&format!("test {test} ... ignored, slow\n")).contains("is ignored (slow)"));
        assert!(finding_with(&format!("test {test} ... okay\n")).contains("has the result `okay`"));
        assert!(finding_with(&format!("test {test} - should panic ... ok\n")).contains("is #[should_panic]"));
    }
}

#[test]
fn backoff_test_that_runs_only_in_another_binary_is_found() {
    for test in BACKOFF_TESTS {
        let line = format!("test {test} ... ok\n");
        let moved = replace_in(&replace_in(&passing_log(), &line, ""), DOMAIN, &format!("{DOMAIN}{line}"));
        let expected = format!(
            "{test} ran only in posthaste_domain (unittests src/lib.rs), but the retry contract requires it in \
             tests/retry_contract.rs; move it back"
        );
        assert_eq!(only(findings(&moved, &complete_list())).to_string(), expected);

        let in_both = replace_in(&passing_log(), DOMAIN, &format!("{DOMAIN}{line}"));
        assert_eq!(findings(&in_both, &complete_list()), []);
    }
}

#[test]
fn binary_of_the_same_name_does_not_replace_the_retry_contract() {
    let log = replace_in(&passing_log(), "tests/retry_contract.rs", "unittests src/bin/retry_contract.rs");
    let found = findings(&log, &complete_list());
    assert_eq!(found.len(), BACKOFF_TESTS.len());
    assert!(found.iter().all(|found| matches!(found, Finding::WrongBinary { .. })), "{found:?}");
}

#[test]
fn log_without_stderr_is_one_finding() {
    let stdout_only =
        [DOMAIN, CONTRACT, DOC_TESTS].iter().fold(passing_log(), |log, line| replace_in(&log, line, ""));
    let finding = only(findings(&stdout_only, &complete_list())).to_string();
    assert!(finding.contains("log stderr too (`2>&1`)"), "{finding}");
}

#[test]
fn results_before_the_first_binary_or_after_doc_tests_do_not_count() {
    let line = format!("test tests::{CRITERION_TEST} ... ok\n");
    let log = replace_in(&passing_log(), &line, "");
    for log in [format!("{line}{log}"), format!("{log}{line}")] {
        let not_run =
            Finding::NotRun { test: CRITERION_TEST.to_owned(), guarded_by: "S0-FR-001-AC2".to_owned() };
        assert_eq!(findings(&log, &complete_list()), [Finding::ResultsWithoutBinary { results: 1 }, not_run]);
    }
}

#[test]
fn listed_test_is_guarded_like_a_backoff_test() {
    let id = "S0-FR-001-AC2".to_owned();
    let removed = replace_in(&passing_log(), &format!("test tests::{CRITERION_TEST} ... ok\n"), "");
    assert_eq!(
        only(findings(&removed, &complete_list())),
        Finding::NotRun { test: CRITERION_TEST.to_owned(), guarded_by: id.clone() }
    );
    let failed = replace_in(
        &passing_log(),
        &format!("{CRITERION_TEST} ... ok"),
        &format!("{CRITERION_TEST} ... FAILED"),
    );
    assert_eq!(
        only(findings(&failed, &complete_list())),
        Finding::Failed { path: format!("tests::{CRITERION_TEST}"), guarded_by: id.clone() }
    );
    let should_panic =
        replace_in(&passing_log(), CRITERION_TEST, &format!("{CRITERION_TEST} - should panic"));
    assert_eq!(
        only(findings(&should_panic, &complete_list())),
        Finding::ShouldPanic { path: format!("tests::{CRITERION_TEST}"), guarded_by: id }
    );
}

#[test]
fn unguarded_test_may_be_should_panic() {
    let log =
        replace_in(&passing_log(), DOMAIN, &format!("{DOMAIN}test tests::another - should panic ... ok\n"));
    assert_eq!(findings(&log, &complete_list()), []);
}

#[test]
fn renamed_criterion_test_is_missing_under_the_old_name_and_unlisted_under_the_new() {
    let log = replace_in(&passing_log(), CRITERION_TEST, "s0_fr001_ac2_renamed");
    assert_eq!(
        findings(&log, &complete_list()),
        [
            Finding::NotRun { test: CRITERION_TEST.to_owned(), guarded_by: "S0-FR-001-AC2".to_owned() },
            Finding::Unlisted { path: "tests::s0_fr001_ac2_renamed".to_owned() },
        ]
    );
}

#[test]
fn every_occurrence_of_a_guarded_test_must_pass() {
    let again = |result| format!("{DOMAIN}test sqlite::{CRITERION_TEST} ... {result}\n");
    let log = replace_in(&passing_log(), DOMAIN, &again("ok"));
    assert_eq!(findings(&log, &complete_list()), []);

    let log = replace_in(&passing_log(), DOMAIN, &again("ignored, no database"));
    let finding = only(findings(&log, &complete_list())).to_string();
    assert!(finding.starts_with(&format!("sqlite::{CRITERION_TEST} is ignored (no database)")), "{finding}");
}

#[test]
fn unlisted_criterion_test_is_found_even_if_it_is_ignored() {
    for result in ["ok", "ignored"] {
        let log =
            replace_in(&passing_log(), DOMAIN, &format!("{DOMAIN}test a::s4_f1_dead_letter ... {result}\n"));
        assert_eq!(
            only(findings(&log, &complete_list())),
            Finding::Unlisted { path: "a::s4_f1_dead_letter".to_owned() }
        );
    }
}

#[test]
fn each_missing_row_is_found() {
    for &id in REQUIRED_IDS {
        let list: String = complete_list()
            .lines()
            .filter(|line| !line.contains(&format!("| {id} |")))
            .fold(String::new(), |all, line| all + line + "\n");
        assert!(findings(&passing_log(), &list).contains(&Finding::MissingRow { id: id.to_owned() }), "{id}");
    }
}

#[test]
fn row_needs_a_test_for_each_prefix_of_its_criterion() {
    for &id in REQUIRED_IDS {
        for (prefix, test) in test_prefixes(id).into_iter().zip(tests_of(id)) {
            let row = row_of(id);
            let list = replace_in(&complete_list(), &row, &replace_in(&row, &test, "another"));
            let missing = Finding::MissingTest { id: id.to_owned(), prefix };
            assert!(findings(&passing_log(), &list).contains(&missing), "{id}");
        }
    }
}

#[test]
fn test_of_another_criterion_does_not_cover_a_row() {
    let row = CRITERION_ROW.replace("` |", "`, `s0_fr001_ac3_holds` |");
    assert_eq!(
        findings(&passing_log(), &replace_in(&complete_list(), CRITERION_ROW, &row)),
        [],
        "it may be listed in addition"
    );

    let row = CRITERION_ROW.replace(CRITERION_TEST, "s0_fr001_ac3_holds");
    let log = replace_in(&passing_log(), &format!("test tests::{CRITERION_TEST} ... ok\n"), "");
    let finding = only(findings(&log, &replace_in(&complete_list(), CRITERION_ROW, &row))).to_string();
    assert!(finding.starts_with("S0-FR-001-AC2 lists no test named `s0_fr001_ac2_…`; "), "{finding}");
}

#[test]
fn test_removed_from_its_row_is_unlisted() {
    let row = "| S0-FR-001-AC2 | something | `s0_fr001_ac2_holds` `s0_fr001_ac2_holds_again` |\n";
    let again = "test tests::s0_fr001_ac2_holds_again ... ok\n";
    let log = replace_in(&passing_log(), DOMAIN, &format!("{DOMAIN}{again}"));
    assert_eq!(findings(&log, &replace_in(&complete_list(), CRITERION_ROW, row)), []);
    assert_eq!(
        only(findings(&log, &complete_list())),
        Finding::Unlisted { path: "tests::s0_fr001_ac2_holds_again".to_owned() }
    );
}

#[test]
fn malformed_row_is_found_with_its_line_and_counts_as_missing() {
    let list = replace_in(&complete_list(), CRITERION_ROW, "| S0-FR-001-AC2 | something | later |\n");
    let log = replace_in(&passing_log(), &format!("test tests::{CRITERION_TEST} ... ok\n"), "");
    let found = findings(&log, &list);
    assert_eq!(found[1..], [Finding::MissingRow { id: "S0-FR-001-AC2".to_owned() }]);
    let line = complete_list().lines().take_while(|line| !CRITERION_ROW.starts_with(line)).count() + 1;
    assert!(
        found[0].to_string().starts_with(&format!("requirements line {line}: S0-FR-001-AC2 has `later`"))
    );
}

#[test]
fn empty_log_is_one_finding() {
    assert_eq!(findings("", &complete_list()), [Finding::EmptyLog]);
    assert_eq!(findings("error: could not compile\n", &complete_list()), [Finding::EmptyLog]);
    assert_eq!(findings(&format!("{DOMAIN}{CONTRACT}"), &complete_list()), [Finding::EmptyLog]);
}

#[test]
fn empty_list_misses_every_row() {
    let missing =
        findings(&passing_log(), "").into_iter().filter(|found| matches!(found, Finding::MissingRow { .. }));
    assert_eq!(missing.count(), REQUIRED_IDS.len());
}
