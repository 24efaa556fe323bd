//! One process of the binary. It never outlives its test.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use serde_json::Value;

use super::output::{Output, PIPES, Pipe, read};
use super::watched::{PATIENCE, Watched};

/// How many of its last lines a process leaves behind when its test fails.
const LAST_WORDS: usize = 40;

pub(crate) struct Process {
    child: Child,
    output: Arc<Watched<Output>>,
}

/// What a process leaves behind.
#[derive(Debug)]
pub(crate) struct Ended {
    /// None for one that was killed.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = Arc::new(Watched::default());
        read(Pipe::Stdout, child.stdout.take().unwrap(), Arc::clone(&output));
        read(Pipe::Stderr, child.stderr.take().unwrap(), Arc::clone(&output));
        Self { child, output }
    }

    /// What is found in its output, as soon as it is there.
    #[track_caller]
    pub(crate) fn printed<T>(&self, what: &str, find: impl Fn(&Output) -> Option<T>) -> T {
        let ended = |output: &Output| output.ended == PIPES;
        let found = self.output.wait_for(|output| match find(output) {
            Some(found) => Some(Some(found)),
            None => ended(output).then_some(None),
        });
        match found {
            Some(Some(found)) => found,
            Some(None) => panic!("the process ended without {what}"),
            None => panic!("not printed within {PATIENCE:?}: {what}"),
        }
    }

    /// The first line of its standard output.
    #[track_caller]
    pub(crate) fn first_line(&self) -> String {
        self.printed("a line of output", |output| {
            let mut lines = output.lines.iter().filter(|line| line.pipe == Pipe::Stdout);
            lines.next().map(|line| line.text.clone())
        })
    }

    /// The log lines with this message, once there are so many.
    #[track_caller]
    pub(crate) fn logged(&self, message: &str, count: usize) -> Vec<Value> {
        self.printed(&format!("{count} × {message:?}"), |output| {
            let lines = output.logged(message);
            (lines.len() >= count).then_some(lines)
        })
    }

    /// How many log lines there are with this message by now.
    pub(crate) fn logged_by_now(&self, message: &str) -> usize {
        self.output.look(|output| output.logged(message).len())
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends a signal by its name without `SIG`.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap();
        assert!(sent.success(), "SIG{name} could not be sent");
    }

    /// Lets it write as large files as it likes.
    pub(crate) fn lift_file_limit(&self) {
        let id = self.child.id().to_string();
        let lifted = Command::new("prlimit").args(["--pid", &id, "--fsize=unlimited"]).status().unwrap();
        assert!(lifted.success(), "the limit could not be lifted");
    }

    /// As a power cut would: nothing is finished, nothing is written any more.
    pub(crate) fn kill(mut self) -> Ended {
        self.child.kill().unwrap();
        self.end()
    }

    /// Asks it to stop, and expects it to do so in good order.
    #[track_caller]
    pub(crate) fn stop(self) -> Ended {
        self.signal("TERM");
        let ended = self.end();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn end(mut self) -> Ended {
        let closed = self.output.wait_for(|output| (output.ended == PIPES).then_some(()));
        assert!(closed.is_some(), "the process has not ended within {PATIENCE:?}");
        let code = self.child.wait().unwrap().code();
        self.assert_discreet();
        let printed = |pipe| self.output.look(|output| output.of(pipe));
        Ended { code, stdout: printed(Pipe::Stdout), stderr: printed(Pipe::Stderr) }
    }

    #[track_caller]
    fn assert_discreet(&self) {
        let shown = self.output.look(|output| output.indiscretion().cloned());
        assert!(shown.is_none(), "a payload or a secret was printed: {shown:?}");
    }
}

/// A process that a test is done with is held to the same promises as one that it stopped.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            self.output.look(|output| {
                let from = output.lines.len().saturating_sub(LAST_WORDS);
                eprintln!("the last words of process {}:", self.child.id());
                output.lines[from..].iter().for_each(|line| eprintln!("  {}", line.text));
            });
        } else {
            self.assert_discreet();
        }
    }
}
