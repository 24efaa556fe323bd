//! Parser for the log of a `cargo test` run, stdout and stderr together. cargo prints on stderr which test binary it
//! runs, and libtest prints on stdout one line `test path::to::name ... result` per test.
//!
//! ```text
//!      Running tests/retry_contract.rs (target/debug/deps/retry_contract-582123af89f3b5b0)
//! test test_delay_never_negative ... ok
//! ```
//!
//! A result counts only below the line of its binary. The parser skips all other lines. It also skips doc tests: their
//! names contain spaces, and none of them is guarded. It keeps an unknown result as text, so that only a plain `ok`
//! counts as passed.

use std::fmt;

/// The test results of one log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestLog {
    /// Results in the order of the log. A name occurs once per crate or module that has it.
    pub runs: Vec<TestRun>,
    /// Number of results that are below no binary. `runs` does not contain them.
    pub results_without_binary: usize,
}

/// One test in one test binary, with its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRun {
    pub binary: TestBinary,
    /// Modules and function, as in `tests::a_test_name`.
    pub path: String,
    /// Whether the test has `#[should_panic]`, so that a failing assertion makes it pass.
    pub should_panic: bool,
    pub result: TestResult,
}

/// A test binary, as cargo announces it in a `Running …` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestBinary {
    /// Source file relative to the package: `tests/retry_contract.rs`, or `unittests src/lib.rs`. cargo does not print
    /// the package.
    pub source: String,
    /// File name of the executable without its hash: `retry_contract`, or `posthaste_domain`.
    pub name: String,
}

impl fmt::Display for TestBinary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.source)
    }
}

/// The result that libtest printed for a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestResult {
    Passed,
    Failed,
    /// Not run. Holds the reason of `#[ignore = "reason"]`, if the attribute has one.
    Ignored(Option<String>),
    /// Any other text in the position of the result.
    Unknown(String),
}

impl TestRun {
    /// Returns the name of the test function: the last segment of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit("::").next().unwrap_or(&self.path)
    }
}

/// Parses the combined stdout and stderr of `cargo test`.
pub fn parse_log(text: &str) -> TestLog {
    let mut log = TestLog::default();
    let mut binary = None;
    for line in text.lines() {
        if let Some(announced) = parse_binary(line) {
            binary = Some(announced);
        } else if line.starts_with("   Doc-tests ") {
            binary = None;
        } else if let Some((path, should_panic, result)) = parse_run(line) {
            match binary.clone() {
                Some(binary) => log.runs.push(TestRun { binary, path, should_panic, result }),
                None => log.results_without_binary += 1,
            }
        }
    }
    log
}

/// Parses a `Running …` line of cargo, including the spaces that cargo prints in front of it.
fn parse_binary(line: &str) -> Option<TestBinary> {
    let (source, executable) = line.strip_prefix("     Running ")?.strip_suffix(')')?.split_once(" (")?;
    let file = executable.rsplit('/').next()?;
    let (name, _hash) = file.rsplit_once('-')?;
    Some(TestBinary { source: source.to_owned(), name: name.to_owned() })
}

/// Parses a result line of libtest into path, `#[should_panic]` and result.
fn parse_run(line: &str) -> Option<(String, bool, TestResult)> {
    let (test, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let (path, should_panic) = match test.strip_suffix(" - should panic") {
        Some(path) => (path, true),
        None => (test, false),
    };
    let is_doc_test = path.contains(char::is_whitespace);
    (!is_doc_test).then(|| (path.to_owned(), should_panic, parse_result(result.trim_end())))
}

fn parse_result(result: &str) -> TestResult {
    match result {
        "ok" => TestResult::Passed,
        "FAILED" => TestResult::Failed,
        "ignored" => TestResult::Ignored(None),
        other => match other.strip_prefix("ignored, ") {
            Some(reason) => TestResult::Ignored(Some(reason.to_owned())),
            None => TestResult::Unknown(other.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOMAIN: &str =
        "     Running unittests src/lib.rs (target/debug/deps/posthaste_domain-7173841a0c4739c0)\n";
    const CONTRACT: &str =
        "     Running tests/retry_contract.rs (target/debug/deps/retry_contract-582123af89f3b5b0)\n";

    fn parse_one(line: &str) -> TestRun {
        let log = parse_log(&format!("{DOMAIN}{line}\n"));
        assert_eq!((log.runs.len(), log.results_without_binary), (1, 0), "{line}");
        log.runs.into_iter().next().unwrap()
    }

    #[test]
    fn result_belongs_to_the_binary_above_it() {
        let log = parse_log(&format!("{DOMAIN}test a ... ok\n{CONTRACT}test b ... ok\ntest c ... ok\n"));
        let binaries: Vec<_> = log.runs.iter().map(|run| (run.name(), run.binary.to_string())).collect();
        let contract = || "retry_contract (tests/retry_contract.rs)".to_owned();
        assert_eq!(
            binaries,
            [
                ("a", "posthaste_domain (unittests src/lib.rs)".to_owned()),
                ("b", contract()),
                ("c", contract())
            ]
        );
    }

    #[test]
    fn results_below_no_binary_do_not_count() {
        let doc_tests = "   Doc-tests posthaste_domain\n";
        let log = parse_log(&format!("test a ... ok\n{DOMAIN}{doc_tests}test b ... ok\n"));
        assert_eq!(log, TestLog { runs: vec![], results_without_binary: 2 });
    }

    #[test]
    fn only_a_running_line_of_cargo_announces_a_binary() {
        let others = [
            CONTRACT.trim_start(),
            "     Running tests/retry_contract.rs\n",
            "     Running `target/debug/deps/retry_contract-582123af89f3b5b0`\n",
            "   Compiling tests/retry_contract.rs (target/debug/deps/retry_contract-582123af89f3b5b0)\n",
        ];
        for line in others {
            assert_eq!(parse_log(&format!("{line}test a ... ok\n")).results_without_binary, 1, "{line}");
        }
    }

    #[test]
    fn each_result_is_parsed() {
        assert_eq!(parse_one("test a::b ... ok").result, TestResult::Passed);
        assert_eq!(parse_one("test a::b ... FAILED").result, TestResult::Failed);
        assert_eq!(parse_one("test a::b ... ignored").result, TestResult::Ignored(None));
        assert_eq!(
            parse_one("test a::b ... ignored, slow ... for now").result,
            TestResult::Ignored(Some("slow ... for now".to_owned()))
        );
    }

    #[test]
    fn only_plain_ok_counts_as_passed() {
        for line in ["test b ... okay", "test b ... OK", "test b ... ok noise", "test b ... noise ok"] {
            assert!(matches!(parse_one(line).result, TestResult::Unknown(_)), "{line}");
        }
    }

    #[test]
    fn name_is_the_last_segment_of_the_path() {
        assert_eq!(parse_one("test tests::deep::a_name ... ok").name(), "a_name");
        assert_eq!(parse_one("test a_name ... ok").name(), "a_name");
    }

    #[test]
    fn should_panic_tests_are_marked() {
        let run = parse_one("test tests::a_name - should panic ... ok");
        assert_eq!((run.name(), run.should_panic), ("a_name", true));
        assert!(!parse_one("test tests::should_panic ... ok").should_panic);
    }

    #[test]
    fn other_lines_are_skipped() {
        let log = "\
running 2 tests
test crates/domain/src/lib.rs - s0_in_a_doc_test (line 12) ... ok
test crates/domain/src/lib.rs - in_another (line 30) - should panic ... ok
test slow has been running for over 60 seconds
 test indented ... ok
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
        assert_eq!(parse_log(log), TestLog::default());
    }
}
