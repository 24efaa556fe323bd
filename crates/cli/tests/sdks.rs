//! SDKs that others wrote for the API under `/api/v1`, each at its pinned version, on each store: a walk through the whole API,
//! with deliveries to a receiver that verifies them with the SDK's own verifier. `make need-sdks` installs the SDKs.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use posthaste_postgres_server::PostgresServer;
use support::{TestServer, posthaste, run_within};

/// The limit of one walk, which takes some seconds.
const TIMEOUT: Duration = Duration::from_secs(300);
const TOKEN_SECRET: &str = "a secret for the tokens of the walks";

#[derive(Clone, Copy)]
enum Store {
    Sqlite,
    Postgres,
}

/// Settings of the server, without its database. On PostgreSQL, it also sends the headers that older verifiers prefer.
fn settings(store: Store) -> Vec<(&'static str, String)> {
    let mut settings = vec![
        ("POSTHASTE_JWT_SECRET", TOKEN_SECRET.to_owned()),
        ("POSTHASTE_MASTER_KEYS", format!("k1:{}=", "A".repeat(43))),
    ];
    match store {
        Store::Sqlite => settings.push(("POSTHASTE_DATABASE_URL", "sqlite://walk.db".to_owned())),
        Store::Postgres => {
            let server = PostgresServer::shared();
            settings.push(("POSTHASTE_DATABASE_URL", server.url(&server.create_database("sdks").name)));
            settings.push(("POSTHASTE_COMPAT_HEADERS", "svix".to_owned()));
        }
    }
    settings
}

/// Returns the root of the repository.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Returns a file that `make need-sdks` installs.
#[track_caller]
fn installed(path: &str) -> PathBuf {
    let file = root().join("target/tools").join(path);
    assert!(file.exists(), "{path} is missing: `make need-sdks` installs the SDKs into target/tools");
    file
}

/// Starts a server, makes a token of its organisation, and runs a walk with the server's URL and the token as arguments.
#[track_caller]
fn walk(store: Store, program: &Path, before: &[&Path], after: &[&str]) {
    let settings = settings(store);
    let environment: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let server = TestServer::start(&["serve"], &environment);
    let mut token = posthaste(&["token"]);
    let made = run_within(TIMEOUT, token.envs(environment).current_dir(server.directory()));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let token = String::from_utf8(made.stdout).unwrap();
    let mut command = Command::new(program);
    command.args(before).args([server.url.trim_end_matches('/'), token.trim_end()]).args(after);
    command.stderr(std::process::Stdio::piped()).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = run_within(TIMEOUT, &mut command);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && stdout.contains("the walk is complete"), "{stdout}{stderr}");
    print!("{stdout}");
}

fn walk_in_python(store: Store, version: &str) {
    let python = installed(&format!("svix-python-{version}/bin/python"));
    walk(store, &python, &[&root().join("tests/sdks/python/walk.py")], &[version]);
}

fn walk_in_javascript(store: Store) {
    let modules = installed("svix-javascript/node_modules");
    let script = root().join("tests/sdks/javascript/walk.mjs");
    walk(store, Path::new("node"), &[&script], &[modules.to_str().unwrap()]);
}

fn walk_in_rust(store: Store) {
    walk(store, &installed("svix-rust/debug/sdk-walk"), &[], &[]);
}

#[test]
fn python_2_9_1_walks_the_api_on_sqlite() {
    walk_in_python(Store::Sqlite, "2.9.1");
}

#[test]
fn python_2_9_1_walks_the_api_on_postgres() {
    walk_in_python(Store::Postgres, "2.9.1");
}

#[test]
fn python_1_45_1_walks_the_api_on_sqlite() {
    walk_in_python(Store::Sqlite, "1.45.1");
}

#[test]
fn python_1_45_1_walks_the_api_on_postgres() {
    walk_in_python(Store::Postgres, "1.45.1");
}

#[test]
fn javascript_1_99_1_walks_the_api_on_sqlite() {
    walk_in_javascript(Store::Sqlite);
}

#[test]
fn javascript_1_99_1_walks_the_api_on_postgres() {
    walk_in_javascript(Store::Postgres);
}

#[test]
fn rust_2_9_1_walks_the_api_on_sqlite() {
    walk_in_rust(Store::Sqlite);
}

#[test]
fn rust_2_9_1_walks_the_api_on_postgres() {
    walk_in_rust(Store::Postgres);
}
