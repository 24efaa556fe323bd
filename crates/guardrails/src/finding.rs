//! Violations that the check reports. Each message is one line that says what is wrong and what to do.

use thiserror::Error;

use crate::criteria::BACKOFF_TESTS_SOURCE;
use crate::log::TestBinary;
use crate::requirements::MalformedRow;

/// One violation. `guarded_by` lists why the test is guarded: the retry contract, the ids of rows, or both.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Finding {
    #[error(
        "the log has no test results; run all tests with one line per test (not --quiet), as `make test` does"
    )]
    EmptyLog,
    #[error(
        "{results} test results are below no `Running …` line of cargo and do not count; log stderr too \
         (`2>&1`), as `make test` does"
    )]
    ResultsWithoutBinary { results: usize },
    #[error(
        "{test} did not run, but {guarded_by} requires it; restore it, or change both in one commit and say why"
    )]
    NotRun { test: String, guarded_by: String },
    #[error(
        "{test} ran only in {binary}, but the retry contract requires it in {BACKOFF_TESTS_SOURCE}; move it back"
    )]
    WrongBinary { test: String, binary: TestBinary },
    #[error(
        "{path} is #[should_panic], so it passes when it breaks; assert instead: {guarded_by} requires it"
    )]
    ShouldPanic { path: String, guarded_by: String },
    #[error("{path} failed; fix it: {guarded_by} requires it")]
    Failed { path: String, guarded_by: String },
    #[error("{path} is ignored ({reason}); remove its #[ignore]: {guarded_by} requires it")]
    Ignored { path: String, reason: String, guarded_by: String },
    #[error(
        "{path} has the result `{result}` instead of `ok`; find what printed that: {guarded_by} requires the test"
    )]
    UnknownResult { path: String, result: String, guarded_by: String },
    #[error(
        "{path} has the prefix of a criterion, but no row lists it; add it to its row in the requirements"
    )]
    Unlisted { path: String },
    #[error("{id} has no row in the requirements; add `| {id} | the requirement | its tests |`")]
    MissingRow { id: String },
    #[error("{id} lists no test named `{prefix}…`; write one and list it in the row")]
    MissingTest { id: String, prefix: String },
    #[error("requirements {0}")]
    Malformed(MalformedRow),
}
