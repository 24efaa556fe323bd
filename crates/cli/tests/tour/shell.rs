//! A terminal: a shell that runs a block of a document, and everything that it has shown so far.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How long the next line may take. Nothing waits so long unless something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Shell {
    shell: Child,
    lines: Receiver<String>,
    shown: Vec<String>,
    /// Lines that have been looked for and found, or passed over.
    read: usize,
}

impl Shell {
    /// Runs commands as a person would paste them, with `posthaste` on the path and nothing else in the environment.
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
        let output = BufReader::new(shell.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { shell, lines, shown: Vec::new(), read: 0 }
    }

    /// Waits until every line is shown, in this order; others may stand between them.
    #[track_caller]
    pub(crate) fn shows(&mut self, expected: &str) {
        let missing = self.lacks(expected);
        assert!(
            missing.is_none(),
            "it never shows {:?}:\n{}",
            missing.unwrap_or_default(),
            self.shown.join("\n")
        );
    }

    /// The first line that does not come.
    pub(crate) fn lacks(&mut self, expected: &str) -> Option<String> {
        let mut patterns = expected.lines().filter(|line| !line.trim().is_empty());
        patterns.find(|pattern| !self.reaches(pattern)).map(str::to_owned)
    }

    fn reaches(&mut self, pattern: &str) -> bool {
        while let Some(line) = self.next() {
            if matches(&line, pattern) {
                return true;
            }
        }
        false
    }

    /// What follows `before` on the first line that has it, up to white space or a slash.
    #[track_caller]
    pub(crate) fn word_after(&mut self, before: &str) -> String {
        let line = self.line_with(before);
        let (_, after) = line.split_once(before).unwrap();
        self.read = 0;
        after.split([' ', '/']).next().unwrap().to_owned()
    }

    /// The next line that has this in it.
    #[track_caller]
    pub(crate) fn line_with(&mut self, what: &str) -> String {
        loop {
            match self.next() {
                Some(line) if line.contains(what) => return line,
                Some(_) => {}
                None => panic!("it never says {what:?}:\n{}", self.shown.join("\n")),
            }
        }
    }

    /// The next line; None when there is none, and there will be none.
    fn next(&mut self) -> Option<String> {
        self.read += 1;
        if self.read > self.shown.len() {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => self.shown.push(line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
        Some(self.shown[self.read - 1].clone())
    }

    /// Waits for the end, and returns how it ended and everything that was shown.
    pub(crate) fn finish(mut self) -> (ExitStatus, String) {
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.shown.push(line);
        }
        (self.shell.wait().unwrap(), self.shown.join("\n"))
    }

    /// As Ctrl-C does: everything in the foreground gets it.
    pub(crate) fn interrupt(self) -> (ExitStatus, String) {
        self.signal("-INT");
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

/// Whether a line is as a document shows it. There, … stands for what differs each time, and columns may be closer.
pub(crate) fn matches(line: &str, pattern: &str) -> bool {
    let line = spaced(line);
    let mut rest = line.as_str();
    for piece in pattern.split('…').map(spaced) {
        match rest.find(piece.trim()) {
            Some(at) => rest = &rest[at + piece.trim().len()..],
            None => return false,
        }
    }
    true
}

fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn what_differs_each_time_may_be_left_out_and_nothing_else() {
    let line = "msg_01  now    exhausted   2/2  invoice.paid  HTTP 500: no";
    assert!(matches(line, "msg_… exhausted … 2/2 invoice.paid … HTTP 500"));
    assert!(matches(line, "exhausted 2/2"));
    assert!(!matches(line, "exhausted … 1/2"));
    assert!(!matches(line, "2/2 … exhausted"));
    assert!(!matches(line, "exhausted invoice.paid"));
}

#[test]
fn lines_that_never_come_or_come_in_another_order_are_noticed() {
    let lacks = |expected| Shell::run("echo a; echo b", Path::new("/"), &[]).lacks(expected);
    assert_eq!(lacks("a\n\nb\n"), None);
    assert_eq!(lacks("a\nc"), Some("c".to_owned()));
    assert_eq!(lacks("b\na"), Some("a".to_owned()));
}
