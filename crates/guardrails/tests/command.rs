//! Tests of the built `guardrails` command: its output and its exit codes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use posthaste_guardrails::{REQUIRED_IDS, test_prefixes};

/// The row of one criterion in [`complete_list`], and the result of its test in [`passing_log`].
const ROW: &str = "| S0-FR-001-AC2 | what | `s0_fr001_ac2_` |\n";
const RESULT: &str = "test s0_fr001_ac2_ ... ok\n";

/// Returns a log with one passing test for each prefix of each criterion, all in the binary of the retry contract.
fn passing_log() -> String {
    let tests = REQUIRED_IDS.iter().flat_map(|&id| test_prefixes(id));
    let results: String = tests.map(|test| format!("test {test} ... ok\n")).collect();
    format!(
        "     Running tests/retry_contract.rs (target/debug/deps/retry_contract-582123af89f3b5b0)\n{results}"
    )
}

fn complete_list() -> String {
    let rows = REQUIRED_IDS.iter().map(|&id| {
        let tests = test_prefixes(id).join("` `");
        format!("| {id} | what | `{tests}` |\n")
    });
    format!("| id | what | tests |\n|---|---|---|\n{}", rows.collect::<String>())
}

/// Creates a directory for the files of one test.
fn create_directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&path).expect("cargo provides a writable directory for tests");
    path
}

/// Runs the command in a directory.
fn run_guardrails(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_guardrails"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("cargo built the command before its tests")
}

/// Runs the command on this log and list. Returns exit code, stdout and stderr.
fn run_on(name: &str, log: &str, list: &str) -> (Option<i32>, String, String) {
    let directory = create_directory(name);
    fs::write(directory.join("test.log"), log).expect("the directory is writable");
    fs::write(directory.join("list.md"), list).expect("the directory is writable");
    let output = run_guardrails(&directory, &["tests", "--log", "test.log", "--requirements", "list.md"]);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the command prints UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn complete_files_exit_0_and_print_the_counts() {
    let (code, stdout, stderr) = run_on("complete", &passing_log(), &complete_list());
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let covered = REQUIRED_IDS.len();
    assert_eq!(stdout, format!("guardrails: findings: 0; criteria covered: {covered}\n"));
}

#[test]
fn s1_phase3_ci_an_ignored_backoff_test_exits_1_with_one_line() {
    let log = passing_log()
        .replace("test_delay_never_negative ... ok", "test_delay_never_negative ... ignored, flaky");
    let (code, stdout, stderr) = run_on("ignored", &log, &complete_list());
    assert_eq!(code, Some(1));
    assert_eq!(
        stderr,
        "guardrails: test_delay_never_negative is ignored (flaky); remove its #[ignore]: \
         the retry contract, S1-3.3 requires it\n"
    );
    assert!(stdout.starts_with("guardrails: findings: 1; "), "{stdout}");
}

#[test]
fn missing_row_exits_1_with_one_line() {
    let list = complete_list().replace(ROW, "");
    let (code, _, stderr) = run_on("missing_row", &passing_log().replace(RESULT, ""), &list);
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with("guardrails: S0-FR-001-AC2 has no row in the requirements; add "), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn row_without_a_test_exits_1_and_names_the_row() {
    let list = complete_list().replace(ROW, "| S0-FR-001-AC2 | what | |\n");
    let (code, _, stderr) = run_on("no_test", &passing_log().replace(RESULT, ""), &list);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("S0-FR-001-AC2 lists no test; list one in backticks"), "{stderr}");
    assert!(stderr.contains("S0-FR-001-AC2 has no row in the requirements"), "{stderr}");
}

#[test]
fn log_without_stderr_exits_1_with_one_line() {
    let stdout_only: String =
        passing_log().lines().skip(1).fold(String::new(), |all, line| all + line + "\n");
    let (code, _, stderr) = run_on("stdout", &stdout_only, &complete_list());
    assert_eq!(code, Some(1));
    assert!(stderr.contains("log stderr too"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn bad_usage_exits_2_and_names_the_problem() {
    let cases: [(&[&str], &str); 6] = [
        (&[], "a command is missing"),
        (&["test"], "unknown command test"),
        (&["tests"], "--log FILE is missing"),
        (&["tests", "--log"], "--log FILE is missing"),
        (&["tests", "--log", "a"], "--requirements FILE is missing"),
        (&["tests", "--logs", "a"], "unknown option --logs"),
    ];
    for (arguments, message) in cases {
        let output = run_guardrails(&create_directory("usage"), arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr.starts_with(&format!("guardrails: {message}\nusage: ")), "{arguments:?}: {stderr}");
    }
}

#[test]
fn unreadable_file_exits_2_and_is_named() {
    let arguments = ["tests", "--log", "absent.log", "--requirements", "absent.md"];
    let output = run_guardrails(&create_directory("absent"), &arguments);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("guardrails: cannot read absent.log: "));
}
