//! Starts that are refused because of the configuration, and PostgreSQL roles with few privileges.

use posthaste_postgres_server::PostgresServer;

use crate::harness::{Event, Receiver, Sandbox, Store};

/// Commands that deliver events.
const DELIVERY_COMMANDS: &[&[&str]] = &[&["serve"], &["worker"], &["dispatch", "--once"]];
/// Commands that open the store and deliver nothing.
const STORE_COMMANDS: &[&[&str]] = &[&["migrate"], &["secret"]];
/// Commands that open no file of the configuration, or report a broken file themselves.
const OTHER_COMMANDS: &[&[&str]] = &[&["config"], &["doctor"], &["overview"]];

/// Checks that each command refuses this setting as bad usage, with these texts, and creates no files.
#[track_caller]
fn assert_refused_by(commands: &[&[&[&str]]], name: &str, value: &str, expected: &[&str]) {
    let sandbox = Sandbox::new(Store::Sqlite).with_env(name, value);
    for arguments in commands.concat() {
        let exit = sandbox.run(arguments);
        let output = exit.stdout + &exit.stderr;
        assert_eq!(exit.code, Some(2), "{arguments:?}: {output}");
        for text in expected.iter().chain([&name]) {
            assert!(output.contains(text), "{arguments:?}: {text:?} is not in: {output}");
        }
    }
    assert!(sandbox.has_no_files(), "the refused start created files");
}

#[test]
fn unreadable_ca_file_is_refused_as_configuration() {
    let expected = ["POSTHASTE_CA_FILE=/no/such/file.pem", "cannot be used", "the path of a PEM file"];
    assert_refused_by(&[DELIVERY_COMMANDS], "POSTHASTE_CA_FILE", "/no/such/file.pem", &expected);
}

#[test]
fn commands_that_use_no_ca_file_ignore_an_unreadable_one() {
    let sandbox = Sandbox::new(Store::Sqlite).with_env("POSTHASTE_CA_FILE", "/no/such/file.pem");
    for arguments in [&["migrate"], &["config"]] {
        let exit = sandbox.run(arguments);
        assert_eq!(exit.code, Some(0), "{arguments:?}: {}", exit.stderr);
    }
    let exit = sandbox.run(&["overview"]);
    assert_eq!(exit.code, Some(1), "the command succeeded without a service: {}", exit.stderr);
    assert!(!exit.stderr.contains("CA_FILE"), "{}", exit.stderr);
}

#[test]
fn database_url_that_the_driver_rejects_is_refused_as_configuration() {
    let rule = "database_url must be sqlite://PATH or postgres://user:password@host:port/database";
    for (url, shown_url, reason) in [
        ("postgres://h:notaport/db", "postgres://***", "invalid value for option `port`"),
        ("postgres://app:hunter2@h/db?foo=bar", "postgres://app:***@h/db?***", "parameter 1 after the ?"),
    ] {
        let all_commands = [DELIVERY_COMMANDS, STORE_COMMANDS, OTHER_COMMANDS];
        assert_refused_by(&all_commands, "POSTHASTE_DATABASE_URL", url, &[shown_url, reason, rule]);
    }
    let url = "postgres://h/db?sslmode=verify-full&sslrootcert=/no/such/file.pem";
    let (shown_url, reason) =
        ("sslrootcert=/no/such/file.pem", "the certificates in /no/such/file.pem could not be read");
    assert_refused_by(
        &[DELIVERY_COMMANDS, STORE_COMMANDS],
        "POSTHASTE_DATABASE_URL",
        url,
        &[shown_url, reason, rule],
    );
}

#[test]
fn only_serve_and_migrate_create_a_sqlite_file() {
    let mut sandbox = Sandbox::new(Store::Sqlite).with_env("POSTHASTE_DATABASE_URL", "sqlite://mistyped.db");
    // With a configured secret, `secret` would not open the database.
    sandbox.remove_env("POSTHASTE_SIGNING_SECRET");
    for arguments in [&["worker"][..], &["dispatch", "--once"], &["secret"]] {
        let exit = sandbox.run(arguments);
        assert_eq!(exit.code, Some(1), "{arguments:?}: {}", exit.stderr);
        assert!(exit.stderr.contains("mistyped.db"), "{arguments:?}: {}", exit.stderr);
    }
    assert!(sandbox.has_no_files(), "a command created the file");
    assert_eq!(sandbox.run(&["migrate"]).code, Some(0));
    assert_eq!(sandbox.run(&["dispatch", "--once"]).code, Some(0));
}

#[test]
fn unknown_postgres_role_is_reported_once() {
    let server = PostgresServer::shared();
    let url = server.url("postgres").replace("postgres@", "unknown_role@");
    let mut sandbox = Sandbox::new(Store::Sqlite).with_env("POSTHASTE_DATABASE_URL", &url);
    sandbox.remove_env("POSTHASTE_SIGNING_SECRET");
    let reason = "role \"unknown_role\" does not exist";
    for arguments in [&["serve"][..], &["worker"], &["dispatch", "--once"], &["migrate"], &["secret"]] {
        let arguments = [arguments, &["--log", "error"]].concat();
        let exit = sandbox.run(&arguments);
        assert_eq!((exit.code, exit.stdout.as_str()), (Some(1), ""), "{arguments:?}: {}", exit.stderr);
        assert_eq!(exit.stderr.matches(reason).count(), 1, "{arguments:?}: {}", exit.stderr);
        for text in
            ["PostgreSQL refused the connection", "check user, password and database of the URL", &url]
        {
            assert!(exit.stderr.contains(text), "{arguments:?}: {text:?} is not in: {}", exit.stderr);
        }
    }
}

/// Grants the privileges that docs/operations.md lists.
#[test]
fn role_that_owns_only_its_schema_can_migrate_and_serve() {
    let server = PostgresServer::shared();
    let database = server.create_database("role");
    let (name, role) = (&database.name, format!("owner_of_{}", database.name));
    let grants = format!(
        "REVOKE ALL ON DATABASE {name} FROM PUBLIC; CREATE ROLE {role} LOGIN;
         GRANT CONNECT ON DATABASE {name} TO {role}; CREATE SCHEMA app AUTHORIZATION {role};"
    );
    server.psql(name, &grants).unwrap();
    let url = database.url.replace("postgres@", &format!("{role}@"));
    let sandbox = Sandbox::new(Store::Sqlite).with_env("POSTHASTE_DATABASE_URL", &url);
    let migrated = sandbox.run(&["migrate"]);
    assert_eq!(migrated.code, Some(0), "{}", migrated.stderr);
    let receiver = Receiver::responding(200);
    let service = sandbox.serve();
    service.wait_until_delivered(&service.enqueue(&Event::to(&receiver)));
    service.stop();
}
