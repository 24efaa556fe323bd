//! Reads the log of a `cargo test` run, as libtest prints it: one line `test path::to::name ... result` per test.
//!
//! Anything else in the log is skipped, doc tests included: their names hold spaces and are nobody's promise. A
//! result that is not known is kept as it stands, so that only a plain `ok` can ever count as passed.

/// One test in one test binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRun {
    /// Modules and function, as in `tests::a_test_name`.
    pub path: String,
    pub result: TestResult,
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

/// The tests in the log, in its order. A name may occur several times: once per crate or module that has it.
pub fn parse_log(text: &str) -> Vec<TestRun> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<TestRun> {
    let (path, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let path = path.strip_suffix(" - should panic").unwrap_or(path);
    let is_doc_test = path.contains(char::is_whitespace);
    (!is_doc_test).then(|| TestRun { path: path.to_owned(), result: parse_result(result.trim_end()) })
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

    fn only(line: &str) -> TestRun {
        let runs = parse_log(line);
        assert_eq!(runs.len(), 1, "{line}");
        runs.into_iter().next().unwrap()
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
        assert_eq!(only("test tests::a_name - should panic ... ok").name(), "a_name");
    }

    #[test]
    fn other_lines_are_skipped() {
        let log = "\
running 2 tests
test crates/domain/src/lib.rs - s0_in_a_doc_test (line 12) ... ok
test slow has been running for over 60 seconds
 test indented ... ok
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
        assert_eq!(parse_log(log), []);
    }
}
