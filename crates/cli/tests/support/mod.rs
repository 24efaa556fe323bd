//! A Posthaste of one's own: on a free port, in a directory that goes away with it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub(crate) struct Service {
    process: Child,
    /// Ends with a slash.
    pub(crate) url: String,
    directory: tempfile::TempDir,
}

impl Service {
    /// Returns when it says where it listens.
    pub(crate) fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut process = posthaste(arguments)
            .current_dir(&directory)
            .env("POSTHASTE_LISTEN", "127.0.0.1:0")
            .env("POSTHASTE_LOG", "warn")
            .env("POSTHASTE_LOG_FORMAT", "json")
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let told: serde_json::Value = serde_json::from_str(&line).unwrap();
        let url = told["url"].as_str().unwrap().to_owned();
        Self { process, url, directory }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn posthaste(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(arguments);
    command
}
