//! The guarantees that a private server gives to tests.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use posthaste_postgres_server::{PostgresServer, StartError, StopMode, TEST_SETTINGS};

/// Queries a server until the result is as expected, for a minute at most.
#[expect(clippy::disallowed_methods, reason = "bounds a wait for a server, which runs in real time")]
fn wait_for_result(server: &PostgresServer, sql: &str, expected: &str) {
    let started = Instant::now();
    loop {
        let result = server.psql("postgres", sql).expect("the server answers queries");
        if result == expected {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{sql} still returns {result:?}");
    }
}

#[test]
fn a_shared_server_runs_queries() {
    let server = PostgresServer::shared();
    let database = server.create_database("queries");
    assert_eq!(server.psql(&database.name, "SELECT 1, 'two'; SELECT 3").unwrap(), "1|two\n3");
    assert_eq!(database.url, format!("postgres://postgres@127.0.0.1:{}/{}", server.port(), database.name));
    let version = server.psql(&database.name, "SHOW server_version").unwrap();
    assert!(version.starts_with(server.version()) && !server.version().is_empty(), "{version}");
}

#[test]
fn a_failing_statement_returns_its_error_and_skips_the_rest() {
    let server = PostgresServer::shared();
    let database = server.create_database("fails");
    let error = server
        .psql(&database.name, "CREATE TABLE kept (); SELECT * FROM absent; CREATE TABLE skipped ();")
        .unwrap_err();
    assert!(error.to_string().contains("relation \"absent\" does not exist"), "{error}");
    let tables = "SELECT relname FROM pg_class WHERE relname IN ('kept', 'skipped')";
    assert_eq!(server.psql(&database.name, tables).unwrap(), "kept");
}

#[test]
fn databases_with_the_same_name_hint_are_separate() {
    let server = PostgresServer::shared();
    let [first, second] = [(); 2].map(|()| server.create_database("twin"));
    assert_ne!(first, second);
    server.psql(&first.name, "CREATE TABLE only_here ()").unwrap();
    assert!(server.psql(&second.name, "SELECT * FROM only_here").is_err());
}

#[test]
fn a_database_created_from_another_contains_its_rows() {
    let server = PostgresServer::shared();
    let template = server.create_database("template");
    server.psql(&template.name, "CREATE TABLE things AS SELECT 7 AS thing").unwrap();
    let copy = server.create_database_from(&template.name);
    assert_eq!(server.psql(&copy.name, "SELECT thing FROM things").unwrap(), "7");
    server.drop_database(&copy.name).unwrap();
    assert!(server.psql(&copy.name, "SELECT 1").is_err());
}

#[test]
fn settings_are_applied_and_an_invalid_one_fails_with_the_server_log() {
    let server = PostgresServer::start(&[("work_mem", "7MB"), ("cluster_name", "it's mine")]).unwrap();
    let shown = server.psql("postgres", "SHOW work_mem; SHOW cluster_name; SHOW fsync").unwrap();
    assert_eq!(shown, "7MB\nit's mine\non");

    let error = PostgresServer::start(&[("no_such_setting", "1")]).unwrap_err();
    assert!(
        matches!(&error, StartError::NotStarted { log, .. } if log.contains("no_such_setting")),
        "{error}"
    );
}

#[test]
fn data_survives_a_restart_and_an_immediate_stop() {
    let server = PostgresServer::start(TEST_SETTINGS).unwrap();
    let port = server.port();
    server.psql("postgres", "CREATE TABLE kept AS SELECT 1 AS row").unwrap();
    server.restart().unwrap();
    server.psql("postgres", "INSERT INTO kept VALUES (2)").unwrap();
    server.stop(StopMode::Immediate).unwrap();
    assert!(server.psql("postgres", "SELECT 1").is_err());
    server.start_again().unwrap();
    assert_eq!(server.port(), port);
    assert_eq!(server.psql("postgres", "SELECT row FROM kept ORDER BY row").unwrap(), "1\n2");
}

#[test]
fn dropping_a_server_frees_its_port_and_removes_its_directory() {
    let server = PostgresServer::start(TEST_SETTINGS).unwrap();
    let (port, directory) = (server.port(), server.directory().to_owned());
    assert!(directory.exists());
    drop(server);
    assert!(!directory.exists());
    assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok());
}

#[test]
fn a_standby_replicates_and_accepts_writes_once_promoted() {
    let primary = PostgresServer::start(TEST_SETTINGS).unwrap();
    primary.psql("postgres", "CREATE TABLE followed AS SELECT 1 AS row").unwrap();
    let standby = primary.start_standby().unwrap();
    primary.psql("postgres", "INSERT INTO followed VALUES (2)").unwrap();
    wait_for_result(&standby, "SELECT row FROM followed ORDER BY row", "1\n2");
    assert!(standby.psql("postgres", "INSERT INTO followed VALUES (3)").is_err());

    primary.stop(StopMode::Immediate).unwrap();
    standby.promote().unwrap();
    standby.psql("postgres", "INSERT INTO followed VALUES (3)").unwrap();
    assert_eq!(standby.psql("postgres", "SELECT count(*) FROM followed").unwrap(), "3");
}

#[test]
fn a_server_with_tls_gets_private_copies_of_its_files() {
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).display().to_string();
    let (certificate, key) = (path("server.crt"), path("server.key"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-days", "1", "-subj", "/CN=localhost", "-out", &certificate, "-keyout", &key])
        .output()
        .expect("openssl is needed to make a certificate: apt-get install openssl");
    assert!(made.status.success(), "{made:?}");
    let server =
        PostgresServer::start(&[("ssl", "on"), ("ssl_cert_file", &certificate), ("ssl_key_file", &key)])
            .unwrap();
    let ssl = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert_eq!(server.psql("postgres?sslmode=require", ssl).unwrap(), "t");
}

/// The child process of the next test: starts a server, prints its port and directory, and waits to be killed.
#[test]
#[ignore = "run by a_killed_process_leaves_no_server_behind, which kills it"]
fn a_process_with_a_server() {
    let server = PostgresServer::shared();
    println!("\nserver {} {}", server.port(), server.directory().display());
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn a_killed_process_leaves_no_server_behind() {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_process_with_a_server", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let line = BufReader::new(process.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap)
        .find_map(|line| line.strip_prefix("server ").map(str::to_owned))
        .expect("the child prints its server's port and directory");
    let (port, directory) = line.split_once(' ').unwrap();
    let (port, directory) = (port.parse::<u16>().unwrap(), PathBuf::from(directory));
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() && directory.exists());

    process.kill().unwrap();
    process.wait().unwrap();
    // The supervisor has inherited the child's stderr and closes it when it ends.
    process.stderr.take().unwrap().read_to_end(&mut Vec::new()).unwrap();
    assert!(!directory.exists());
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
}
