//! Runs the built command on its own SQLite file.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;

use tempfile::TempDir;

use crate::server::TIMEOUT;

/// A running `posthaste serve`. Dropping it kills the process.
pub(crate) struct Process {
    child: Child,
    address: String,
    /// Kept open, so that the process can write to it.
    _stdout: BufReader<ChildStdout>,
    /// Lines that the process writes to its log.
    log: Receiver<String>,
    /// Lines that were read from `log`.
    log_lines: Vec<String>,
    directory: TempDir,
}

impl Process {
    /// Starts `posthaste serve` with this environment and waits until it listens.
    pub(crate) fn serve(environment: &[(&str, &str)]) -> Self {
        Self::start(&["serve"], environment)
    }

    /// Starts `posthaste serve --no-worker`, which delivers nothing.
    pub(crate) fn serve_without_worker(environment: &[(&str, &str)]) -> Self {
        Self::start(&["serve", "--no-worker"], environment)
    }

    fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut command = posthaste(&directory, arguments, environment);
        command.env("POSTHASTE_LISTEN", "127.0.0.1:0").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, log) = mpsc::channel();
        thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let (stdout, banner) = read_first_line(&mut child);
        let (_, address) = banner.split_once("http://").expect("the banner contains the URL");
        let address = address.split('/').next().unwrap().to_owned();
        Self { child, address, _stdout: stdout, log, log_lines: Vec::new(), directory }
    }

    /// Enqueues an event with one attempt, in a request with this `traceparent` header.
    pub(crate) fn enqueue(&self, destination_url: &str, traceparent: Option<&str>) {
        let body = format!(
            r#"{{"destination_url":"{destination_url}","event_type":"invoice.paid","payload":{{"invoice":"in_17"}},"max_attempts":1}}"#
        );
        let traceparent = traceparent.map(|value| format!("traceparent: {value}\r\n")).unwrap_or_default();
        let request = format!(
            "POST /v1/webhook-outbox/events HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\nconnection: close\r\n{traceparent}\r\n{body}",
            address = self.address,
            length = body.len()
        );
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("the API responds in time");
        assert!(response.starts_with("HTTP/1.1 202"), "{response}");
    }

    /// Runs another command on the same SQLite file, and asserts that it succeeds.
    pub(crate) fn run_command(&self, arguments: &[&str], environment: &[(&str, &str)]) {
        let mut command = posthaste(&self.directory, arguments, environment);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let id = child.id().to_string();
        let (sender, output) = mpsc::channel();
        thread::spawn(move || sender.send(child.wait_with_output().unwrap()));
        let Ok(output) = output.recv_timeout(TIMEOUT) else {
            let _ = Command::new("kill").args(["-KILL", &id]).status();
            panic!("{arguments:?} did not end within {TIMEOUT:?}");
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Waits for a log line that contains this text, and returns the line.
    #[track_caller]
    pub(crate) fn wait_for_log(&mut self, text: &str) -> String {
        loop {
            let Ok(line) = self.log.recv_timeout(TIMEOUT) else {
                panic!("{text:?} was not logged within {TIMEOUT:?}: {:?}", self.log_lines);
            };
            self.log_lines.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Stops the process with SIGTERM, asserts that it succeeds, and returns all of its log.
    #[track_caller]
    pub(crate) fn stop(mut self) -> Vec<String> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        loop {
            match self.log.recv_timeout(TIMEOUT) {
                Ok(line) => self.log_lines.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("the process did not stop within {TIMEOUT:?}: {:?}", self.log_lines)
                }
            }
        }
        // The log ends with the process, so this does not wait.
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{:?}", self.log_lines);
        std::mem::take(&mut self.log_lines)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the first line of standard output. Kills the process and fails the test if none is written in time.
fn read_first_line(child: &mut Child) -> (BufReader<ChildStdout>, String) {
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let (sender, first_line) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let _ = sender.send((stdout, line));
    });
    first_line.recv_timeout(TIMEOUT).unwrap_or_else(|_| {
        let _ = child.kill();
        panic!("the process did not start within {TIMEOUT:?}")
    })
}

fn posthaste(directory: &TempDir, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(arguments).current_dir(directory.path()).stdin(Stdio::null());
    command.env_clear().envs(environment.iter().copied());
    command
}
