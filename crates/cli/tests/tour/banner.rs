//! The commands of the server's banner, pasted into another terminal, deliver an event.

use std::path::Path;

use serde_json::Value;

use crate::child::send_request;
use crate::shell::Shell;

#[test]
fn the_commands_of_the_banner_work_with_every_way_to_configure_the_database() {
    for flags in ["", "--config 'my own.toml'", "--database-url sqlite://other.db"] {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path();
        std::fs::write(here.join("my own.toml"), "database_url = \"sqlite://mine.db\"\n").unwrap();
        let free_port = [("POSTHASTE_LISTEN", "127.0.0.1:0")];
        let mut server = Shell::run(&format!("posthaste serve {flags}"), here, &free_port);
        let banner: Value = serde_json::from_str(&server.wait_for_line("\"try\"")).unwrap();
        let [listen, curl] = [0, 1].map(|at| banner["try"][at].as_str().unwrap().to_owned());

        let mut receiver = Shell::run(&format!("{listen} --port 0"), here, &[]);
        let address = receiver.word_after("Listening on http://");
        receiver.expect_lines("Signatures are checked.");
        let response = post(&curl_arguments(&curl.replace("127.0.0.1:8700", &address), here));
        assert!(response.starts_with("HTTP/1.1 202 "), "{flags}: {response}");
        receiver.expect_lines("… · verified · invoice.paid · msg_… · attempt 1 · responded 200 · …");
    }
}

/// Returns the arguments that a shell passes to `curl`, which need not be installed.
fn curl_arguments(command: &str, here: &Path) -> Vec<String> {
    let curl_function = "curl() { printf '%s\\n' \"$@\"; }";
    let (_, printed) = Shell::run(&format!("{curl_function}\n{command}"), here, &[]).finish();
    printed.lines().map(str::to_owned).collect()
}

/// Sends the request that curl would send with these arguments.
fn post(arguments: &[String]) -> String {
    let [url, h, header, d, data] = arguments else { panic!("{arguments:?}") };
    assert_eq!([h, d], ["-H", "-d"]);
    let (address, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let length = data.len();
    let request = format!(
        "POST /{path} HTTP/1.1\r\nhost: {address}\r\n{header}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n\
         {data}"
    );
    send_request(address, &request)
}
