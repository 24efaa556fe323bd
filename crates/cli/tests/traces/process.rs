//! The built command on a SQLite file of its own, in an environment that is given.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use tempfile::TempDir;

use crate::server::PATIENCE;

pub(crate) struct Process {
    child: Child,
    address: String,
    /// Held, so that what it prints has somewhere to go.
    _stdout: BufReader<ChildStdout>,
    log: Receiver<String>,
    heard: Vec<String>,
    directory: TempDir,
}

impl Process {
    pub(crate) fn serve(environment: &[(&str, &str)]) -> Self {
        Self::start(&["serve"], environment)
    }

    pub(crate) fn serve_without_worker(environment: &[(&str, &str)]) -> Self {
        Self::start(&["serve", "--no-worker"], environment)
    }

    fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut command = posthaste(&directory, arguments, environment);
        command.env("POSTHASTE_LISTEN", "127.0.0.1:0").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (hear, log) = mpsc::channel();
        thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| hear.send(line)));
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut greeting = String::new();
        stdout.read_line(&mut greeting).unwrap();
        let (_, address) = greeting.split_once("http://").expect("it says where it listens");
        let address = address.split('/').next().unwrap().to_owned();
        Self { child, address, _stdout: stdout, log, heard: Vec::new(), directory }
    }

    /// An event that is attempted once, from a producer with this header.
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
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    }

    /// Another command on the same file, until it has ended well.
    pub(crate) fn run_beside(&self, arguments: &[&str], environment: &[(&str, &str)]) {
        let output = posthaste(&self.directory, arguments, environment).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// The first line of the log with this in it, when it has been written.
    pub(crate) fn until_said(&mut self, part: &str) -> String {
        loop {
            let line = self.log.recv_timeout(PATIENCE).unwrap();
            self.heard.push(line.clone());
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Stops it in good order; what it has logged from its start to its end.
    pub(crate) fn stop(mut self) -> Vec<String> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        while let Ok(line) = self.log.recv_timeout(PATIENCE) {
            self.heard.push(line);
        }
        let heard = std::mem::take(&mut self.heard);
        let ended = self.child.try_wait().unwrap().or_else(|| self.child.wait().ok());
        assert!(ended.is_some_and(|status| status.success()), "{heard:?}");
        heard
    }
}

/// A test that fails leaves nothing running.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn posthaste(directory: &TempDir, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(arguments).current_dir(directory.path()).stdin(Stdio::null());
    command.env_clear().envs(environment.iter().copied());
    command
}
