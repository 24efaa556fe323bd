//! Compares what ran with what must run, and the list of what must run with what is agreed about it.
//!
//! A name that occurs several times, in several crates or for several stores, must pass everywhere it occurs.

use std::collections::{BTreeMap, BTreeSet};

use crate::criteria::{BACKOFF_TESTS, BACKOFF_TESTS_SOURCE, REQUIRED_IDS, is_criterion_test, names_for};
use crate::finding::Finding;
use crate::log::{Binary, TestLog, TestResult, TestRun};
use crate::requirements::{Requirements, Row};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Empty when every promise is kept.
    pub findings: Vec<Finding>,
    /// Criteria that have a row.
    pub covered: usize,
}

pub fn check(log: &TestLog, requirements: &Requirements) -> Report {
    let TestLog { runs, without_binary } = log;
    let Requirements { rows, malformed } = requirements;
    let mut findings = Vec::new();
    findings.extend(malformed.iter().cloned().map(Finding::Malformed));
    findings.extend(dropped_rows(rows));
    findings.extend(rows.iter().flat_map(missing_names));
    if *without_binary > 0 {
        findings.push(Finding::NoBinary { results: *without_binary });
    } else if runs.is_empty() {
        findings.push(Finding::EmptyLog);
    }
    // Without any result, every guarded test is missing; the finding above says it in one line.
    if !runs.is_empty() {
        let guards = guards(rows);
        findings.extend(guards.iter().flat_map(|(test, by)| broken_promises(test, &by.join(", "), runs)));
        findings.extend(BACKOFF_TESTS.iter().filter_map(|test| moved_away(test, runs)));
        findings.extend(unlisted_tests(runs, &guards));
    }
    Report { findings, covered: rows.len() }
}

fn dropped_rows(rows: &[Row]) -> impl Iterator<Item = Finding> {
    REQUIRED_IDS
        .iter()
        .filter(|&&id| !rows.iter().any(|row| row.id == id))
        .map(|&id| Finding::NoRow { id: id.to_owned() })
}

/// The names that the tests of a row should have and none of them has.
fn missing_names(row: &Row) -> Vec<Finding> {
    names_for(&row.id)
        .into_iter()
        .filter(|start| !row.tests.iter().any(|test| test.starts_with(start)))
        .map(|start| Finding::NotNamed { id: row.id.clone(), start })
        .collect()
}

/// Each guarded test, with what asks for it.
type Guards<'a> = BTreeMap<&'a str, Vec<&'a str>>;

fn guards(rows: &[Row]) -> Guards<'_> {
    let contract = BACKOFF_TESTS.iter().map(|&test| (test, "the retry contract"));
    let listed = rows.iter().flat_map(|row| row.tests.iter().map(|test| (test.as_str(), row.id.as_str())));
    let mut guards = Guards::new();
    for (test, by) in contract.chain(listed) {
        guards.entry(test).or_default().push(by);
    }
    guards
}

fn broken_promises(test: &str, guarded_by: &str, runs: &[TestRun]) -> Vec<Finding> {
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
            let reason = reason.clone().unwrap_or_else(|| "no reason given".to_owned());
            Some(Finding::Ignored { path, reason, guarded_by })
        }
        TestResult::Unknown(result) => Some(Finding::Unclear { path, result: result.clone(), guarded_by }),
    }
}

/// A backoff test that ran, and not where it belongs.
fn moved_away(test: &str, runs: &[TestRun]) -> Option<Finding> {
    let mut binaries = runs.iter().filter(|run| run.name() == test).map(|run| &run.binary);
    let first = binaries.next()?;
    let at_home = |binary: &Binary| binary.source == BACKOFF_TESTS_SOURCE;
    let moved = !at_home(first) && !binaries.any(at_home);
    moved.then(|| Finding::Elsewhere { test: test.to_owned(), binary: first.clone() })
}

fn unlisted_tests(runs: &[TestRun], guards: &Guards<'_>) -> Vec<Finding> {
    let unlisted: BTreeSet<&str> = runs
        .iter()
        .filter(|run| is_criterion_test(run.name()) && !guards.contains_key(run.name()))
        .map(|run| run.path.as_str())
        .collect();
    unlisted.into_iter().map(|path| Finding::Unlisted { path: path.to_owned() }).collect()
}

#[cfg(test)]
mod tests;
