//! Compares what ran with what must run.
//!
//! A name that occurs several times, in several crates or for several stores, must pass everywhere it occurs.

use std::collections::{BTreeMap, BTreeSet};

use crate::criteria::{BACKOFF_TESTS, REQUIRED_IDS, is_criterion_test};
use crate::finding::Finding;
use crate::log::{TestResult, TestRun};
use crate::requirements::{Requirements, Row};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Empty when every promise is kept.
    pub findings: Vec<Finding>,
    /// Criteria that their tests cover in full.
    pub covered: usize,
    /// Criteria that wait, in whole or in part, for a part of the product.
    pub waiting: usize,
}

pub fn check(runs: &[TestRun], requirements: &Requirements) -> Report {
    let mut findings = Vec::new();
    findings.extend(requirements.malformed.iter().cloned().map(Finding::Malformed));
    findings.extend(dropped_rows(&requirements.rows));
    if runs.is_empty() {
        findings.push(Finding::EmptyLog);
    } else {
        let guards = guards(&requirements.rows);
        findings.extend(guards.iter().flat_map(|(test, by)| broken_promises(test, &by.join(", "), runs)));
        findings.extend(unlisted_tests(runs, &guards));
    }
    let waiting = requirements.rows.iter().filter(|row| row.waits_for.is_some()).count();
    Report { findings, covered: requirements.rows.len() - waiting, waiting }
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
    let guarded_by = || guarded_by.to_owned();
    let mut occurrences = runs.iter().filter(|run| run.name() == test).peekable();
    if occurrences.peek().is_none() {
        return vec![Finding::NotRun { test: test.to_owned(), guarded_by: guarded_by() }];
    }
    occurrences
        .filter_map(|run| {
            let path = run.path.clone();
            match &run.result {
                TestResult::Passed => None,
                TestResult::Failed => Some(Finding::Failed { path, guarded_by: guarded_by() }),
                TestResult::Ignored(reason) => {
                    let reason = reason.clone().unwrap_or_else(|| "no reason given".to_owned());
                    Some(Finding::Ignored { path, reason, guarded_by: guarded_by() })
                }
                TestResult::Unknown(result) => {
                    Some(Finding::Unclear { path, result: result.clone(), guarded_by: guarded_by() })
                }
            }
        })
        .collect()
}

fn unlisted_tests(runs: &[TestRun], guards: &Guards<'_>) -> Vec<Finding> {
    let unlisted: BTreeSet<&str> = runs
        .iter()
        .filter(|run| is_criterion_test(run.name()) && !guards.contains_key(run.name()))
        .map(|run| run.path.as_str())
        .collect();
    unlisted.into_iter().map(|path| Finding::Unlisted { path: path.to_owned() }).collect()
}

fn dropped_rows(rows: &[Row]) -> impl Iterator<Item = Finding> {
    REQUIRED_IDS
        .iter()
        .filter(|&&id| !rows.iter().any(|row| row.id == id))
        .map(|&id| Finding::NoRow { id: id.to_owned() })
}

#[cfg(test)]
mod tests;
