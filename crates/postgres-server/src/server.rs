//! A server: its directory, its port, and how it starts and stops.

use std::collections::hash_map::RandomState;
use std::fmt::Write as _;
use std::hash::BuildHasher as _;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{fs, iter};

use crate::command::{CommandError, CommandRunner, run};
use crate::install::Install;
use crate::supervisor::Supervisor;

/// Fast settings for tests. Commits survive a crash of the server, but not one of the machine.
pub const TEST_SETTINGS: &[(&str, &str)] = &[
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("shared_buffers", "64MB"),
    ("max_connections", "300"),
    ("max_wal_size", "256MB"),
];

/// Settings that name a file. The server gets a copy with mode 0600, as PostgreSQL requires of key files.
const FILE_SETTINGS: [&str; 4] = ["ssl_cert_file", "ssl_key_file", "ssl_ca_file", "hba_file"];

/// Ports of servers, below the kernel's ephemeral ports. A client that keeps connecting to a stopped server could
/// otherwise get that very port as its own, connect to itself, and block the server's port.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// How many ports are tried: another process may bind a port between our check and the server's start.
const PORTS_TRIED_MAX: usize = 5;

/// Timeout of `pg_ctl start` and `pg_ctl stop`.
const PG_CTL_TIMEOUT_SECONDS: &str = "60";

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(
        "PostgreSQL is not installed: neither PATH nor /usr/lib/postgresql/*/bin has it; run `apt-get install postgresql`"
    )]
    NotInstalled,
    #[error("{what} could not be prepared: {reason}")]
    Files { what: String, reason: io::Error },
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error("the server did not start: {reason}\nthe end of its log:\n{log}")]
    NotStarted { reason: String, log: String },
}

/// How a server is stopped, as in `pg_ctl stop -m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// Waits until every client has disconnected.
    Smart,
    /// Rolls back open transactions, disconnects clients and shuts down cleanly.
    Fast,
    /// Stops like a crash: recovery runs at the next start.
    Immediate,
}

impl StopMode {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Smart => "smart",
            Self::Fast => "fast",
            Self::Immediate => "immediate",
        }
    }
}

/// A private server. It is stopped and removed when this value is dropped or the process ends.
#[derive(Debug)]
pub struct PostgresServer {
    pub(crate) runner: CommandRunner,
    directory: PathBuf,
    port: u16,
    version: String,
    _supervisor: Supervisor,
}

impl PostgresServer {
    /// Starts a new server with PostgreSQL's default settings, overridden by `settings`.
    pub fn start(settings: &[(&str, &str)]) -> Result<Self, StartError> {
        Self::start_with_data(settings, |runner, data| {
            let mut initdb = runner.postgres_command("initdb");
            initdb.args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync", "-D"]);
            run("initdb", initdb.arg(data))?;
            Ok(())
        })
    }

    /// Returns the server that all tests of the process share. The first call starts it.
    ///
    /// # Panics
    /// If the server cannot be started.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(TEST_SETTINGS).unwrap_or_else(|error| panic!("{error}")))
    }

    /// Starts a server on the data directory that `create_data` creates.
    pub(crate) fn start_with_data(
        settings: &[(&str, &str)],
        create_data: impl FnOnce(&CommandRunner, &Path) -> Result<(), StartError>,
    ) -> Result<Self, StartError> {
        let install = Install::find().ok_or(StartError::NotInstalled)?;
        let directory = tempfile::Builder::new()
            .prefix("posthaste-postgres-")
            .tempdir()
            .map_err(|reason| file_error("a temporary directory", reason))?;
        let metadata =
            fs::metadata(&directory).map_err(|reason| file_error("a temporary directory", reason))?;
        // This process has just created the directory, so the directory's owner is the current user.
        let runner = CommandRunner::new(install, metadata.uid() == 0);
        runner.change_owner(directory.path())?;
        let supervisor = Supervisor::start(&runner, directory.path())?;
        // From here on the supervisor removes the directory.
        let directory = directory.keep();

        let version = run("postgres", runner.postgres_command("postgres").arg("--version"))?;
        let mut server = Self {
            runner,
            directory,
            port: 0,
            version: version.split(' ').nth(2).unwrap_or_default().to_owned(),
            _supervisor: supervisor,
        };
        create_data(&server.runner, &server.data())?;
        server.configure(settings)?;
        server.start_on_a_free_port()?;
        Ok(server)
    }

    /// Appends settings to postgresql.conf. A later setting overrides an earlier one, so the caller's come last.
    fn configure(&self, settings: &[(&str, &str)]) -> Result<(), StartError> {
        let mut lines = String::from("\n");
        let sockets = self.directory.display().to_string();
        let ours = [("listen_addresses", "127.0.0.1"), ("unix_socket_directories", &*sockets)];
        for (name, value) in ours.iter().chain(settings) {
            let value =
                if FILE_SETTINGS.contains(name) { self.copy_file(value)? } else { (*value).to_owned() };
            let _ = writeln!(lines, "{name} = '{}'", value.replace('\'', "''"));
        }
        self.append_settings(&lines)?;
        self.runner.change_owner(&self.directory)?;
        Ok(())
    }

    fn append_settings(&self, lines: &str) -> Result<(), StartError> {
        let path = self.data().join("postgresql.conf");
        fs::read_to_string(&path)
            .and_then(|before| fs::write(&path, before + lines))
            .map_err(|reason| file_error("postgresql.conf", reason))
    }

    /// Copies a file into the server's directory and returns the path of the copy.
    fn copy_file(&self, file: &str) -> Result<String, StartError> {
        let name = Path::new(file).file_name().unwrap_or_default();
        let copy = self.directory.join(name);
        fs::copy(file, &copy)
            .and_then(|_| fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)))
            .map_err(|reason| file_error(file, reason))?;
        Ok(copy.display().to_string())
    }

    fn start_on_a_free_port(&mut self) -> Result<(), StartError> {
        let mut bind_error = None;
        for port in free_ports().take(PORTS_TRIED_MAX) {
            self.port = port;
            self.append_settings(&format!("port = {port}\n"))?;
            match self.start_again() {
                Err(StartError::NotStarted { reason, log }) if log.contains("Address already in use") => {
                    bind_error = Some(StartError::NotStarted { reason, log });
                }
                result => return result,
            }
        }
        Err(bind_error.unwrap_or_else(|| file_error("a free port", io::ErrorKind::AddrInUse.into())))
    }

    /// Starts a stopped server on the same port, and returns once it accepts connections.
    pub fn start_again(&self) -> Result<(), StartError> {
        let mut start = self.pg_ctl("start");
        start.arg("-l").arg(self.log()).args(["-w", "-t", PG_CTL_TIMEOUT_SECONDS]);
        run("pg_ctl", &mut start).map(drop).map_err(|error| match error {
            CommandError::Failed { output, .. } => {
                StartError::NotStarted { reason: output, log: self.log_tail() }
            }
            not_run => not_run.into(),
        })
    }

    /// Stops the server, and returns once it is down. It keeps its data and its port.
    pub fn stop(&self, mode: StopMode) -> Result<(), CommandError> {
        let mut stop = self.pg_ctl("stop");
        run("pg_ctl", stop.args(["-m", mode.as_str(), "-w", "-t", PG_CTL_TIMEOUT_SECONDS])).map(drop)
    }

    /// Stops the server cleanly, disconnecting clients, and starts it on the same port.
    pub fn restart(&self) -> Result<(), StartError> {
        self.stop(StopMode::Fast)?;
        self.start_again()
    }

    pub(crate) fn pg_ctl(&self, verb: &str) -> std::process::Command {
        let mut command = self.runner.postgres_command("pg_ctl");
        command.arg(verb).arg("-D").arg(self.data()).current_dir("/");
        command
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the id of the server's main process, the parent of all its backends; none while it is stopped.
    pub fn process_id(&self) -> Option<u32> {
        let file = fs::read_to_string(self.data().join("postmaster.pid")).ok()?;
        file.lines().next()?.trim().parse().ok()
    }

    /// Returns the version of PostgreSQL, such as `15.8`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the directory of the data, the log and the socket. It is removed with the server.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// Returns the last lines of the server's log.
    pub fn log_tail(&self) -> String {
        const LINES: usize = 30;
        let log = fs::read(self.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

/// Returns ports on which no process listens now, from a random start, so that processes that start servers at the same
/// time rarely try the same port.
pub fn free_ports() -> impl Iterator<Item = u16> {
    let random = RandomState::new().hash_one(());
    let ports = u64::from(PORTS.end - PORTS.start);
    iter::successors(Some(random % ports), move |offset| Some((offset + 1) % ports))
        .take(PORTS.len())
        .filter_map(|offset| u16::try_from(u64::from(PORTS.start) + offset).ok())
        .filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
}

fn file_error(what: &str, reason: io::Error) -> StartError {
    StartError::Files { what: what.to_owned(), reason }
}
