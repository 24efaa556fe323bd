//! The programs in docs/notices.md receive every notice, and resume where they were after a restart.

use std::fs;
use std::path::Path;

use posthaste_postgres_server::PostgresServer;
use tempfile::TempDir;

use crate::document::{blocks, read};
use crate::shell::{Shell, is_installed};

/// Sends an event to a port on which no program listens.
const SEND: &str = "posthaste send --url http://127.0.0.1:1/ --type t --data '{}'";

/// Returns the blocks of the document in that language.
fn programs(language: &str) -> Vec<String> {
    let blocks = blocks(&read("docs/notices.md")).into_iter();
    blocks.filter(|block| block.language == language).map(|block| block.text).collect()
}

/// A service with a database of its own, without retries.
struct Service {
    /// The first field, so that the shell is killed before its directory is deleted.
    _shell: Shell,
    directory: TempDir,
    url: String,
}

impl Service {
    fn start(database_url: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let environment = [("POSTHASTE_LISTEN", "127.0.0.1:0"), ("POSTHASTE_DATABASE_URL", database_url)];
        let mut shell =
            Shell::run("exec posthaste serve --max-retry-attempts 0", directory.path(), &environment);
        let url = format!("http://{}", shell.word_after("listens on http://"));
        Self { _shell: shell, directory, url }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Runs a program of the document. Its environment names the service.
    fn run(&self, command: &str, environment: &[(&str, &str)]) -> Shell {
        let mut environment = environment.to_vec();
        environment.push(("POSTHASTE_SERVER", &self.url));
        Shell::run(command, self.path(), &environment)
    }

    #[track_caller]
    fn run_to_end(&self, command: &str) {
        let (status, printed) = self.run(command, &[]).finish();
        assert!(status.success(), "{command}: {printed}");
    }

    /// Sends an event that fails at its only attempt.
    #[track_caller]
    fn dead_letter(&self, id: &str) {
        self.run_to_end(&format!("{SEND} --event-id {id} --wait || true"));
    }

    /// Sends an event and cancels it before its retry is due.
    #[track_caller]
    fn cancelled_event(&self, id: &str) {
        self.run_to_end(&format!("{SEND} --event-id {id} --max-attempts 2 && posthaste events cancel {id}"));
    }
}

/// Runs a follower of the stream, restarts it, and asserts that it prints each dead letter once and no cancelled event.
fn assert_follows(interpreter: &str, file: &str, program: &str) {
    let service = Service::start("sqlite://posthaste.db");
    fs::write(service.path().join(file), program).unwrap();
    let command = format!("exec {interpreter} {file}");

    let mut follower = service.run(&command, &[]);
    follower.wait_for_line("following");
    service.dead_letter("invoice-1");
    assert_eq!(follower.wait_for_line("dead letter"), "dead letter: invoice-1 exhausted");
    follower.terminate();

    service.cancelled_event("invoice-2");
    service.dead_letter("invoice-3");
    let mut follower = service.run(&command, &[]);
    assert_eq!(follower.wait_for_line("dead letter"), "dead letter: invoice-3 exhausted");
    service.dead_letter("invoice-4");
    assert_eq!(follower.wait_for_line("dead letter"), "dead letter: invoice-4 exhausted");
}

#[test]
fn the_python_follower_resumes_and_misses_no_notice() {
    assert_follows("python3", "follow.py", &programs("python")[0]);
}

/// Runs only where Node is installed; Posthaste itself does not need it.
#[test]
fn the_node_follower_resumes_and_misses_no_notice() {
    if is_installed("node") {
        assert_follows("node", "follow.mjs", &programs("js")[0]);
    }
}

#[test]
fn the_python_listener_receives_notices_from_postgresql() {
    let database = PostgresServer::shared().create_database("notices_document");
    let service = Service::start(&database.url);
    fs::write(service.path().join("listen.py"), &programs("python")[1]).unwrap();
    let mut listener = service.run("exec /usr/bin/python3 listen.py", &[("DATABASE_URL", &database.url)]);
    listener.wait_for_line("listening");
    service.dead_letter("invoice-1");
    assert_eq!(listener.wait_for_line("invoice-1"), "WebhookDLQEvent invoice-1 exhausted");
}
