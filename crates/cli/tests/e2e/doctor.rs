//! Findings of `posthaste doctor`. A broken check does not hide the others.

use serde_json::Value;

use crate::harness::{CLOSED_ADDRESS, Sandbox, Store};

/// Runs the doctor. Returns its finding about the store, its exit code and the names of its checks.
#[track_caller]
fn run_doctor(sandbox: &Sandbox) -> (String, Option<i32>, Vec<String>) {
    let exit = sandbox.run(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&exit.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    let store = findings.iter().find(|finding| finding["check"] == "store").unwrap();
    (text(store, "finding"), exit.code, findings.iter().map(|finding| text(finding, "check")).collect())
}

#[test]
fn broken_store_has_its_own_advice_and_all_other_checks_run() {
    let not_sqlite = Sandbox::new(Store::Sqlite);
    std::fs::write(not_sqlite.path("outbox.db"), "not an SQLite database ".repeat(200)).unwrap();
    let missing_directory =
        Sandbox::new(Store::Sqlite).with_env("POSTHASTE_DATABASE_URL", "sqlite://missing/outbox.db");
    let unreachable = Sandbox::new(Store::Sqlite)
        .with_env("POSTHASTE_DATABASE_URL", &format!("postgres://postgres@{CLOSED_ADDRESS}/posthaste"));
    for (sandbox, finding, advice) in [
        (not_sqlite, "is not an SQLite database", "move it away"),
        (missing_directory, "cannot be created", "create it"),
        (unreachable, "PostgreSQL could not be reached", "check that it runs"),
    ] {
        let (store, code, checks) = run_doctor(&sandbox);
        assert!(store.contains(finding) && store.contains(advice), "{store}");
        let all_advice = ["move it away", "create it", "check that it runs", "posthaste migrate"];
        assert_eq!(all_advice.iter().filter(|advice| store.contains(**advice)).count(), 1, "{store}");
        assert_eq!(code, Some(1));
        for check in ["version", "configuration", "clock", "access", "address guard", "certificates"] {
            assert!(checks.iter().any(|name| name == check), "the check {check} is missing: {checks:?}");
        }
    }
}

#[test]
fn unusable_file_breaks_only_its_own_check() {
    let url = "postgres://h/db?sslmode=verify-full&sslrootcert=/no/such/file.pem";
    for (name, value, broken) in
        [("POSTHASTE_CA_FILE", "/no/such/file.pem", "certificates"), ("POSTHASTE_DATABASE_URL", url, "store")]
    {
        let sandbox = Sandbox::new(Store::Sqlite).with_env(name, value);
        let exit = sandbox.run(&["doctor", "--json"]);
        assert_eq!(exit.code, Some(1), "{}", exit.stderr);
        let report: Value = serde_json::from_str(&exit.stdout).unwrap();
        let findings = report["findings"].as_array().unwrap();
        let finding_of = |check: &str| findings.iter().find(|finding| finding["check"] == check).unwrap();
        assert_eq!(finding_of(broken)["verdict"], "broken", "{report:#}");
        assert!(finding_of(broken)["finding"].as_str().unwrap().contains("/no/such/file.pem"), "{report:#}");
        for check in ["version", "configuration", "store", "clock", "access", "certificates"] {
            assert_eq!(finding_of(check)["verdict"] == "broken", check == broken, "{report:#}");
        }
    }
}

#[test]
fn empty_database_passes_the_doctor() {
    for store in [Store::Sqlite, Store::Postgres] {
        let sandbox = Sandbox::with_empty_database(store);
        let (finding, code, _) = run_doctor(&sandbox);
        assert_eq!(code, Some(0), "{finding}");
        assert!(finding.contains("the first start creates it"), "{finding}");
        assert_eq!(sandbox.run(&["migrate"]).code, Some(0));
        let (finding, code, _) = run_doctor(&sandbox);
        assert_eq!(code, Some(0), "{finding}");
        assert!(finding.contains("reachable, schema version"), "{finding}");
    }
}
