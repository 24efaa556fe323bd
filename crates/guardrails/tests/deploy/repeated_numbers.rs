//! Rules about numbers that `deploy/` repeats: the time a process may take to stop, and the Rust version.

use crate::files::{File, deploy_files, entries, parse_yaml, read};
use crate::settings::{REFERENCE, setting_rows};

/// Returns the default time that requests in flight may take to finish after a stop signal.
fn shutdown_seconds() -> i64 {
    let reference = read(REFERENCE);
    let row = setting_rows(&reference).into_iter().find(|[name, ..]| *name == "`shutdown_seconds`");
    let default = row.and_then(|[_, _, _, default, _]| default.parse().ok());
    default.expect("the reference lists shutdown_seconds with its default")
}

/// Time after the shutdown period in which the process closes the store and sends the last traces.
const CLOSING_SECONDS: i64 = 10;

/// Returns the stop timeouts in a deployment file: the seconds from the stop signal until the process is killed.
fn stop_timeouts(file: &File) -> Vec<i64> {
    let seconds = |text: &str| text.trim_end_matches('s').parse().ok();
    let unit = file.text.lines().filter_map(|line| line.strip_prefix("TimeoutStopSec=")).filter_map(seconds);
    let documents = if file.is_yaml() { parse_yaml(file).unwrap_or_default() } else { vec![] };
    let entries = documents.iter().flat_map(entries);
    let manifests = entries.filter_map(|(key, value)| match key {
        "terminationGracePeriodSeconds" => value.as_i64(),
        "stop_grace_period" => value.as_str().and_then(seconds),
        _ => None,
    });
    unit.chain(manifests).collect()
}

#[test]
fn stop_timeouts_exceed_the_shutdown_period() {
    let needed = shutdown_seconds() + CLOSING_SECONDS;
    let mut files = 0;
    for file in deploy_files() {
        let timeouts = stop_timeouts(&file);
        files += usize::from(!timeouts.is_empty());
        assert!(
            timeouts.iter().all(|timeout| *timeout > needed),
            "{}: the stop timeouts are {timeouts:?} s, but a process needs up to {needed} s to stop",
            file.path
        );
    }
    assert!(
        files >= 4,
        "expected a stop timeout in the unit, the compose file and both deployments; {files} files have one"
    );
}

#[test]
fn image_is_built_with_the_rust_version_of_the_workspace() {
    let manifest = read("Cargo.toml");
    let version = manifest.split("rust-version = \"").nth(1).and_then(|rest| rest.split('"').next());
    let version = version.expect("the workspace has a rust-version");
    assert!(
        read("deploy/Dockerfile").contains(&format!("FROM rust:{version}-")),
        "deploy/Dockerfile must build from rust:{version}-…"
    );
}

#[test]
fn stop_timeouts_are_read_in_each_form() {
    let timeouts =
        |path: &str, text: &str| stop_timeouts(&File { path: path.to_owned(), text: text.to_owned() });
    assert_eq!(timeouts("a.service", "[Service]\nTimeoutStopSec=20s\n"), [20]);
    assert_eq!(
        timeouts("a.yaml", "spec: {terminationGracePeriodSeconds: 10}\n---\nstop_grace_period: 5s\n"),
        [10, 5]
    );
}
