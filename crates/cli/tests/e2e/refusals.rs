//! Starts that are refused: what the configuration cannot have, and what a database does not give.

use posthaste_postgres_server::PostgresServer;

use crate::stage::{Event, Home, Receiver, Store};

const DELIVERING: &[&[&str]] = &[&["serve"], &["worker"], &["dispatch", "--once"]];
const AT_THE_STORE: &[&[&str]] = &[&["migrate"], &["secret"]];
/// They use none of the files that the configuration names, or say themselves what is wrong with them.
const ASIDE: &[&[&str]] = &[&["config"], &["doctor"], &["overview"]];

/// Each of these commands refuses it, as bad usage, before anything is made.
#[track_caller]
fn refused_by(commands: &[&[&[&str]]], name: &str, value: &str, told: &[&str]) {
    let home = Home::on(Store::Sqlite).with(name, value);
    for arguments in commands.concat() {
        let ended = home.run(arguments);
        let said = ended.stdout + &ended.stderr;
        assert_eq!(ended.code, Some(2), "{arguments:?}: {said}");
        for told in told.iter().chain([&name]) {
            assert!(said.contains(told), "{arguments:?}: {told:?} is not in: {said}");
        }
    }
    assert!(home.is_untouched(), "nothing is made by a start that is refused");
}

#[test]
fn authorities_that_cannot_be_read_are_refused_as_configuration() {
    let told = ["POSTHASTE_CA_FILE=/no/such/file.pem", "cannot be used", "the path of a PEM file"];
    refused_by(&[DELIVERING], "POSTHASTE_CA_FILE", "/no/such/file.pem", &told);
}

#[test]
fn authorities_keep_nobody_from_what_needs_none() {
    let home = Home::on(Store::Sqlite).with("POSTHASTE_CA_FILE", "/no/such/file.pem");
    for arguments in [&["migrate"], &["config"]] {
        let ended = home.run(arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
    }
    let ended = home.run(&["overview"]);
    assert_eq!(ended.code, Some(1), "nothing answers: {}", ended.stderr);
    assert!(!ended.stderr.contains("CA_FILE"), "{}", ended.stderr);
}

#[test]
fn a_database_url_that_the_driver_does_not_take_is_refused_as_configuration() {
    let rule = "database_url must be sqlite://PATH or postgres://user:password@host:port/database";
    for (url, shown, reason) in [
        ("postgres://h:notaport/db", "postgres://***", "invalid value for option `port`"),
        ("postgres://app:hunter2@h/db?foo=bar", "postgres://app:***@h/db?***", "parameter 1 after the ?"),
    ] {
        let every = [DELIVERING, AT_THE_STORE, ASIDE];
        refused_by(&every, "POSTHASTE_DATABASE_URL", url, &[shown, reason, rule]);
    }
    let url = "postgres://h/db?sslmode=verify-full&sslrootcert=/no/such/file.pem";
    let (shown, reason) =
        ("sslrootcert=/no/such/file.pem", "the certificates in /no/such/file.pem could not be read");
    refused_by(&[DELIVERING, AT_THE_STORE], "POSTHASTE_DATABASE_URL", url, &[shown, reason, rule]);
}

#[test]
fn a_role_that_the_server_does_not_know_is_told_once() {
    let server = PostgresServer::shared();
    let url = server.url("postgres").replace("postgres@", "nobody_of_that_name@");
    let mut home = Home::on(Store::Sqlite).with("POSTHASTE_DATABASE_URL", &url);
    home.unset("POSTHASTE_SIGNING_SECRET");
    let why = "role \"nobody_of_that_name\" does not exist";
    for arguments in [&["serve"][..], &["worker"], &["dispatch", "--once"], &["migrate"], &["secret"]] {
        let arguments = [arguments, &["--log", "error"]].concat();
        let ended = home.run(&arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{arguments:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.matches(why).count(), 1, "{arguments:?}: {}", ended.stderr);
        for told in
            ["PostgreSQL refused the connection", "check user, password and database of the URL", &url]
        {
            assert!(ended.stderr.contains(told), "{arguments:?}: {told:?} is not in: {}", ended.stderr);
        }
    }
}

/// What docs/operations.md says to give it.
#[test]
fn a_role_that_owns_its_schema_and_may_create_no_other_migrates_and_serves() {
    let server = PostgresServer::shared();
    let database = server.create_database("role");
    let (name, role) = (&database.name, format!("owner_of_{}", database.name));
    let grants = format!(
        "REVOKE ALL ON DATABASE {name} FROM PUBLIC; CREATE ROLE {role} LOGIN;
         GRANT CONNECT ON DATABASE {name} TO {role}; CREATE SCHEMA app AUTHORIZATION {role};"
    );
    server.psql(name, &grants).unwrap();
    let url = database.url.replace("postgres@", &format!("{role}@"));
    let home = Home::on(Store::Sqlite).with("POSTHASTE_DATABASE_URL", &url);
    let migrated = home.run(&["migrate"]);
    assert_eq!(migrated.code, Some(0), "{}", migrated.stderr);
    let receiver = Receiver::answering(200);
    let service = home.serve();
    service.delivered(&service.enqueue(&Event::to(&receiver)));
    service.stop();
}
