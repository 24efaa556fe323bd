//! Runs what a document tells its reader to do, in the terminals that it names, on ports that are free.

use std::collections::BTreeMap;

use tempfile::TempDir;

use crate::document::blocks;
use crate::shell::Shell;

/// Where documents say that the service and the receiver are.
const SERVER: &str = "127.0.0.1:8600";
const RECEIVER: &str = "127.0.0.1:8700";
/// Commands that change nothing: a reader who is too fast runs them again.
const LOOKS: [&str; 4] =
    ["posthaste overview", "posthaste dlq list", "posthaste events list", "posthaste events show"];
/// So often at most.
const LOOKS_MAX: usize = 300;

/// Commands for one terminal, what it shows then, or both.
#[derive(Debug, Default)]
pub(crate) struct Step {
    pub(crate) terminal: u8,
    pub(crate) commands: String,
    pub(crate) shown: String,
}

/// The steps of a text: `sh` is run, `text` is what its terminal shows. Where none is named, it is the third.
pub(crate) fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for block in blocks(text) {
        let terminal = block.terminal.unwrap_or(3);
        match block.language.as_str() {
            "sh" => steps.push(Step { terminal, commands: block.text, shown: String::new() }),
            "text" => match steps.last_mut() {
                Some(step) if step.terminal == terminal && step.shown.is_empty() => step.shown = block.text,
                _ => steps.push(Step { terminal, commands: String::new(), shown: block.text }),
            },
            _ => {}
        }
    }
    steps
}

pub(crate) struct Stage {
    /// First, so that what runs ends before its directory goes.
    running: BTreeMap<u8, Shell>,
    directory: TempDir,
    server: String,
    receiver: String,
}

impl Stage {
    /// An empty directory, and nothing that runs.
    pub(crate) fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { running: BTreeMap::new(), directory, server: String::new(), receiver: String::new() }
    }

    #[track_caller]
    pub(crate) fn take(&mut self, step: &Step) {
        if step.commands.is_empty() {
            let shown = self.here(&step.shown);
            self.running.get_mut(&step.terminal).expect("something runs in that terminal").shows(&shown);
        } else if stays(&step.commands) {
            self.start(step.terminal, &step.commands);
            let shown = self.here(&step.shown);
            self.running.get_mut(&step.terminal).expect("it was just started").shows(&shown);
        } else {
            self.ask(&self.here(&step.commands), &self.here(&step.shown));
        }
    }

    /// Starts what runs until Ctrl-C, which ends what ran in the terminal before.
    #[track_caller]
    pub(crate) fn start(&mut self, terminal: u8, command: &str) {
        if let Some(before) = self.running.remove(&terminal) {
            let (status, output) = before.interrupt();
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

    /// Runs to the end, and fails unless it succeeds and shows this.
    #[track_caller]
    pub(crate) fn ask(&self, commands: &str, shown: &str) {
        let only_looks = commands.lines().all(|line| LOOKS.iter().any(|look| line.starts_with(look)));
        let server = format!("http://{}", self.server);
        let mut last = None;
        for _ in 0..if only_looks { LOOKS_MAX } else { 1 } {
            let mut shell = Shell::run(commands, self.directory.path(), &[("POSTHASTE_SERVER", &server)]);
            let missing = shell.lacks(&self.here(shown));
            let (status, output) = shell.finish();
            if status.success() && missing.is_none() {
                return;
            }
            last = Some((status, missing, output));
        }
        let (status, missing, output) = last.unwrap();
        panic!("{commands}{status}, missing {missing:?} in:\n{output}");
    }

    /// With the addresses that things really have.
    pub(crate) fn here(&self, text: &str) -> String {
        text.replace(SERVER, &self.server).replace(RECEIVER, &self.receiver)
    }
}

fn stays(commands: &str) -> bool {
    commands.contains("posthaste serve") || commands.contains("posthaste listen")
}
