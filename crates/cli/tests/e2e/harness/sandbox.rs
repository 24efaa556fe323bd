//! A sandbox for the processes of one test: a directory, a database and environment variables.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use posthaste_postgres_server::PostgresServer;
use tempfile::TempDir;

use super::output::DATABASE_PASSWORD;
use super::process::{Process, ProcessExit};
use super::service::Service;
use super::wait::TIMEOUT;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    Sqlite,
    Postgres,
}

/// Signing secret of every sandbox, unless a test changes the variable.
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Working directory, database and environment that the processes of one test share. No other test uses them.
pub(crate) struct Sandbox {
    pub(crate) store: Store,
    directory: TempDir,
    environment: Vec<(String, String)>,
    /// PostgreSQL server, and the name of the database on it. None for SQLite.
    database: Option<(&'static PostgresServer, String)>,
}

impl Sandbox {
    /// Creates a sandbox with a migrated database. On SQLite, the first process creates the database.
    pub(crate) fn new(store: Store) -> Self {
        match store {
            Store::Sqlite => Self::without_database(store),
            Store::Postgres => {
                let server = PostgresServer::shared();
                Self::without_database(store)
                    .on_database(server, &server.create_database_from(template_database()).name)
            }
        }
    }

    /// Creates a sandbox with an empty database.
    pub(crate) fn with_empty_database(store: Store) -> Self {
        match store {
            Store::Sqlite => Self::without_database(store),
            Store::Postgres => Self::on_server(PostgresServer::shared()),
        }
    }

    /// Creates a sandbox with an empty database on this PostgreSQL server.
    pub(crate) fn on_server(server: &'static PostgresServer) -> Self {
        Self::without_database(Store::Postgres).on_database(server, &server.create_database("e2e").name)
    }

    fn without_database(store: Store) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let environment = vec![];
        Self { store, directory, environment, database: None }
            .with_env("POSTHASTE_LISTEN", "127.0.0.1:0")
            .with_env("POSTHASTE_DATABASE_URL", "sqlite://outbox.db")
            .with_env("POSTHASTE_SIGNING_SECRET", SECRET)
            .with_env("POSTHASTE_POLL_INTERVAL_MS", "100")
            // The most verbose level that operators use: it must show no payload and no secret either.
            .with_env("POSTHASTE_LOG", "debug")
    }

    fn on_database(self, server: &'static PostgresServer, name: &str) -> Self {
        let url = server.url(name).replace("postgres@", &format!("postgres:{DATABASE_PASSWORD}@"));
        let sandbox = self.with_env("POSTHASTE_DATABASE_URL", &url);
        Self { database: Some((server, name.to_owned())), ..sandbox }
    }

    /// Lets processes that start later connect as a role of their own, which owns nothing and has the rights that it needs.
    /// Returns the sandbox and the name of the role. Only for PostgreSQL.
    pub(crate) fn with_limited_role(mut self) -> (Self, String) {
        let (server, name) = self.database.clone().expect("a sandbox on PostgreSQL");
        let role = format!("limited_{name}");
        self.sql(&format!(
            "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA app TO {role};
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA app TO {role};
             GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA app TO {role}"
        ));
        let url = server.url(&name).replace("postgres@", &format!("{role}:{DATABASE_PASSWORD}@"));
        self.set_env("POSTHASTE_DATABASE_URL", &url);
        (self, role)
    }

    /// Sets an environment variable for processes that start later.
    #[must_use]
    pub(crate) fn with_env(mut self, name: &str, value: &str) -> Self {
        self.set_env(name, value);
        self
    }

    /// Sets an environment variable for processes that start later.
    pub(crate) fn set_env(&mut self, name: &str, value: &str) {
        self.remove_env(name);
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn remove_env(&mut self, name: &str) {
        self.environment.retain(|(existing, _)| existing != name);
    }

    /// Sets the retry delays to exactly 1, 2, 4… seconds.
    #[must_use]
    pub(crate) fn with_fast_retries(self) -> Self {
        self.with_env("POSTHASTE_ALLOW_FAST_RETRIES", "true")
            .with_env("BASE_RETRY_DELAY", "1")
            .with_env("PAYMENT_REQUEST_WEBHOOK_RETRY_JITTER_BPS", "0")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        command.args(arguments).env_clear().current_dir(self.directory.path());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command to its end.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> ProcessExit {
        self.start(arguments).wait_for_exit()
    }

    /// Starts a command.
    pub(crate) fn start(&self, arguments: &[&str]) -> Process {
        Process::start(&mut self.command(arguments))
    }

    /// Starts `posthaste serve`. Returns when it listens.
    #[track_caller]
    pub(crate) fn serve(&self) -> Service {
        self.serve_with(&[])
    }

    /// Starts `posthaste serve` with these flags. Returns when it listens.
    #[track_caller]
    pub(crate) fn serve_with(&self, flags: &[&str]) -> Service {
        Service::start(self.start(&[&["serve"], flags].concat()))
    }

    /// Starts `posthaste serve` with a limit on the size of its files, in blocks of 512 bytes. Returns when it listens.
    #[track_caller]
    pub(crate) fn serve_with_file_limit(&self, blocks: u32, flags: &[&str]) -> Service {
        self.serve_after(&format!("trap '' XFSZ; ulimit -S -f {blocks}"), flags)
    }

    /// Starts `posthaste serve` with a limit of open files. Returns when it listens.
    #[track_caller]
    pub(crate) fn serve_with_open_files_max(&self, files: u32) -> Service {
        self.serve_after(&format!("ulimit -n {files}"), &[])
    }

    /// Starts `posthaste serve` in a shell that has run these commands. Returns when it listens.
    #[track_caller]
    fn serve_after(&self, commands: &str, flags: &[&str]) -> Service {
        let posthaste = self.command(&[&["serve"], flags].concat());
        let mut shell = Command::new("/bin/sh");
        let script = format!("{commands}; exec \"$@\"");
        shell.args(["-c", &script, "sh"]).arg(posthaste.get_program()).args(posthaste.get_args());
        shell.env_clear().current_dir(self.directory.path());
        shell.envs(self.environment.iter().map(|(name, value)| (name, value)));
        Service::start(Process::start(&mut shell))
    }

    /// Starts `posthaste worker`. Returns when it delivers.
    #[track_caller]
    pub(crate) fn start_worker(&self) -> Process {
        let process = self.start(&["worker"]);
        process.wait_for_log("delivering", 1);
        process
    }

    /// Returns the path of a file in the working directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns whether the working directory has no files.
    pub(crate) fn has_no_files(&self) -> bool {
        std::fs::read_dir(self.directory.path()).unwrap().next().is_none()
    }

    /// Returns how often an event was claimed. Only the database has this number.
    pub(crate) fn count_claims(&self, event_id: &str) -> usize {
        self.sql(&format!("SELECT claims FROM webhook_outbox_events WHERE event_id = '{event_id}'"))
            .parse()
            .unwrap()
    }

    /// Runs SQL on the database from outside the processes. Returns the selected value as text.
    pub(crate) fn sql(&self, sql: &str) -> String {
        match &self.database {
            Some((server, name)) => {
                let timeout_ms = TIMEOUT.as_millis();
                let settings = format!("SET search_path TO app; SET statement_timeout TO {timeout_ms}");
                server.psql(name, &format!("{settings}; {sql};")).unwrap()
            }
            None => {
                let database = rusqlite::Connection::open(self.directory.path().join("outbox.db")).unwrap();
                database.busy_timeout(TIMEOUT).unwrap();
                if !sql.starts_with("SELECT") {
                    database.execute_batch(sql).unwrap();
                    return String::new();
                }
                let value =
                    database.query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0)).unwrap();
                match value {
                    rusqlite::types::Value::Text(text) => text,
                    rusqlite::types::Value::Integer(number) => number.to_string(),
                    other => panic!("{sql} returned neither text nor a number: {other:?}"),
                }
            }
        }
    }
}

/// Returns the name of a database that the binary has migrated. Each sandbox on PostgreSQL gets a copy of it.
fn template_database() -> &'static str {
    static TEMPLATE: OnceLock<String> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let sandbox = Sandbox::with_empty_database(Store::Postgres);
        let migrate = sandbox.run(&["migrate"]);
        assert_eq!(migrate.code, Some(0), "{}", migrate.stderr);
        sandbox.database.unwrap().1
    })
}
