//! A good log and a good list pass; each way of doctoring one of them is found.

use super::*;
use crate::log::parse_log;
use crate::requirements::parse_requirements;

const DOMAIN: &str =
    "     Running unittests src/lib.rs (target/debug/deps/posthaste_domain-7173841a0c4739c0)\n";
const CONTRACT: &str =
    "     Running tests/retry_contract.rs (target/debug/deps/retry_contract-582123af89f3b5b0)\n";
const DOC_TESTS: &str = "   Doc-tests posthaste_domain\n";

/// The only test of its criterion, and of no other.
const CRITERION_TEST: &str = "s0_fr001_ac2_holds";
const ITS_ROW: &str = "| S0-FR-001-AC2 | something | `s0_fr001_ac2_holds` |\n";

/// One test for each name that a criterion asks for.
fn tests_of(id: &str) -> Vec<String> {
    let whole_name = |start: String| if start.ends_with('_') { start + "holds" } else { start };
    names_for(id).into_iter().map(whole_name).collect()
}

/// Every required row with its tests.
fn good_list() -> String {
    let rows = REQUIRED_IDS.iter().map(|&id| {
        let tests = tests_of(id).join("` `");
        format!("| {id} | something | `{tests}` |\n")
    });
    format!("| id | what | tests |\n|---|---|---|\n{}", rows.collect::<String>())
}

/// Every listed test passes, and the backoff tests where they belong.
fn good_log() -> String {
    let list = parse_requirements(&good_list());
    let listed: BTreeSet<_> = list.rows.iter().flat_map(|row| &row.tests).map(String::as_str).collect();
    let elsewhere = listed.into_iter().filter(|test| !BACKOFF_TESTS.contains(test));
    let elsewhere: String = elsewhere.map(|test| format!("test tests::{test} ... ok\n")).collect();
    let contract: String = BACKOFF_TESTS.iter().map(|test| format!("test {test} ... ok\n")).collect();
    format!("{DOMAIN}{elsewhere}{CONTRACT}{contract}{DOC_TESTS}")
}

fn findings(log: &str, list: &str) -> Vec<Finding> {
    check(&parse_log(log), &parse_requirements(list)).findings
}

/// Replaces in a text that must contain what is replaced, or the test would prove nothing.
fn doctored(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "`{from}` is not in the text to doctor");
    text.replace(from, to)
}

fn row_of(id: &str) -> String {
    let list = good_list();
    let row = list.lines().find(|line| line.starts_with(&format!("| {id} |"))).expect("each id has a row");
    format!("{row}\n")
}

fn only(findings: Vec<Finding>) -> Finding {
    assert_eq!(findings.len(), 1, "{findings:?}");
    findings.into_iter().next().unwrap()
}

#[test]
fn a_good_log_and_list_pass_and_are_counted() {
    let report = check(&parse_log(&good_log()), &parse_requirements(&good_list()));
    assert_eq!(report, Report { findings: vec![], covered: REQUIRED_IDS.len() });
}

#[test]
fn s1_phase3_ci_each_backoff_test_that_is_removed_renamed_ignored_or_failed_is_found() {
    for test in BACKOFF_TESTS {
        let line = format!("test {test} ... ok\n");
        let changed = |to: &str| only(findings(&doctored(&good_log(), &line, to), &good_list())).to_string();

        for log in [String::new(), format!("test {test}_or_so ... ok\n")] {
            let message = changed(&log);
            let expected = format!("{test} did not run, and the retry contract, ");
            assert!(message.starts_with(&expected), "{message}");
        }
        assert!(changed(&format!("test {test} ... FAILED\n")).contains(" failed; fix it"));
        assert!(changed(&format!("test {test} ... ignored\n")).contains("(no reason given)"));
        assert!(changed(&format!("test {test} ... ignored, slow\n")).contains("is ignored (slow)"));
        assert!(changed(&format!("test {test} ... okay\n")).contains("ended in `okay`"));
        assert!(changed(&format!("test {test} - should panic ... ok\n")).contains("is #[should_panic]"));
    }
}

#[test]
fn each_backoff_test_that_runs_outside_its_binary_only_is_found() {
    for test in BACKOFF_TESTS {
        let line = format!("test {test} ... ok\n");
        let moved = doctored(&doctored(&good_log(), &line, ""), DOMAIN, &format!("{DOMAIN}{line}"));
        let expected = format!(
            "{test} ran in posthaste_domain (unittests src/lib.rs) only, and the retry contract has it in \
             tests/retry_contract.rs; move it back"
        );
        assert_eq!(only(findings(&moved, &good_list())).to_string(), expected);

        let in_both = doctored(&good_log(), DOMAIN, &format!("{DOMAIN}{line}"));
        assert_eq!(findings(&in_both, &good_list()), []);
    }
}

#[test]
fn a_binary_of_the_same_name_is_not_the_home_of_the_backoff_tests() {
    let log = doctored(&good_log(), "tests/retry_contract.rs", "unittests src/bin/retry_contract.rs");
    let found = findings(&log, &good_list());
    assert_eq!(found.len(), BACKOFF_TESTS.len());
    assert!(found.iter().all(|found| matches!(found, Finding::Elsewhere { .. })), "{found:?}");
}

#[test]
fn a_log_without_stderr_is_one_finding_that_says_so() {
    let stdout = [DOMAIN, CONTRACT, DOC_TESTS].iter().fold(good_log(), |log, line| doctored(&log, line, ""));
    let finding = only(findings(&stdout, &good_list())).to_string();
    assert!(finding.contains("log stderr too (`2>&1`)"), "{finding}");
}

#[test]
fn results_before_the_first_binary_or_among_doc_tests_do_not_count() {
    let line = format!("test tests::{CRITERION_TEST} ... ok\n");
    let log = doctored(&good_log(), &line, "");
    for log in [format!("{line}{log}"), format!("{log}{line}")] {
        let not_run =
            Finding::NotRun { test: CRITERION_TEST.to_owned(), guarded_by: "S0-FR-001-AC2".to_owned() };
        assert_eq!(findings(&log, &good_list()), [Finding::NoBinary { results: 1 }, not_run]);
    }
}

#[test]
fn a_listed_test_is_guarded_like_a_backoff_test() {
    let id = "S0-FR-001-AC2".to_owned();
    let gone = doctored(&good_log(), &format!("test tests::{CRITERION_TEST} ... ok\n"), "");
    assert_eq!(
        only(findings(&gone, &good_list())),
        Finding::NotRun { test: CRITERION_TEST.to_owned(), guarded_by: id.clone() }
    );
    let failed =
        doctored(&good_log(), &format!("{CRITERION_TEST} ... ok"), &format!("{CRITERION_TEST} ... FAILED"));
    assert_eq!(
        only(findings(&failed, &good_list())),
        Finding::Failed { path: format!("tests::{CRITERION_TEST}"), guarded_by: id.clone() }
    );
    let panics = doctored(&good_log(), CRITERION_TEST, &format!("{CRITERION_TEST} - should panic"));
    assert_eq!(
        only(findings(&panics, &good_list())),
        Finding::ShouldPanic { path: format!("tests::{CRITERION_TEST}"), guarded_by: id }
    );
}

#[test]
fn only_guarded_tests_may_not_be_should_panic() {
    let log = doctored(&good_log(), DOMAIN, &format!("{DOMAIN}test tests::another - should panic ... ok\n"));
    assert_eq!(findings(&log, &good_list()), []);
}

#[test]
fn a_renamed_criterion_test_is_missing_under_one_name_and_unlisted_under_the_other() {
    let log = doctored(&good_log(), CRITERION_TEST, "s0_fr001_ac2_renamed");
    assert_eq!(
        findings(&log, &good_list()),
        [
            Finding::NotRun { test: CRITERION_TEST.to_owned(), guarded_by: "S0-FR-001-AC2".to_owned() },
            Finding::Unlisted { path: "tests::s0_fr001_ac2_renamed".to_owned() },
        ]
    );
}

#[test]
fn a_name_that_occurs_twice_must_pass_both_times() {
    let again = |result| format!("{DOMAIN}test sqlite::{CRITERION_TEST} ... {result}\n");
    let log = doctored(&good_log(), DOMAIN, &again("ok"));
    assert_eq!(findings(&log, &good_list()), []);

    let log = doctored(&good_log(), DOMAIN, &again("ignored, no database"));
    let finding = only(findings(&log, &good_list())).to_string();
    assert!(finding.starts_with(&format!("sqlite::{CRITERION_TEST} is ignored (no database)")), "{finding}");
}

#[test]
fn a_criterion_test_that_no_row_lists_is_found_even_if_it_is_ignored() {
    for result in ["ok", "ignored"] {
        let log = doctored(&good_log(), DOMAIN, &format!("{DOMAIN}test a::s4_f1_dead_letter ... {result}\n"));
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
fn each_name_that_a_criterion_asks_for_is_needed_in_its_row() {
    for &id in REQUIRED_IDS {
        for (start, test) in names_for(id).into_iter().zip(tests_of(id)) {
            let row = row_of(id);
            let list = doctored(&good_list(), &row, &doctored(&row, &test, "another"));
            let not_named = Finding::NotNamed { id: id.to_owned(), start };
            assert!(findings(&good_log(), &list).contains(&not_named), "{id}");
        }
    }
}

#[test]
fn a_test_named_for_another_criterion_does_not_cover_a_row() {
    let row = ITS_ROW.replace("` |", "`, `s0_fr001_ac3_holds` |");
    assert_eq!(findings(&good_log(), &doctored(&good_list(), ITS_ROW, &row)), [], "it may stand beside");

    let row = ITS_ROW.replace(CRITERION_TEST, "s0_fr001_ac3_holds");
    let log = doctored(&good_log(), &format!("test tests::{CRITERION_TEST} ... ok\n"), "");
    let finding = only(findings(&log, &doctored(&good_list(), ITS_ROW, &row))).to_string();
    assert!(finding.starts_with("S0-FR-001-AC2 lists no test named `s0_fr001_ac2_…`; "), "{finding}");
}

#[test]
fn a_shortened_row_leaves_its_test_unlisted() {
    let row = "| S0-FR-001-AC2 | something | `s0_fr001_ac2_holds` `s0_fr001_ac2_holds_again` |\n";
    let again = "test tests::s0_fr001_ac2_holds_again ... ok\n";
    let log = doctored(&good_log(), DOMAIN, &format!("{DOMAIN}{again}"));
    assert_eq!(findings(&log, &doctored(&good_list(), ITS_ROW, row)), []);
    assert_eq!(
        only(findings(&log, &good_list())),
        Finding::Unlisted { path: "tests::s0_fr001_ac2_holds_again".to_owned() }
    );
}

#[test]
fn a_malformed_row_is_found_with_its_line_and_its_id_counts_as_dropped() {
    let list = doctored(&good_list(), ITS_ROW, "| S0-FR-001-AC2 | something | later |\n");
    let log = doctored(&good_log(), &format!("test tests::{CRITERION_TEST} ... ok\n"), "");
    let found = findings(&log, &list);
    assert_eq!(found[1..], [Finding::NoRow { id: "S0-FR-001-AC2".to_owned() }]);
    let line = good_list().lines().take_while(|line| !ITS_ROW.starts_with(line)).count() + 1;
    assert!(
        found[0].to_string().starts_with(&format!("requirements line {line}: S0-FR-001-AC2 has `later`"))
    );
}

#[test]
fn an_empty_log_is_one_finding() {
    assert_eq!(findings("", &good_list()), [Finding::EmptyLog]);
    assert_eq!(findings("error: could not compile\n", &good_list()), [Finding::EmptyLog]);
    assert_eq!(findings(&format!("{DOMAIN}{CONTRACT}"), &good_list()), [Finding::EmptyLog]);
}

#[test]
fn an_empty_list_is_every_row_dropped() {
    let dropped =
        findings(&good_log(), "").into_iter().filter(|found| matches!(found, Finding::NoRow { .. }));
    assert_eq!(dropped.count(), REQUIRED_IDS.len());
}
