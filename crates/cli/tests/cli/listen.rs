//! `posthaste listen`: verified and unverified deliveries, and requested failures.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;

use posthaste_domain::EventId;
use posthaste_domain::signature::{Secret, SigningKeys};
use posthaste_engine::host_time;
use serde_json::Value;

use crate::child::{TIMEOUT, connect, read_lines, send_request, status_of, wait_for_exit};
use crate::command::{directory, posthaste, run, run_with_input};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// A running `posthaste listen`. Dropping it kills the process.
struct Listener {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
    address: String,
    /// The three lines that it prints at its start.
    introduction: Vec<String>,
}

impl Listener {
    fn start(arguments: &[&str]) -> Self {
        Self::run(&mut posthaste(&[&["listen", "--port", "0"], arguments].concat()))
    }

    fn run(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = read_lines(child.stdout.take().unwrap());
        let stderr = read_lines(child.stderr.take().unwrap());
        let mut listener = Self { child, stdout, stderr, address: String::new(), introduction: Vec::new() };
        for _ in 0..3 {
            listener.introduction.push(next_line(&listener.stderr));
        }
        let (_, rest) = listener.introduction[0].split_once("http://").unwrap();
        listener.address = rest.split('/').next().unwrap().to_owned();
        listener
    }

    #[track_caller]
    fn next_line(&self) -> String {
        next_line(&self.stdout)
    }

    #[track_caller]
    fn next_object(&self) -> Value {
        serde_json::from_str(&self.next_line()).unwrap()
    }

    /// Posts a body with these headers and returns the status.
    fn post(&self, headers: &str, body: &str) -> u16 {
        let request = format!(
            "POST /hook HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        status_of(&send_request(&self.address, &request))
    }

    /// Posts a signed delivery, as Posthaste does, and returns the status.
    fn deliver(&self, id: &str, attempt: u32, secret: &str, body: &str) -> u16 {
        let keys = SigningKeys::new(vec![Secret::parse(secret).unwrap()]).unwrap();
        let now = host_time();
        let signature = keys.sign(&EventId::new(id).unwrap(), now, body.as_bytes());
        let headers = format!(
            "content-type: application/json\r\nwebhook-id: {id}\r\nwebhook-timestamp: {}\r\n\
             webhook-signature: {signature}\r\nposthaste-event-type: invoice.paid\r\nposthaste-attempt: {attempt}\r\n",
            now.as_secs()
        );
        self.post(&headers, body)
    }

    /// Sends SIGINT, as Ctrl-C does, and returns the summary.
    fn interrupt(mut self) -> String {
        let signalled = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(signalled.success());
        assert_eq!(wait_for_exit(&mut self.child).code(), Some(0));
        // The channel closes with the output of the process that has ended.
        self.stderr.iter().collect::<Vec<_>>().join("\n")
    }
}

#[track_caller]
fn next_line(lines: &Receiver<String>) -> String {
    lines.recv_timeout(TIMEOUT).unwrap_or_else(|error| panic!("no further line of output: {error}"))
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_introduction_names_the_url_and_a_command_to_try() {
    let listener = Listener::start(&["--secret", SECRET]);
    let url = format!("http://{}/", listener.address);
    assert!(listener.address.starts_with("127.0.0.1:") && !listener.address.ends_with(":8700"));
    assert_eq!(listener.introduction[1], "Signatures are checked.");
    let command =
        format!(r#"Try: posthaste send --url {url} --type test.ping --data '{{"hello": "world"}}'"#);
    assert_eq!(listener.introduction[2], command);
    assert!(listener.interrupt().starts_with("Nothing was delivered in "));
}

#[test]
fn a_signed_delivery_is_verified_and_shown() {
    let listener = Listener::start(&["--secret", SECRET]);
    assert_eq!(listener.deliver("msg_1", 1, SECRET, r#"{"invoice":17,"amount":1.50}"#), 200);
    let facts = listener.next_line();
    let expected = " · verified · invoice.paid · msg_1 · attempt 1 · responded 200 · 28 bytes";
    assert!(facts.ends_with(expected), "{facts}");
    let shown: Vec<_> = (0..4).map(|_| listener.next_line()).collect();
    assert_eq!(shown, ["{", "  \"invoice\": 17,", "  \"amount\": 1.50", "}"]);
    let summary = listener.interrupt();
    assert!(
        summary.starts_with("1 request for 1 event in ") && summary.ends_with("; responded 200: 1."),
        "{summary}"
    );
}

#[test]
fn a_delivery_with_another_secret_is_refused_with_the_reason() {
    let listener = Listener::start(&["--secret", SECRET]);
    assert_eq!(listener.deliver("msg_1", 1, OTHER_SECRET, "{}"), 401);
    assert!(listener.next_line().contains(" · NOT verified: no signature matches: wrong secret"));
    assert_eq!(listener.next_line(), "{}");
    assert_eq!(listener.post("", "a=1"), 401);
    let facts = listener.next_line();
    assert!(facts.contains("NOT verified: the header webhook-id is missing · no event type"), "{facts}");
    assert_eq!(listener.next_line(), "a=1");
    assert!(listener.interrupt().ends_with("; responded 401: 2; 2 NOT verified."));
}

#[test]
fn several_secrets_are_valid_during_a_rotation() {
    let listener = Listener::start(&["--json", "--secret", &format!("{OTHER_SECRET},{SECRET}")]);
    assert_eq!(listener.deliver("msg_1", 1, SECRET, "{}"), 200);
    assert_eq!(listener.deliver("msg_2", 1, OTHER_SECRET, "{}"), 200);
    assert_eq!(
        [listener.next_object(), listener.next_object()].map(|line| line["verified"] == true),
        [true; 2]
    );
}

#[test]
fn the_secret_may_come_from_the_environment() {
    let mut command = posthaste(&["listen", "--port", "0"]);
    let listener =
        Listener::run(command.env("POSTHASTE_SIGNING_SECRET", format!("{OTHER_SECRET}, {SECRET}")));
    assert_eq!(listener.deliver("msg_1", 1, SECRET, "{}"), 200);
    assert_eq!(listener.post("", "{}"), 401);
}

#[test]
fn without_a_secret_signatures_are_not_checked_and_the_introduction_says_so() {
    let listener = Listener::start(&[]);
    assert!(
        listener.introduction[1].contains("not checked")
            && listener.introduction[1].contains("posthaste secret")
    );
    assert_eq!(listener.deliver("msg_1", 1, SECRET, "{}"), 200);
    assert!(listener.next_line().contains(" · unchecked · "));
}

#[test]
fn fail_makes_the_first_deliveries_of_each_event_fail() {
    let listener = Listener::start(&["--secret", SECRET, "--fail", "2", "--json"]);
    let statuses = [("a", 1), ("a", 2), ("b", 1), ("a", 3)]
        .map(|(id, attempt)| listener.deliver(id, attempt, SECRET, "{}"));
    assert_eq!(statuses, [500, 500, 500, 200]);
    let lines: Vec<_> = (0..4).map(|_| listener.next_object()).collect();
    let seen: Vec<_> = lines.iter().map(|line| (line["attempt"].as_u64(), line["status"].as_u64())).collect();
    assert_eq!(
        seen,
        [(Some(1), Some(500)), (Some(2), Some(500)), (Some(1), Some(500)), (Some(3), Some(200))]
    );
    assert!(lines[0]["since_last_ms"].is_null() && lines[1]["since_last_ms"].is_u64(), "{lines:?}");
    assert!(listener.interrupt().starts_with("4 requests for 2 events in "));
}

#[test]
fn status_is_the_response_to_every_delivery() {
    let listener = Listener::start(&["--status", "410", "--delay", "1"]);
    assert_eq!(listener.deliver("msg_1", 1, SECRET, "{}"), 410);
}

#[test]
fn json_is_one_line_and_keeps_the_spelling_of_the_payload() {
    let listener = Listener::start(&["--secret", SECRET, "--json"]);
    assert_eq!(listener.deliver("msg_1", 2, SECRET, "{\n  \"amount\": 1.50\n}"), 200);
    let line = listener.next_line();
    assert!(line.contains(r#""payload":{   "amount": 1.50 }"#), "{line}");
    let object: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&object["event_id"], &object["event_type"]), (&"msg_1".into(), &"invoice.paid".into()));
    assert_eq!((&object["path"], &object["bytes"]), (&"/hook".into(), &20.into()));
}

#[test]
fn a_request_that_is_not_a_delivery_is_refused_and_not_shown() {
    let listener = Listener::start(&["--json"]);
    let get = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let response = send_request(&listener.address, get);
    assert!(response.starts_with("HTTP/1.1 405 ") && response.contains("allow: POST"), "{response}");
    let mut stream = connect(&listener.address);
    stream.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 16777217\r\n\r\n").unwrap();
    let mut status_line = [0; 12];
    stream.read_exact(&mut status_line).expect("the server responds before it reads the body");
    assert_eq!(&status_line, b"HTTP/1.1 413");
    assert_eq!(listener.post("", "{}"), 200);
    assert_eq!(listener.next_object()["bytes"], 2);
}

#[test]
fn a_malformed_secret_is_bad_usage() {
    run(&["listen", "--port", "0", "--secret", "hunter2"]).assert_failure(2, &["whsec_", "posthaste secret"]);
}

/// `posthaste secret` prints nothing if it fails. Signatures must not go unchecked then.
#[test]
fn an_empty_secret_is_bad_usage() {
    for empty in ["", " \n", ","] {
        run(&["listen", "--port", "0", "--secret", empty])
            .assert_failure(2, &["--secret", "`posthaste secret`"]);
        run_with_input(&["listen", "--port", "0", "--secret-file", "-"], empty)
            .assert_failure(2, &["--secret-file standard input", "`posthaste secret`"]);
    }
    run(&["listen", "--port", "0", "--secret-file", "absent"]).assert_failure(2, &["absent", "No such file"]);
}

#[test]
fn secrets_are_read_from_standard_input_and_from_a_file() {
    let file = directory("listen").join("secrets");
    std::fs::write(&file, format!("{OTHER_SECRET}\n{SECRET}\n")).unwrap();
    let mut from_input = posthaste(&["listen", "--port", "0", "--secret-file", "-"]);
    from_input.stdin(std::fs::File::open(&file).unwrap());
    let from_file = posthaste(&["listen", "--port", "0", "--secret-file", file.to_str().unwrap()]);
    for mut command in [from_input, from_file] {
        // The file takes precedence over the variable.
        let listener = Listener::run(command.env("POSTHASTE_SIGNING_SECRET", "whsec_unused"));
        assert_eq!(listener.introduction[1], "Signatures are checked.");
        assert_eq!(listener.deliver("msg_1", 1, SECRET, "{}"), 200);
        assert_eq!(listener.deliver("msg_2", 1, OTHER_SECRET, "{}"), 200);
        assert_eq!(listener.deliver("msg_3", 1, "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oE", "{}"), 401);
    }
}

#[test]
fn a_port_in_use_is_an_error_that_suggests_another() {
    let listener = Listener::start(&[]);
    let port = listener.address.rsplit(':').next().unwrap();
    run(&["listen", "--port", port]).assert_failure(1, &["--port 0", port]);
}
