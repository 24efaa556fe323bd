//! What the check can find, each in one line: what is wrong, and what to do.

use thiserror::Error;

use crate::criteria::BACKOFF_TESTS_SOURCE;
use crate::log::Binary;
use crate::requirements::MalformedRow;

/// `guarded_by` names what asks for the test: the retry contract, the ids of rows, or both.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Finding {
    #[error(
        "the log holds no test results; run all tests with one line per test (not --quiet), as `make test` does"
    )]
    EmptyLog,
    #[error(
        "{results} test results stand under no `Running …` line of cargo and do not count; log stderr too \
         (`2>&1`), as `make test` does"
    )]
    NoBinary { results: usize },
    #[error(
        "{test} did not run, and {guarded_by} names it; restore it, or change both in one commit and say why"
    )]
    NotRun { test: String, guarded_by: String },
    #[error(
        "{test} ran in {binary} only, and the retry contract has it in {BACKOFF_TESTS_SOURCE}; move it back"
    )]
    Elsewhere { test: String, binary: Binary },
    #[error(
        "{path} is #[should_panic], so it passes when it breaks; assert instead, {guarded_by} depends on it"
    )]
    ShouldPanic { path: String, guarded_by: String },
    #[error("{path} failed; fix it, {guarded_by} depends on it")]
    Failed { path: String, guarded_by: String },
    #[error("{path} is ignored ({reason}); remove its #[ignore], {guarded_by} depends on it")]
    Ignored { path: String, reason: String, guarded_by: String },
    #[error(
        "{path} ended in `{result}` and not in `ok`; see what printed that, {guarded_by} depends on the test"
    )]
    Unclear { path: String, result: String, guarded_by: String },
    #[error("{path} is named after a criterion and no row lists it; add it to its row in the requirements")]
    Unlisted { path: String },
    #[error("{id} has no row in the requirements; add `| {id} | what it asks for | its tests |`")]
    NoRow { id: String },
    #[error("{id} lists no test named `{start}…`; name a test for it so, and list that in its row")]
    NotNamed { id: String, start: String },
    #[error("requirements {0}")]
    Malformed(MalformedRow),
}
