//! A process of the binary. It ends with its test at the latest.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use serde_json::Value;

use super::output::{PIPES, Pipe, ProcessOutput, read_pipe};
use super::wait::{SharedState, TIMEOUT, wait_until};

/// Number of output lines that are shown when a test fails.
const SHOWN_LINES: usize = 40;

/// A running process. When it ends, its output must contain no payload and no secret.
pub(crate) struct Process {
    child: Child,
    output: Arc<SharedState<ProcessOutput>>,
    may_print_secrets: bool,
}

/// Exit code and output of a process that has ended.
#[derive(Debug)]
pub(crate) struct ProcessExit {
    /// None after a signal killed the process.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = Arc::new(SharedState::default());
        read_pipe(Pipe::Stdout, child.stdout.take().unwrap(), Arc::clone(&output));
        read_pipe(Pipe::Stderr, child.stderr.take().unwrap(), Arc::clone(&output));
        Self { child, output, may_print_secrets: false }
    }

    /// Turns off the check for secrets, for a command whose purpose is to print one.
    pub(crate) fn allow_secrets(mut self) -> Self {
        self.may_print_secrets = true;
        self
    }

    /// Waits until `find` finds something in the output. Panics with `expected` if the process ends first.
    #[track_caller]
    pub(crate) fn wait_for_output<T>(&self, expected: &str, find: impl Fn(&ProcessOutput) -> Option<T>) -> T {
        let found = self.output.wait_for(|output| match find(output) {
            Some(found) => Some(Some(found)),
            None => (output.closed_pipes == PIPES).then_some(None),
        });
        match found {
            Some(Some(found)) => found,
            Some(None) => panic!("the process ended before it printed {expected}"),
            None => panic!("the process did not print {expected} within {TIMEOUT:?}"),
        }
    }

    /// Waits for the first line of standard output.
    #[track_caller]
    pub(crate) fn wait_for_first_line(&self) -> String {
        self.wait_for_output("a line on stdout", |output| {
            let mut lines = output.lines.iter().filter(|line| line.pipe == Pipe::Stdout);
            lines.next().map(|line| line.text.clone())
        })
    }

    /// Waits until the log has at least `count` lines with this message, and returns them.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, message: &str, count: usize) -> Vec<Value> {
        self.wait_for_output(&format!("{count} log lines {message:?}"), |output| {
            let lines = output.log_lines(message);
            (lines.len() >= count).then_some(lines)
        })
    }

    /// Returns the number of log lines with this message that were printed so far.
    pub(crate) fn count_log_lines(&self, message: &str) -> usize {
        self.output.read(|output| output.log_lines(message).len())
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends a signal, by its name without `SIG`.
    #[track_caller]
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap();
        assert!(sent.success(), "cannot send SIG{name} to process {id}");
    }

    /// Returns the command line of the running process, which every user of the machine can read.
    #[track_caller]
    pub(crate) fn command_line(&self) -> Vec<u8> {
        std::fs::read(format!("/proc/{}/cmdline", self.child.id())).unwrap()
    }

    /// Removes the limit on the size of files that the process writes.
    #[track_caller]
    pub(crate) fn remove_file_limit(&self) {
        let id = self.child.id().to_string();
        let removed = Command::new("prlimit").args(["--pid", &id, "--fsize=unlimited"]).status().unwrap();
        assert!(removed.success(), "cannot remove the file size limit of process {id}");
    }

    /// Kills the process without giving it time to finish or write anything, like a power failure.
    #[track_caller]
    pub(crate) fn kill(mut self) -> ProcessExit {
        self.child.kill().unwrap();
        self.wait_for_exit()
    }

    /// Sends SIGTERM and waits until the process ends with exit code 0.
    #[track_caller]
    pub(crate) fn stop(self) -> ProcessExit {
        self.signal("TERM");
        let exit = self.wait_for_exit();
        assert_eq!(exit.code, Some(0), "{}", exit.stderr);
        exit
    }

    /// Waits until the process ends.
    #[track_caller]
    pub(crate) fn wait_for_exit(mut self) -> ProcessExit {
        let closed = self.output.wait_for(|output| (output.closed_pipes == PIPES).then_some(()));
        assert!(closed.is_some(), "the process did not end within {TIMEOUT:?}");
        let status =
            wait_until("the process ends after it closed its output", || self.child.try_wait().unwrap());
        self.assert_no_leak();
        let text_of = |pipe| self.output.read(|output| output.text_of(pipe));
        ProcessExit { code: status.code(), stdout: text_of(Pipe::Stdout), stderr: text_of(Pipe::Stderr) }
    }

    #[track_caller]
    fn assert_no_leak(&self) {
        if self.may_print_secrets {
            return;
        }
        let leak = self.output.read(|output| output.first_leak().cloned());
        assert!(leak.is_none(), "the process printed a payload or a secret: {leak:?}");
    }
}

/// Kills a process that its test did not wait for, and checks its output as well.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            self.output.read(|output| {
                let from = output.lines.len().saturating_sub(SHOWN_LINES);
                eprintln!("the last lines of process {}:", self.child.id());
                output.lines[from..].iter().for_each(|line| eprintln!("  {}", line.text));
            });
        } else {
            self.assert_no_leak();
        }
    }
}
