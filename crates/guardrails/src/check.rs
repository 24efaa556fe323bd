//! The check: compares the test log with the list of requirements, and the list with the constants in `criteria`.
//!
//! A test name may occur several times, in several crates or for several stores. Every occurrence must pass.

use std::collections::{BTreeMap, BTreeSet};

use crate::criteria::{BACKOFF_TESTS, BACKOFF_TESTS_SOURCE, REQUIRED_IDS, is_criterion_test, test_prefixes};
use crate::finding::Finding;
use crate::log::{TestBinary, TestLog, TestResult, TestRun};
use crate::requirements::{Requirements, Row};

/// The result of [`check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Violations, in a fixed order; empty when the check passes.
    pub findings: Vec<Finding>,
    /// Number of criteria that have a row in the requirements.
    pub covered: usize,
}

/// Returns every violation of the rules about guarded tests in a test log and a list of requirements.
pub fn check(log: &TestLog, requirements: &Requirements) -> Report {
    let TestLog { runs, results_without_binary } = log;
    let Requirements { rows, malformed } = requirements;
    let mut findings = Vec::new();
    findings.extend(malformed.iter().cloned().map(Finding::Malformed));
    findings.extend(missing_rows(rows));
    findings.extend(rows.iter().flat_map(missing_tests));
    if *results_without_binary > 0 {
        findings.push(Finding::ResultsWithoutBinary { results: *results_without_binary });
    } else if runs.is_empty() {
        findings.push(Finding::EmptyLog);
    }
    // A log without results would make every guarded test a finding; one of the findings above replaces them all.
    if !runs.is_empty() {
        let guarded = guarded_tests(rows);
        findings.extend(guarded.iter().flat_map(|(test, by)| violations_of_test(test, &by.join(", "), runs)));
        findings.extend(BACKOFF_TESTS.iter().filter_map(|test| wrong_binary(test, runs)));
        findings.extend(unlisted_tests(runs, &guarded));
    }
    Report { findings, covered: rows.len() }
}

fn missing_rows(rows: &[Row]) -> impl Iterator<Item = Finding> {
    REQUIRED_IDS
        .iter()
        .filter(|&&id| !rows.iter().any(|row| row.id == id))
        .map(|&id| Finding::MissingRow { id: id.to_owned() })
}

/// Returns a finding for each required prefix that no test of the row has.
fn missing_tests(row: &Row) -> Vec<Finding> {
    test_prefixes(&row.id)
        .into_iter()
        .filter(|prefix| !row.tests.iter().any(|test| test.starts_with(prefix)))
        .map(|prefix| Finding::MissingTest { id: row.id.clone(), prefix })
        .collect()
}

/// Names of guarded tests, each with its guards: the retry contract or the ids of rows that list the test.
type GuardedTests<'a> = BTreeMap<&'a str, Vec<&'a str>>;

fn guarded_tests(rows: &[Row]) -> GuardedTests<'_> {
    let contract = BACKOFF_TESTS.iter().map(|&test| (test, "the retry contract"));
    let listed = rows.iter().flat_map(|row| row.tests.iter().map(|test| (test.as_str(), row.id.as_str())));
    let mut guarded = GuardedTests::new();
    for (test, by) in contract.chain(listed) {
        guarded.entry(test).or_default().push(by);
    }
    guarded
}

/// Returns a finding if a guarded test did not run, and one for each of its runs that does not count as passed.
fn violations_of_test(test: &str, guarded_by: &str, runs: &[TestRun]) -> Vec<Finding> {
    let mut occurrences = runs.iter().filter(|run| run.name() == test).peekable();
    if occurrences.peek().is_none() {
        return vec![Finding::NotRun { test: test.to_owned(), guarded_by: guarded_by.to_owned() }];
    }
    occurrences
        .flat_map(|run| should_panic(run, guarded_by).into_iter().chain(not_passed(run, guarded_by)))
        .collect()
}

fn should_panic(run: &TestRun, guarded_by: &str) -> Option<Finding> {
    let (path, guarded_by) = (run.path.clone(), guarded_by.to_owned());
    run.should_panic.then_some(Finding::ShouldPanic { path, guarded_by })
}

fn not_passed(run: &TestRun, guarded_by: &str) -> Option<Finding> {
    let (path, guarded_by) = (run.path.clone(), guarded_by.to_owned());
    match &run.result {
        TestResult::Passed => None,
        TestResult::Failed => Some(Finding::Failed { path, guarded_by }),
        TestResult::Ignored(reason) => {
            let reason = reason.clone().unwrap_or_else(|| "without a reason".to_owned());
            Some(Finding::Ignored { path, reason, guarded_by })
        }
        TestResult::Unknown(result) => {
            Some(Finding::UnknownResult { path, result: result.clone(), guarded_by })
        }
    }
}

/// Returns a finding if a backoff test ran, but never in the test binary of the retry contract.
fn wrong_binary(test: &str, runs: &[TestRun]) -> Option<Finding> {
    let mut binaries = runs.iter().filter(|run| run.name() == test).map(|run| &run.binary);
    let first = binaries.next()?;
    let is_contract = |binary: &TestBinary| binary.source == BACKOFF_TESTS_SOURCE;
    let moved = !is_contract(first) && !binaries.any(is_contract);
    moved.then(|| Finding::WrongBinary { test: test.to_owned(), binary: first.clone() })
}

fn unlisted_tests(runs: &[TestRun], guarded: &GuardedTests<'_>) -> Vec<Finding> {
    let unlisted: BTreeSet<&str> = runs
        .iter()
        .filter(|run| is_criterion_test(run.name()) && !guarded.contains_key(run.name()))
        .map(|run| run.path.as_str())
        .collect();
    unlisted.into_iter().map(|path| Finding::Unlisted { path: path.to_owned() }).collect()
}

#[cfg(test)]
mod tests;
