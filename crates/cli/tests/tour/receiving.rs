//! The receivers in docs/receiving.md accept each delivery that Posthaste signs once, and refuse all others.

use std::fs;
use std::time::Duration;

use posthaste::domain::signature::{Secret, SigningKeys};
use posthaste::domain::{EventId, Timestamp};
use posthaste::engine::host_time;

use crate::child::{send_request, status_of};
use crate::document::{blocks, read};
use crate::shell::{Shell, is_installed};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const BODY: &str = "{\"name\": \"Zoë\", \"price\": 1.50}\n";

/// Returns the first block of the document in that language.
fn program(language: &str) -> String {
    let found = blocks(&read("docs/receiving.md")).into_iter().find(|block| block.language == language);
    found.unwrap_or_else(|| panic!("docs/receiving.md has no block in {language}")).text
}

/// Returns the headers of a delivery of [`BODY`] that is signed with these secrets.
fn signed_headers(id: &str, at: Timestamp, secrets: &[&str]) -> String {
    let keys =
        SigningKeys::new(secrets.iter().map(|secret| Secret::parse(secret).unwrap()).collect()).unwrap();
    let signature = keys.sign(&EventId::new(id).unwrap(), at, BODY.as_bytes());
    format!("webhook-id: {id}\r\nwebhook-timestamp: {}\r\nwebhook-signature: {signature}\r\n", at.as_secs())
}

/// Posts a delivery and returns the status of the response.
#[track_caller]
fn post(address: &str, headers: &str, body: &str) -> u16 {
    let request = format!(
        "POST / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    status_of(&send_request(address, &request))
}

/// Runs a receiver with both secrets of a rotation, and asserts which deliveries it accepts.
fn assert_receives(interpreter: &str, file: &str, program: &str) {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fs::write(directory.join(file), program.replace("8700", "0")).unwrap();
    let secrets = format!("{NEW_SECRET},{SECRET}");
    let command = format!("exec {interpreter} {file}");
    let mut receiver = Shell::run(&command, directory, &[("WEBHOOK_SECRETS", &secrets)]);
    let address = receiver.word_after("receiving on http://");
    let now = host_time();
    let other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    assert_eq!(post(&address, &signed_headers("msg_1", now, &[SECRET]), BODY), 204);
    assert_eq!(
        post(&address, &signed_headers("msg_1", now, &[SECRET]), BODY),
        204,
        "a repetition gets the same response"
    );
    assert_eq!(
        post(&address, &signed_headers("msg_2", now, &[other, NEW_SECRET]), BODY),
        204,
        "one matching signature is enough"
    );
    assert_eq!(post(&address, &signed_headers("msg_3", now, &[other]), BODY), 401, "another secret");
    assert_eq!(
        post(&address, &signed_headers("msg_4", now, &[SECRET]), &BODY.replace('1', "2")),
        401,
        "another body"
    );
    let renamed = signed_headers("msg_5", now, &[SECRET]).replace("msg_5", "msg_6");
    assert_eq!(post(&address, &renamed, BODY), 401, "another id");
    let old = Timestamp::from_secs(now.as_secs() - 400);
    assert_eq!(post(&address, &signed_headers("msg_7", old, &[SECRET]), BODY), 401, "an old timestamp");
    let early = now.after(Duration::from_secs(400));
    assert_eq!(
        post(&address, &signed_headers("msg_8", early, &[SECRET]), BODY),
        401,
        "a timestamp in the future"
    );
    for headers in ["", "webhook-id: a\r\nwebhook-timestamp: soon\r\nwebhook-signature: v1,\u{e9}\r\n"] {
        assert_eq!(post(&address, headers, BODY), 401, "{headers}");
    }
    assert_eq!(
        post(&address, &signed_headers("msg_9", now, &[SECRET]), BODY),
        204,
        "the receiver still runs"
    );

    let (_, printed) = receiver.terminate();
    let accepted: Vec<_> = printed.lines().filter_map(|line| line.strip_prefix("received ")).collect();
    let ids: Vec<_> = accepted.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(ids, ["msg_1", "msg_2", "msg_9"], "{printed}");
    assert!(accepted.iter().all(|line| line.ends_with(BODY.trim_end())), "{printed}");
}

#[test]
fn the_python_receiver_accepts_each_signed_delivery_once() {
    assert_receives("python3", "receiver.py", &program("python"));
}

/// Runs only where Node is installed; Posthaste itself does not need it.
#[test]
fn the_node_receiver_accepts_each_signed_delivery_once() {
    if is_installed("node") {
        assert_receives("node", "receiver.mjs", &program("js"));
    }
}

/// Runs only where Ruby is installed.
#[test]
fn the_ruby_check_agrees_with_the_test_vector() {
    if !is_installed("ruby") {
        return;
    }
    let checks = format!(
        r#"
headers = {{
  "webhook-id" => "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp" => "1614265330",
  "webhook-signature" => "v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
}}
body = '{{"test": 2432232314}}'
now = 1614265330
abort "the test vector" unless verified?(headers, body, ["{NEW_SECRET}", "{SECRET}"], now: now + 299)
abort "another secret" if verified?(headers, body, ["{NEW_SECRET}"], now: now)
abort "another body" if verified?(headers, body + " ", ["{SECRET}"], now: now)
abort "an old timestamp" if verified?(headers, body, ["{SECRET}"], now: now + 301)
abort "no headers" if verified?({{}}, body, ["{SECRET}"], now: now)
puts "agreed"
"#
    );
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("check.rb"), program("ruby") + &checks).unwrap();
    let (status, printed) = Shell::run("exec ruby check.rb", directory.path(), &[]).finish();
    assert!(status.success() && printed == "agreed", "{printed}");
}

/// Readers test their own code with this vector.
#[test]
fn the_test_vector_of_the_document_is_correct() {
    let document = read("docs/receiving.md");
    let keys = SigningKeys::new(vec![Secret::parse(SECRET).unwrap()]).unwrap();
    let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    let body = r#"{"test": 2432232314}"#;
    let at = Timestamp::from_secs(1_614_265_330);
    let signature = keys.sign(&EventId::new(id).unwrap(), at, body.as_bytes());
    for part in [SECRET, id, "1614265330", body, &signature] {
        assert!(document.contains(&format!("`{part}`")), "{part}");
    }
}
