//! A Posthaste server for one test: on a free port, in a temporary directory. Every wait has a limit.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// The limit for the start of the server. It is long enough for a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running server. Dropping it kills the process.
pub(crate) struct TestServer {
    process: Child,
    /// Ends with a slash.
    pub(crate) url: String,
    directory: tempfile::TempDir,
}

impl TestServer {
    /// Starts a server and waits until it has printed its URL.
    pub(crate) fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut process = posthaste(arguments)
            .current_dir(&directory)
            .env("POSTHASTE_LISTEN", "127.0.0.1:0")
            .env("POSTHASTE_LOG", "warn")
            .env("POSTHASTE_LOG_FORMAT", "json")
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let stdout = process.stdout.take().unwrap();
        let mut server = Self { process, url: String::new(), directory };
        let (sender, first_line) = channel();
        thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(stdout).read_line(&mut line);
            sender.send(line)
        });
        let banner = first_line.recv_timeout(START_TIMEOUT);
        let banner = banner.unwrap_or_else(|_| panic!("the server printed nothing within {START_TIMEOUT:?}"));
        let banner: serde_json::Value =
            serde_json::from_str(&banner).unwrap_or_else(|error| panic!("{banner:?} is not JSON: {error}"));
        banner["url"].as_str().unwrap().clone_into(&mut server.url);
        server
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Builds a command whose standard error is captured by [`run_within`].
pub(crate) fn posthaste(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(arguments).stderr(Stdio::piped());
    command
}

/// Runs a command to its end and returns its standard output, with standard error if the command captures it. Kills its
/// process group and fails the test after `limit`.
#[track_caller]
pub(crate) fn run_within(limit: Duration, command: &mut Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0).spawn().unwrap();
    let group = format!("-{}", child.id());
    let (sender, output) = channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    match output.recv_timeout(limit) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            panic!("{:?} did not end within {limit:?}", command.get_program());
        }
    }
}
