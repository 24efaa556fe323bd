//! Runs the commands of a document in the terminals that it names, on free ports.

use std::collections::BTreeMap;

use tempfile::TempDir;

use crate::document::blocks;
use crate::shell::Shell;

/// The addresses of the server and of the receiver in documents.
const SERVER: &str = "127.0.0.1:8600";
const RECEIVER: &str = "127.0.0.1:8700";
/// Commands that only read. The runner repeats them, because it may be faster than the state that a document shows.
const READ_COMMANDS: [&str; 4] =
    ["posthaste overview", "posthaste dlq list", "posthaste events list", "posthaste events show"];
/// How often a reading command is run at most.
const READS_MAX: usize = 300;

/// Commands for one terminal, the output that it prints then, or both.
#[derive(Debug, Default)]
pub(crate) struct Step {
    pub(crate) terminal: u8,
    pub(crate) commands: String,
    pub(crate) output: String,
}

/// Returns the steps of a text: blocks of `sh` are commands, blocks of `text` are output. Blocks before which no terminal
/// is named belong to terminal 3.
pub(crate) fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for block in blocks(text) {
        let terminal = block.terminal.unwrap_or(3);
        match block.language.as_str() {
            "sh" => steps.push(Step { terminal, commands: block.text, output: String::new() }),
            "text" => match steps.last_mut() {
                Some(step) if step.terminal == terminal && step.output.is_empty() => step.output = block.text,
                _ => steps.push(Step { terminal, commands: String::new(), output: block.text }),
            },
            _ => {}
        }
    }
    steps
}

/// Runs steps in an empty directory, with one shell per terminal.
pub(crate) struct DocumentRunner {
    /// The first field, so that the shells are killed before their directory is deleted.
    running: BTreeMap<u8, Shell>,
    directory: TempDir,
    /// The real address of the server.
    server: String,
    /// The real address of the receiver.
    receiver: String,
}

impl DocumentRunner {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { running: BTreeMap::new(), directory, server: String::new(), receiver: String::new() }
    }

    /// Runs the commands of a step and expects its output.
    #[track_caller]
    pub(crate) fn run_step(&mut self, step: &Step) {
        if step.commands.is_empty() {
            self.expect_output(step);
        } else if runs_until_interrupted(&step.commands) {
            self.start(step.terminal, &step.commands);
            self.expect_output(step);
        } else {
            self.run_to_end(
                &self.with_real_addresses(&step.commands),
                &self.with_real_addresses(&step.output),
            );
        }
    }

    #[track_caller]
    fn expect_output(&mut self, step: &Step) {
        let output = self.with_real_addresses(&step.output);
        let shell = self.running.get_mut(&step.terminal).expect("a program runs in that terminal");
        shell.expect_lines(&output);
    }

    /// Starts a server or a receiver. Interrupts the program that runs in the terminal, as Ctrl-C does, and expects that
    /// it succeeds.
    #[track_caller]
    pub(crate) fn start(&mut self, terminal: u8, command: &str) {
        if let Some(previous) = self.running.remove(&terminal) {
            let (status, output) = previous.interrupt();
            assert!(status.success(), "{status} after Ctrl-C:\n{output}");
        }
        let command = command.replace("--port 8700", "--port 0");
        let mut shell = Shell::run(&command, self.directory.path(), &[("POSTHASTE_LISTEN", "127.0.0.1:0")]);
        if command.contains("posthaste serve") {
            self.server = shell.word_after("listens on http://");
        } else {
            self.receiver = shell.word_after("Listening on http://");
        }
        self.running.insert(terminal, shell);
    }

    /// Runs commands to their end. Fails unless they succeed and print these lines.
    #[track_caller]
    pub(crate) fn run_to_end(&self, commands: &str, expected: &str) {
        let only_reads = commands.lines().all(|line| READ_COMMANDS.iter().any(|read| line.starts_with(read)));
        let server = format!("http://{}", self.server);
        let mut last = None;
        for _ in 0..if only_reads { READS_MAX } else { 1 } {
            let mut shell = Shell::run(commands, self.directory.path(), &[("POSTHASTE_SERVER", &server)]);
            let missing = shell.find_missing_line(&self.with_real_addresses(expected));
            let (status, output) = shell.finish();
            if status.success() && missing.is_none() {
                return;
            }
            last = Some((status, missing, output));
        }
        let (status, missing, output) = last.unwrap();
        panic!("{commands}{status}, missing {missing:?} in:\n{output}");
    }

    /// Replaces the addresses of the documents by those of the running server and receiver.
    pub(crate) fn with_real_addresses(&self, text: &str) -> String {
        text.replace(SERVER, &self.server).replace(RECEIVER, &self.receiver)
    }
}

fn runs_until_interrupted(commands: &str) -> bool {
    commands.contains("posthaste serve") || commands.contains("posthaste listen")
}
