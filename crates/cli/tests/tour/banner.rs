//! What the service says at its start is so: its commands, pasted into another terminal, deliver an event.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use serde_json::Value;

use crate::shell::Shell;

#[test]
fn what_a_start_says_to_try_works_however_it_was_configured() {
    for flags in ["", "--config 'my own.toml'", "--database-url sqlite://other.db"] {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path();
        std::fs::write(here.join("my own.toml"), "database_url = \"sqlite://mine.db\"\n").unwrap();
        let free_port = [("POSTHASTE_LISTEN", "127.0.0.1:0")];
        let mut service = Shell::run(&format!("posthaste serve {flags}"), here, &free_port);
        let told: Value = serde_json::from_str(&service.line_with("\"try\"")).unwrap();
        let [listen, curl] = [0, 1].map(|at| told["try"][at].as_str().unwrap().to_owned());

        let mut receiver = Shell::run(&format!("{listen} --port 0"), here, &[]);
        let address = receiver.word_after("Listening on http://");
        receiver.shows("Signatures are checked.");
        let answer = post(&arguments(&curl.replace("127.0.0.1:8700", &address), here));
        assert!(answer.starts_with("HTTP/1.1 202 "), "{flags}: {answer}");
        receiver.shows("… · verified · invoice.paid · msg_… · attempt 1 · answered 200 · …");
    }
}

/// What a shell hands to `curl`, whether or not there is one here.
fn arguments(command: &str, here: &Path) -> Vec<String> {
    let said = Shell::run(&format!("curl() {{ printf '%s\\n' \"$@\"; }}\n{command}"), here, &[]).finish().1;
    said.lines().map(str::to_owned).collect()
}

/// As curl does with them.
fn post(arguments: &[String]) -> String {
    let [url, h, header, d, data] = arguments else { panic!("{arguments:?}") };
    assert_eq!([h, d], ["-H", "-d"]);
    let (address, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let length = data.len();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST /{path} HTTP/1.1\r\nhost: {address}\r\n{header}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n\
         {data}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
