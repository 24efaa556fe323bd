//! What the doctor finds, and that one thing that is broken hides no other.

use serde_json::Value;

use crate::stage::{Home, NOBODY, Store};

/// What the doctor says of the store, its exit code, and the checks that it made.
#[track_caller]
fn examined(home: &Home) -> (String, Option<i32>, Vec<String>) {
    let ended = home.run(&["doctor", "--json"]);
    let told: Value = serde_json::from_str(&ended.stdout).unwrap();
    let findings = told["findings"].as_array().unwrap();
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    let store = findings.iter().find(|finding| finding["check"] == "store").unwrap();
    (text(store, "finding"), ended.code, findings.iter().map(|finding| text(finding, "check")).collect())
}

#[test]
fn a_broken_store_is_told_in_its_own_words_and_everything_else_is_looked_at() {
    let no_database = Home::on(Store::Sqlite);
    std::fs::write(no_database.file("outbox.db"), "nothing that SQLite wrote ".repeat(200)).unwrap();
    let elsewhere = Home::on(Store::Sqlite).with("POSTHASTE_DATABASE_URL", "sqlite://missing/outbox.db");
    let absent = Home::on(Store::Sqlite)
        .with("POSTHASTE_DATABASE_URL", &format!("postgres://postgres@{NOBODY}/posthaste"));
    for (home, told, advice) in [
        (no_database, "is not an SQLite database", "move it away"),
        (elsewhere, "cannot be created", "create it"),
        (absent, "PostgreSQL could not be reached", "check that it runs"),
    ] {
        let (store, code, checks) = examined(&home);
        assert!(store.contains(told) && store.contains(advice), "{store}");
        let others = ["move it away", "create it", "check that it runs", "posthaste migrate"];
        assert_eq!(others.iter().filter(|other| store.contains(**other)).count(), 1, "one advice: {store}");
        assert_eq!(code, Some(1));
        for check in ["version", "configuration", "clock", "access", "address guard", "certificates"] {
            assert!(checks.iter().any(|made| made == check), "{check} is not among {checks:?}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_used_is_told_by_its_check_and_everything_else_is_looked_at() {
    let root = "postgres://h/db?sslmode=verify-full&sslrootcert=/no/such/file.pem";
    for (name, value, broken) in [
        ("POSTHASTE_CA_FILE", "/no/such/file.pem", "certificates"),
        ("POSTHASTE_DATABASE_URL", root, "store"),
    ] {
        let home = Home::on(Store::Sqlite).with(name, value);
        let ended = home.run(&["doctor", "--json"]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let told: Value = serde_json::from_str(&ended.stdout).unwrap();
        let findings = told["findings"].as_array().unwrap();
        let of = |check: &str| findings.iter().find(|finding| finding["check"] == check).unwrap();
        assert_eq!(of(broken)["verdict"], "broken", "{told:#}");
        assert!(of(broken)["finding"].as_str().unwrap().contains("/no/such/file.pem"), "{told:#}");
        for check in ["version", "configuration", "store", "clock", "access", "certificates"] {
            assert_eq!(of(check)["verdict"] == "broken", check == broken, "{told:#}");
        }
    }
}

#[test]
fn a_database_that_the_first_start_fills_is_well() {
    for store in [Store::Sqlite, Store::Postgres] {
        let home = Home::on_empty(store);
        let (told, code, _) = examined(&home);
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains("the first start creates it"), "{told}");
        assert_eq!(home.run(&["migrate"]).code, Some(0));
        let (told, code, _) = examined(&home);
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains("answers, schema version"), "{told}");
    }
}
