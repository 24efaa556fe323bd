//! Numbers that are written twice agree: how long a process may take to stop, and what it is built with.

use crate::files::{File, below, entries, read, shipped, yaml};

/// What a worker gets to finish unless it is configured, as the table of settings says.
fn shutdown_seconds() -> i64 {
    let source: String = below("crates/config/src").into_iter().map(|file| file.text).collect();
    let setting =
        source.split("name: \"shutdown_seconds\"").nth(1).and_then(|rest| rest.split("..PLAIN").next());
    let default = setting.and_then(|setting| setting.split("Fallback::Text(\"").nth(1));
    let default = default.and_then(|rest| rest.split('"').next()).and_then(|text| text.parse().ok());
    default.expect(
        "the setting shutdown_seconds and its default are in crates/config/src; if they are declared \
         otherwise now, teach this test to read them",
    )
}

/// What comes after that: the store is closed, and the last traces are sent meanwhile.
const CLOSING_SECONDS: i64 = 10;

/// How long each file waits before it kills a process of ours, in seconds.
fn waits(file: &File) -> Vec<i64> {
    let seconds = |text: &str| text.trim_end_matches('s').parse().ok();
    let unit = file.text.lines().filter_map(|line| line.strip_prefix("TimeoutStopSec=")).filter_map(seconds);
    let documents = if file.is_yaml() { yaml(file).unwrap_or_default() } else { vec![] };
    let given = documents.iter().flat_map(entries);
    let manifests = given.filter_map(|(key, value)| match key {
        "terminationGracePeriodSeconds" => value.as_i64(),
        "stop_grace_period" => value.as_str().and_then(seconds),
        _ => None,
    });
    unit.chain(manifests).collect()
}

#[test]
fn nobody_kills_a_worker_before_it_had_its_time_to_finish() {
    let stopping = shutdown_seconds() + CLOSING_SECONDS;
    let mut files = 0;
    for file in shipped() {
        let waits = waits(&file);
        files += usize::from(!waits.is_empty());
        assert!(
            waits.iter().all(|wait| *wait > stopping),
            "{}: waits {waits:?} s, and a process takes up to {stopping} s to stop",
            file.path
        );
    }
    assert!(files >= 4, "the unit, the compose file and both deployments say how long they wait: {files}");
}

#[test]
fn the_image_is_built_with_the_rust_of_the_workspace() {
    let manifest = read("Cargo.toml");
    let version = manifest.split("rust-version = \"").nth(1).and_then(|rest| rest.split('"').next());
    let version = version.expect("the workspace has a rust-version");
    assert!(
        read("deploy/Dockerfile").contains(&format!("FROM rust:{version}-")),
        "deploy/Dockerfile: rust:{version}-…"
    );
}

#[test]
fn a_wait_in_any_of_its_forms_is_read() {
    let waits = |path: &str, text: &str| waits(&File { path: path.to_owned(), text: text.to_owned() });
    assert_eq!(waits("a.service", "[Service]\nTimeoutStopSec=20s\n"), [20]);
    assert_eq!(
        waits("a.yaml", "spec: {terminationGracePeriodSeconds: 10}\n---\nstop_grace_period: 5s\n"),
        [10, 5]
    );
}
