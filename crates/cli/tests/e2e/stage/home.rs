//! Where processes of one test live: a directory and a database that nobody else has, and an environment of their own.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use posthaste_postgres_server::PostgresServer;
use tempfile::TempDir;

use super::output::DATABASE_PASSWORD;
use super::process::{Ended, Process};
use super::service::Service;
use super::watched::PATIENCE;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    Sqlite,
    Postgres,
}

/// What deliveries are signed with, unless a home is told otherwise.
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

pub(crate) struct Home {
    pub(crate) store: Store,
    directory: TempDir,
    environment: Vec<(String, String)>,
    /// The database's name on its server.
    database: Option<(&'static PostgresServer, String)>,
}

impl Home {
    /// With a database that is up to date, or will be at once.
    pub(crate) fn on(store: Store) -> Self {
        match store {
            Store::Sqlite => Self::without_database(store),
            Store::Postgres => {
                let server = PostgresServer::shared();
                Self::without_database(store)
                    .on_database(server, &server.create_database_from(template()).name)
            }
        }
    }

    /// With an empty database.
    pub(crate) fn on_empty(store: Store) -> Self {
        match store {
            Store::Sqlite => Self::without_database(store),
            Store::Postgres => Self::on_server(PostgresServer::shared()),
        }
    }

    /// With an empty database on a server that is the test's own.
    pub(crate) fn on_server(server: &'static PostgresServer) -> Self {
        Self::without_database(Store::Postgres).on_database(server, &server.create_database("e2e").name)
    }

    fn without_database(store: Store) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let environment = vec![];
        Self { store, directory, environment, database: None }
            .with("POSTHASTE_LISTEN", "127.0.0.1:0")
            .with("POSTHASTE_DATABASE_URL", "sqlite://outbox.db")
            .with("POSTHASTE_SIGNING_SECRET", SECRET)
            .with("POSTHASTE_POLL_INTERVAL_MS", "100")
            // The most that anyone would have logged: nothing may show in it either.
            .with("POSTHASTE_LOG", "debug")
    }

    fn on_database(self, server: &'static PostgresServer, name: &str) -> Self {
        let url = server.url(name).replace("postgres@", &format!("postgres:{DATABASE_PASSWORD}@"));
        let home = self.with("POSTHASTE_DATABASE_URL", &url);
        Self { database: Some((server, name.to_owned())), ..home }
    }

    /// Sets a variable of the environment for processes that start from now on.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.set(name, value);
        self
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.unset(name);
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn unset(&mut self, name: &str) {
        self.environment.retain(|(known, _)| known != name);
    }

    /// Retries after 1, 2, 4… seconds, exactly.
    #[must_use]
    pub(crate) fn with_fast_retries(self) -> Self {
        self.with("POSTHASTE_ALLOW_FAST_RETRIES", "true")
            .with("BASE_RETRY_DELAY", "1")
            .with("PAYMENT_REQUEST_WEBHOOK_RETRY_JITTER_BPS", "0")
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        command.args(arguments).env_clear().current_dir(self.directory.path());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command to its end.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).end()
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Process {
        Process::start(&mut self.command(arguments))
    }

    /// Starts `posthaste serve`, and returns when it answers.
    #[track_caller]
    pub(crate) fn serve(&self) -> Service {
        self.serve_with(&[])
    }

    #[track_caller]
    pub(crate) fn serve_with(&self, flags: &[&str]) -> Service {
        Service::start(self.start(&[&["serve"], flags].concat()))
    }

    /// As [`Self::serve_with`], and none of its files may become larger than so many blocks.
    #[track_caller]
    pub(crate) fn serve_within(&self, blocks: u32, flags: &[&str]) -> Service {
        let posthaste = self.command(&[&["serve"], flags].concat());
        let mut shell = Command::new("/bin/sh");
        let limited = format!("trap '' XFSZ; ulimit -S -f {blocks}; exec \"$@\"");
        shell.args(["-c", &limited, "sh"]).arg(posthaste.get_program()).args(posthaste.get_args());
        shell.env_clear().current_dir(self.directory.path());
        shell.envs(self.environment.iter().map(|(name, value)| (name, value)));
        Service::start(Process::start(&mut shell))
    }

    /// Starts `posthaste worker`, and returns when it delivers.
    #[track_caller]
    pub(crate) fn worker(&self) -> Process {
        let process = self.start(&["worker"]);
        process.logged("delivering", 1);
        process
    }

    /// A file that processes find in their working directory under this name.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Whether anything has been made here.
    pub(crate) fn is_untouched(&self) -> bool {
        std::fs::read_dir(self.directory.path()).unwrap().next().is_none()
    }

    /// How often an event was claimed, from the store itself: nobody else tells.
    pub(crate) fn claims(&self, event_id: &str) -> usize {
        self.sql(&format!("SELECT claims FROM webhook_outbox_events WHERE event_id = '{event_id}'"))
            .parse()
            .unwrap()
    }

    /// Runs SQL beside the processes, and returns the value that it selects, as text.
    pub(crate) fn sql(&self, sql: &str) -> String {
        match &self.database {
            Some((server, name)) => server.psql(name, &format!("SET search_path TO app; {sql};")).unwrap(),
            None => {
                let file = rusqlite::Connection::open(self.directory.path().join("outbox.db")).unwrap();
                file.busy_timeout(PATIENCE).unwrap();
                if !sql.starts_with("SELECT") {
                    file.execute_batch(sql).unwrap();
                    return String::new();
                }
                let value = file.query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0)).unwrap();
                match value {
                    rusqlite::types::Value::Text(text) => text,
                    rusqlite::types::Value::Integer(number) => number.to_string(),
                    other => panic!("{sql} is no text and no number: {other:?}"),
                }
            }
        }
    }
}

/// A database that the binary has brought up to date; each home gets a copy.
fn template() -> &'static str {
    static TEMPLATE: OnceLock<String> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let home = Home::on_empty(Store::Postgres);
        let migrated = home.run(&["migrate"]);
        assert_eq!(migrated.code, Some(0), "{}", migrated.stderr);
        home.database.unwrap().1
    })
}
