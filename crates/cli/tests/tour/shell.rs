//! A terminal: a shell that runs commands of a document, and everything that it has printed. Every wait has a limit.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use crate::child::{TIMEOUT, read_lines, wait_for_exit};

/// A running shell. Dropping it kills the shell and the programs that it runs.
pub(crate) struct Shell {
    shell: Child,
    lines: Receiver<String>,
    printed: Vec<String>,
    /// Number of lines of `printed` that earlier searches have passed.
    read: usize,
}

impl Shell {
    /// Runs commands as a reader would paste them, with `posthaste` on the path and only these variables in the
    /// environment.
    pub(crate) fn run(commands: &str, directory: &Path, environment: &[(&str, &str)]) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_posthaste")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("bash")
            .args(["-c", &format!("exec 2>&1\n{commands}")])
            .env_clear()
            .env("PATH", path)
            .envs(environment.iter().copied())
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let lines = read_lines(shell.stdout.take().unwrap());
        Self { shell, lines, printed: Vec::new(), read: 0 }
    }

    /// Waits until all these lines are printed, in this order; other lines may be between them.
    #[track_caller]
    pub(crate) fn expect_lines(&mut self, expected: &str) {
        if let Some(missing) = self.find_missing_line(expected) {
            panic!("{missing:?} was not printed in:\n{}", self.printed.join("\n"));
        }
    }

    /// Returns the first of these lines that is not printed, after all lines before it.
    pub(crate) fn find_missing_line(&mut self, expected: &str) -> Option<String> {
        let mut patterns = expected.lines().filter(|line| !line.trim().is_empty());
        patterns.find(|pattern| !self.skip_to(pattern)).map(str::to_owned)
    }

    /// Reads up to a line that matches the pattern. Returns whether there is one.
    fn skip_to(&mut self, pattern: &str) -> bool {
        while let Some(line) = self.next_line() {
            if matches(&line, pattern) {
                return true;
            }
        }
        false
    }

    /// Returns the text after `before` on the first line that contains it, up to white space or a slash.
    #[track_caller]
    pub(crate) fn word_after(&mut self, before: &str) -> String {
        let line = self.wait_for_line(before);
        let (_, after) = line.split_once(before).unwrap();
        self.read = 0;
        after.split([' ', '/']).next().unwrap().to_owned()
    }

    /// Waits for the next line that contains this text.
    #[track_caller]
    pub(crate) fn wait_for_line(&mut self, text: &str) -> String {
        loop {
            match self.next_line() {
                Some(line) if line.contains(text) => return line,
                Some(_) => {}
                None => panic!("{text:?} was not printed in:\n{}", self.printed.join("\n")),
            }
        }
    }

    /// Returns the next line, or None at the end of the output or after [`TIMEOUT`] without a line.
    fn next_line(&mut self) -> Option<String> {
        self.read += 1;
        if self.read > self.printed.len() {
            self.printed.push(self.lines.recv_timeout(TIMEOUT).ok()?);
        }
        Some(self.printed[self.read - 1].clone())
    }

    /// Waits for the end. Returns the exit status and everything that was printed. Kills the shell and fails the test if
    /// it prints nothing for [`TIMEOUT`] and does not end.
    #[track_caller]
    pub(crate) fn finish(mut self) -> (ExitStatus, String) {
        loop {
            match self.lines.recv_timeout(TIMEOUT) {
                Ok(line) => self.printed.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    self.signal("-KILL");
                    panic!("the shell did not end within {TIMEOUT:?} after:\n{}", self.printed.join("\n"));
                }
            }
        }
        (wait_for_exit(&mut self.shell), self.printed.join("\n"))
    }

    /// Sends SIGINT to the shell and its programs, as Ctrl-C does, and waits for the end. Only for programs that handle
    /// SIGINT: others inherit that it is ignored where the tests run under `nohup` or in a background job.
    #[track_caller]
    pub(crate) fn interrupt(self) -> (ExitStatus, String) {
        self.signal("-INT");
        self.finish()
    }

    /// Sends SIGTERM to the shell and its programs, and waits for the end.
    #[track_caller]
    pub(crate) fn terminate(self) -> (ExitStatus, String) {
        self.signal("-TERM");
        self.finish()
    }

    fn signal(&self, signal: &str) {
        let group = format!("-{}", self.shell.id());
        let _ = Command::new("kill").args([signal, "--", &group]).stderr(Stdio::null()).status();
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.signal("-KILL");
        let _ = self.shell.wait();
    }
}

/// Returns whether this machine has an interpreter that only examples need.
pub(crate) fn is_installed(interpreter: &str) -> bool {
    Command::new(interpreter).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Whether a line matches the line of a document, in which … stands for any text and white space may differ.
pub(crate) fn matches(line: &str, pattern: &str) -> bool {
    let line = collapse_spaces(line);
    let mut rest = line.as_str();
    for piece in pattern.split('…').map(collapse_spaces) {
        match rest.find(piece.trim()) {
            Some(at) => rest = &rest[at + piece.trim().len()..],
            None => return false,
        }
    }
    true
}

fn collapse_spaces(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn an_ellipsis_matches_any_text_and_other_text_must_agree() {
    let line = "msg_01  now    exhausted   2/2  invoice.paid  HTTP 500: no";
    assert!(matches(line, "msg_… exhausted … 2/2 invoice.paid … HTTP 500"));
    assert!(matches(line, "exhausted 2/2"));
    assert!(!matches(line, "exhausted … 1/2"));
    assert!(!matches(line, "2/2 … exhausted"));
    assert!(!matches(line, "exhausted invoice.paid"));
}

#[test]
fn lines_that_are_missing_or_in_another_order_are_found() {
    let missing = |expected| Shell::run("echo a; echo b", Path::new("/"), &[]).find_missing_line(expected);
    assert_eq!(missing("a\n\nb\n"), None);
    assert_eq!(missing("a\nc"), Some("c".to_owned()));
    assert_eq!(missing("b\na"), Some("a".to_owned()));
}
