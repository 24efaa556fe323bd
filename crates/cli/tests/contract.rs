//! The running server against its OpenAPI documents: thousands of valid and invalid requests, generated from a document.
//! No response may be a 5xx, have an undocumented status, or violate the documented schema.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use support::{TestServer, posthaste, run_within};

/// The limit of one run of schemathesis, which takes about a minute.
const TIMEOUT: Duration = Duration::from_secs(600);

const PRODUCER: &str = "producer-key-of-the-contract";
const OPERATOR: &str = "operator-key-of-the-contract";

fn start_server() -> TestServer {
    let keys = format!("p:producer:{PRODUCER},o:operator:{OPERATOR}");
    TestServer::start(&["serve", "--no-worker"], &[("POSTHASTE_API_KEYS", &keys)])
}

/// Enqueues the event to which the document's examples refer.
fn enqueue_example_event(server: &TestServer) {
    let mut send =
        posthaste(&["send", "--server", &server.url, "--key", PRODUCER, "--event-id", "order-17-created"]);
    send.args(["--url", "https://receiver.example/hook", "--type", "invoice.paid", "--data", "{}"]);
    let sent = run_within(TIMEOUT, &mut send);
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
}

/// Returns the root of the repository.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn schemathesis() -> PathBuf {
    let installed = root().join("target/tools/schemathesis/bin/schemathesis");
    assert!(
        installed.exists(),
        "schemathesis is missing: `make need-schemathesis` installs it into target/tools"
    );
    installed
}

/// Sends a JSON request to the registry and asserts that it succeeds.
fn put(server: &TestServer, method: &str, path: &str, body: &str) {
    let address = server.url.strip_prefix("http://").unwrap().trim_end_matches('/');
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let request = format!(
        "{method} /api/v1{path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {OPERATOR}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 20"), "{path}: {response}");
}

/// Creates the application, the endpoint, the event type and the message to which the examples of the registry refer.
fn fill_registry(server: &TestServer) {
    put(server, "PUT", "/app/customer-17", r#"{"name":"Customer 17"}"#);
    put(server, "PUT", "/app/customer-17/endpoint/receiver-1", r#"{"url":"https://receiver.example/hook"}"#);
    put(server, "PUT", "/event-type/invoice.paid", r#"{"description":"An invoice was paid"}"#);
    let message = r#"{"eventType":"invoice.paid","payload":{},"eventId":"invoice-17-paid"}"#;
    put(server, "POST", "/app/customer-17/msg", message);
}

/// Runs schemathesis with this key. It excludes the stream, which never ends and has its own tests, and the check
/// `positive_data_acceptance`: the server may refuse a value that matches the schema, such as an invented cursor.
fn assert_document_is_followed(document: &str, key: &str) {
    follow_document(document, key, &mut Command::new(schemathesis()));
}

/// Runs this command of schemathesis, which may have settings of its own.
fn follow_document(document: &str, key: &str, command: &mut Command) {
    let server = start_server();
    enqueue_example_event(&server);
    fill_registry(&server);
    command
        .args(["run", &format!("{}{document}", server.url), "--checks", "all"])
        .args(["--exclude-checks", "positive_data_acceptance"])
        .args(["--exclude-path", "/v1/webhook-outbox/stream", "--seed", "1", "--max-examples", "60"])
        .args(["--request-timeout", "30", "--no-color", "--continue-on-failure"])
        .args(["--header", &format!("Authorization:Bearer {key}")])
        .current_dir(server.directory());
    let output = run_within(TIMEOUT, command);
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}");
    println!(
        "{}",
        report.lines().rev().take(12).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn responses_to_a_producer_follow_the_document() {
    assert_document_is_followed("openapi.json", PRODUCER);
}

#[test]
fn responses_to_an_operator_follow_the_document() {
    assert_document_is_followed("openapi.json", OPERATOR);
}

#[test]
fn responses_of_the_registry_follow_its_document() {
    let files = root().join("tests/contract");
    let mut command = Command::new(schemathesis());
    command
        .env("SCHEMATHESIS_HOOKS", files.join("hooks.py"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args(["--config-file", files.join("schemathesis.toml").to_str().unwrap()]);
    follow_document("api/v1/openapi.json", OPERATOR, &mut command);
}
