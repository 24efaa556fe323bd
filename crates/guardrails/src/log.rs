//! Reads the log of a `cargo test` run, stdout and stderr together: cargo says on stderr which test binary it runs,
//! and libtest prints on stdout one line `test path::to::name ... result` per test.
//!
//! ```text
//!      Running tests/retry_contract.rs (target/debug/deps/retry_contract-582123af89f3b5b0)
//! test test_delay_never_negative ... ok
//! ```
//!
//! A result counts only below the line of its binary. Anything else in the log is skipped, doc tests included: their
//! names hold spaces and are nobody's promise. A result that is not known is kept as it stands, so that only a plain
//! `ok` can ever count as passed.

use std::fmt;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestLog {
    /// In the log's order. A name may occur several times: once per crate or module that has it.
    pub runs: Vec<TestRun>,
    /// How many results stand under no binary. They are in no other field.
    pub without_binary: usize,
}

/// One test in one test binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRun {
    pub binary: Binary,
    /// Modules and function, as in `tests::a_test_name`.
    pub path: String,
    /// Such a test passes where it breaks.
    pub should_panic: bool,
    pub result: TestResult,
}

/// A test binary, as cargo announces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    /// `tests/retry_contract.rs`, or `unittests src/lib.rs`: relative to the package, which cargo does not name.
    pub source: String,
    /// The executable without directory and hash: `retry_contract`, or `posthaste_domain`.
    pub name: String,
}

impl fmt::Display for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.source)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestResult {
    Passed,
    Failed,
    /// With the reason of `#[ignore = "reason"]`, where there is one.
    Ignored(Option<String>),
    /// Anything else that stood where the result belongs.
    Unknown(String),
}

impl TestRun {
    /// The function's name: the last segment of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit("::").next().unwrap_or(&self.path)
    }
}

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
                None => log.without_binary += 1,
            }
        }
    }
    log
}

/// cargo aligns its verbs to one column; the spaces before them are part of the line.
fn parse_binary(line: &str) -> Option<Binary> {
    let (source, executable) = line.strip_prefix("     Running ")?.strip_suffix(')')?.split_once(" (")?;
    let file = executable.rsplit('/').next()?;
    let (name, _hash) = file.rsplit_once('-')?;
    Some(Binary { source: source.to_owned(), name: name.to_owned() })
}

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

    fn only(line: &str) -> TestRun {
        let log = parse_log(&format!("{DOMAIN}{line}\n"));
        assert_eq!((log.runs.len(), log.without_binary), (1, 0), "{line}");
        log.runs.into_iter().next().unwrap()
    }

    #[test]
    fn each_result_belongs_to_the_binary_above_it() {
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
    fn results_under_no_binary_do_not_count() {
        let doc_tests = "   Doc-tests posthaste_domain\n";
        let log = parse_log(&format!("test a ... ok\n{DOMAIN}{doc_tests}test b ... ok\n"));
        assert_eq!(log, TestLog { runs: vec![], without_binary: 2 });
    }

    #[test]
    fn only_the_line_of_cargo_announces_a_binary() {
        let others = [
            CONTRACT.trim_start(),
            "     Running tests/retry_contract.rs\n",
            "     Running `target/debug/deps/retry_contract-582123af89f3b5b0`\n",
            "   Compiling tests/retry_contract.rs (target/debug/deps/retry_contract-582123af89f3b5b0)\n",
        ];
        for line in others {
            assert_eq!(parse_log(&format!("{line}test a ... ok\n")).without_binary, 1, "{line}");
        }
    }

    #[test]
    fn each_result_is_told_apart() {
        assert_eq!(only("test a::b ... ok").result, TestResult::Passed);
        assert_eq!(only("test a::b ... FAILED").result, TestResult::Failed);
        assert_eq!(only("test a::b ... ignored").result, TestResult::Ignored(None));
        assert_eq!(
            only("test a::b ... ignored, slow ... for now").result,
            TestResult::Ignored(Some("slow ... for now".to_owned()))
        );
    }

    #[test]
    fn only_a_plain_ok_passes() {
        for line in ["test b ... okay", "test b ... OK", "test b ... ok noise", "test b ... noise ok"] {
            assert!(matches!(only(line).result, TestResult::Unknown(_)), "{line}");
        }
    }

    #[test]
    fn name_is_the_last_segment_of_the_path() {
        assert_eq!(only("test tests::deep::a_name ... ok").name(), "a_name");
        assert_eq!(only("test a_name ... ok").name(), "a_name");
    }

    #[test]
    fn a_test_that_should_panic_is_marked() {
        let run = only("test tests::a_name - should panic ... ok");
        assert_eq!((run.name(), run.should_panic), ("a_name", true));
        assert!(!only("test tests::should_panic ... ok").should_panic);
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
