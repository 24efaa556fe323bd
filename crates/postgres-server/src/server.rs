//! One server: its directory, its port, and its being up or down.

use std::collections::hash_map::RandomState;
use std::fmt::Write as _;
use std::hash::BuildHasher as _;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{fs, iter};

use crate::command::{Account, CommandError, run};
use crate::install::Install;
use crate::supervisor::Supervisor;

/// Settings for tests. What a test committed outlives a crash of the server, though not one of the machine.
pub const FOR_TESTS: &[(&str, &str)] = &[
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("shared_buffers", "64MB"),
    ("max_connections", "300"),
    ("max_wal_size", "256MB"),
];

/// Settings that name a file. The server gets a copy of it that it may read and, of a key, nobody else.
const FILE_SETTINGS: [&str; 4] = ["ssl_cert_file", "ssl_key_file", "ssl_ca_file", "hba_file"];

/// A server's port lies below those that the kernel hands out to outgoing connections. A client that keeps dialling a
/// stopped server could otherwise be given the very port it dials, connect to itself, and so keep the server out.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Another process may take a port between our looking and the server's binding it.
const PORTS_TRIED_MAX: usize = 5;

const START_SECONDS_MAX: &str = "60";

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

/// How a server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// Once every client has gone.
    Smart,
    /// Cleanly; transactions are rolled back and clients cut off.
    Fast,
    /// As in a crash: recovery runs at the next start.
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

/// A running server, stopped and removed when dropped or when the process ends.
#[derive(Debug)]
pub struct PostgresServer {
    pub(crate) account: Account,
    directory: PathBuf,
    port: u16,
    version: String,
    _supervisor: Supervisor,
}

impl PostgresServer {
    /// A new server with PostgreSQL's own settings except for those given.
    pub fn start(settings: &[(&str, &str)]) -> Result<Self, StartError> {
        Self::start_on(settings, |account, data| {
            let mut initdb = account.postgres_command("initdb");
            initdb.args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync", "-D"]);
            run("initdb", initdb.arg(data))?;
            Ok(())
        })
    }

    /// The server that the tests of one process share; started when first asked for.
    ///
    /// # Panics
    /// Where there is no server there is nothing to test.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(FOR_TESTS).unwrap_or_else(|error| panic!("{error}")))
    }

    /// A server on the data directory that `fill` makes.
    pub(crate) fn start_on(
        settings: &[(&str, &str)],
        fill: impl FnOnce(&Account, &Path) -> Result<(), StartError>,
    ) -> Result<Self, StartError> {
        let install = Install::find().ok_or(StartError::NotInstalled)?;
        let directory = tempfile::Builder::new()
            .prefix("posthaste-postgres-")
            .tempdir()
            .map_err(|reason| files("a temporary directory", reason))?;
        let metadata = fs::metadata(&directory).map_err(|reason| files("a temporary directory", reason))?;
        // Whoever made the directory just now is who we are.
        let account = Account::new(install, metadata.uid() == 0);
        account.own(directory.path())?;
        let supervisor = Supervisor::watch(&account, directory.path())?;
        // From here on it is the supervisor's to remove.
        let directory = directory.keep();

        let version = run("postgres", account.postgres_command("postgres").arg("--version"))?;
        let mut server = Self {
            account,
            directory,
            port: 0,
            version: version.split(' ').nth(2).unwrap_or_default().to_owned(),
            _supervisor: supervisor,
        };
        fill(&server.account, &server.data())?;
        server.configure(settings)?;
        server.start_on_a_free_port()?;
        Ok(server)
    }

    /// The later of two equal settings wins, so ours come before the caller's and after what `fill` brought.
    fn configure(&self, settings: &[(&str, &str)]) -> Result<(), StartError> {
        let mut lines = String::from("\n");
        let sockets = self.directory.display().to_string();
        let ours = [("listen_addresses", "127.0.0.1"), ("unix_socket_directories", &*sockets)];
        for (name, value) in ours.iter().chain(settings) {
            let value = if FILE_SETTINGS.contains(name) { self.copy_of(value)? } else { (*value).to_owned() };
            let _ = writeln!(lines, "{name} = '{}'", value.replace('\'', "''"));
        }
        self.append_settings(&lines)?;
        self.account.own(&self.directory)?;
        Ok(())
    }

    fn append_settings(&self, lines: &str) -> Result<(), StartError> {
        let path = self.data().join("postgresql.conf");
        fs::read_to_string(&path)
            .and_then(|before| fs::write(&path, before + lines))
            .map_err(|reason| files("postgresql.conf", reason))
    }

    fn copy_of(&self, file: &str) -> Result<String, StartError> {
        let name = Path::new(file).file_name().unwrap_or_default();
        let copy = self.directory.join(name);
        fs::copy(file, &copy)
            .and_then(|_| fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)))
            .map_err(|reason| files(file, reason))?;
        Ok(copy.display().to_string())
    }

    fn start_on_a_free_port(&mut self) -> Result<(), StartError> {
        let mut refused = None;
        for port in free_ports().take(PORTS_TRIED_MAX) {
            self.port = port;
            self.append_settings(&format!("port = {port}\n"))?;
            match self.start_again() {
                Err(StartError::NotStarted { reason, log }) if log.contains("Address already in use") => {
                    refused = Some(StartError::NotStarted { reason, log });
                }
                done => return done,
            }
        }
        Err(refused.unwrap_or_else(|| files("a free port", io::ErrorKind::AddrInUse.into())))
    }

    /// Starts a stopped server on its old port, and returns once it accepts connections.
    pub fn start_again(&self) -> Result<(), StartError> {
        let mut start = self.pg_ctl("start");
        start.arg("-l").arg(self.log()).args(["-w", "-t", START_SECONDS_MAX]);
        run("pg_ctl", &mut start).map(drop).map_err(|error| match error {
            CommandError::Failed { output, .. } => {
                StartError::NotStarted { reason: output, log: self.log_tail() }
            }
            not_run => not_run.into(),
        })
    }

    /// Returns once the server is down. Its data and its port stay.
    pub fn stop(&self, mode: StopMode) -> Result<(), CommandError> {
        let mut stop = self.pg_ctl("stop");
        run("pg_ctl", stop.args(["-m", mode.as_str(), "-w", "-t", START_SECONDS_MAX])).map(drop)
    }

    /// A clean stop that cuts clients off, then a start on the same port.
    pub fn restart(&self) -> Result<(), StartError> {
        self.stop(StopMode::Fast)?;
        self.start_again()
    }

    pub(crate) fn pg_ctl(&self, verb: &str) -> std::process::Command {
        let mut command = self.account.postgres_command("pg_ctl");
        command.arg(verb).arg("-D").arg(self.data()).current_dir("/");
        command
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// As in `15.8`.
    /// The server's first process, of which all its others are children; none while it is stopped.
    pub fn process_id(&self) -> Option<u32> {
        let file = fs::read_to_string(self.data().join("postmaster.pid")).ok()?;
        file.lines().next()?.trim().parse().ok()
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    /// Holds the data, the log and the socket; removed with the server.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// The last lines of the server's log.
    pub fn log_tail(&self) -> String {
        const LINES: usize = 30;
        let log = fs::read(self.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

/// Ports that nobody listens on now. Starts anywhere, so that processes that start servers at the same time do not all
/// try the same ports.
pub fn free_ports() -> impl Iterator<Item = u16> {
    let random = RandomState::new().hash_one(());
    let ports = u64::from(PORTS.end - PORTS.start);
    iter::successors(Some(random % ports), move |offset| Some((offset + 1) % ports))
        .take(PORTS.len())
        .filter_map(|offset| u16::try_from(u64::from(PORTS.start) + offset).ok())
        .filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
}

fn files(what: &str, reason: io::Error) -> StartError {
    StartError::Files { what: what.to_owned(), reason }
}
