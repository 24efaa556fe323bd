//! Findings of `posthaste doctor`. A broken check does not hide the others.

use serde_json::{Value, json};

use crate::harness::{CLOSED_ADDRESS, Sandbox, Store};

on_each_store! {
    doctor_prints_the_checks_of_the_server_that_answers_at_the_configured_address,
}

/// Runs the doctor with these arguments and returns its report.
#[track_caller]
fn doctor_report(sandbox: &Sandbox, arguments: &[&str]) -> (Value, String) {
    let exit = sandbox.run(&[&["doctor", "--json"], arguments].concat());
    (serde_json::from_str(&exit.stdout).unwrap_or_else(|_| panic!("{}", exit.stderr)), exit.stderr)
}

fn finding_of<'a>(report: &'a Value, check: &str) -> &'a str {
    let found = report["findings"].as_array().unwrap().iter().find(|finding| finding["check"] == check);
    found.unwrap_or_else(|| panic!("{check} is not in {report:#}"))["finding"].as_str().unwrap()
}

/// The server and the shell have different settings, and each report is about its own subject.
fn doctor_prints_the_checks_of_the_server_that_answers_at_the_configured_address(mut sandbox: Sandbox) {
    sandbox.set_env("POSTHASTE_WORKER_ID", "the-server");
    let service = sandbox.serve_with(&["--concurrency", "64"]);
    sandbox.set_env("POSTHASTE_LISTEN", &service.address.to_string());
    let (report, note) = doctor_report(&sandbox, &[]);
    assert_eq!((&report["subject"], &report["worker_id"]), (&json!("server"), &json!("the-server")));
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert!(finding_of(&report, "connections").contains("64 requests at once"), "{report:#}");
    for check in ["version", "configuration", "store", "writes", "worker", "clock", "access", "address guard"]
    {
        assert!(!finding_of(&report, check).is_empty());
    }
    assert!(note.contains("worker the-server"), "{note}");
    let table = sandbox.run(&["doctor", "--server"]);
    assert!(table.code == Some(0) && table.stdout.contains("64 requests at once"), "{}", table.stdout);

    let (local, note) = doctor_report(&sandbox, &["--local"]);
    assert_eq!(local["subject"], "local");
    assert!(finding_of(&local, "connections").contains("512"), "{local:#}");
    assert_eq!(note, "");
    let config = sandbox.run(&["config"]);
    for text in ["the configuration of this shell", "worker the-server"] {
        assert!(config.stderr.contains(text), "{text:?} is not in {}", config.stderr);
    }

    service.stop();
    let (report, _) = doctor_report(&sandbox, &[]);
    assert_eq!(report["subject"], "local", "no server answers");
    let exit = sandbox.run(&["doctor", "--server"]);
    assert_eq!((exit.code, exit.stdout.as_str()), (Some(1), ""), "{}", exit.stderr);
    assert_eq!(sandbox.run(&["config"]).stderr, "");
}

#[test]
fn server_with_api_keys_is_asked_with_a_key_and_otherwise_named_in_a_note() {
    let key = "the-key-that-must-not-be-printed-3";
    let mut sandbox =
        Sandbox::new(Store::Sqlite).with_env("POSTHASTE_API_KEYS", &format!("eyes:viewer:{key}"));
    let service = sandbox.serve();
    sandbox.set_env("POSTHASTE_LISTEN", &service.address.to_string());
    let (report, note) = doctor_report(&sandbox, &[]);
    assert_eq!(report["subject"], "local");
    for text in ["a server answers at", "unauthorized", "--key", "this shell's configuration"] {
        assert!(note.contains(text), "{text:?} is not in {note}");
    }
    let (report, _) = doctor_report(&sandbox, &["--key", key]);
    assert_eq!(report["subject"], "server");
    sandbox.set_env("POSTHASTE_API_KEY", key);
    sandbox.set_env("POSTHASTE_SERVER", &format!("http://{}", service.address));
    sandbox.set_env("POSTHASTE_LISTEN", "127.0.0.1:0");
    let (report, _) = doctor_report(&sandbox, &[]);
    assert_eq!(report["subject"], "server", "the variable names the server");
    assert_eq!(doctor_report(&sandbox, &["--local"]).0["subject"], "local");
    service.stop();
}

#[test]
fn start_and_doctor_warn_of_a_database_on_another_machine_that_is_not_verified() {
    // The name is that of another machine; the address, which is dialled, is closed.
    let url =
        "postgres://app:database-password-that-must-not-be-printed@db.example:1/shop?hostaddr=127.0.0.1";
    let sandbox = Sandbox::new(Store::Sqlite).with_env("POSTHASTE_DATABASE_URL", url);
    let exit = sandbox.run(&["dispatch", "--once"]);
    for text in ["sslmode=prefer does not verify it", "signing secret", "sslmode=verify-full"] {
        assert!(exit.stderr.contains(text), "{text:?} is not in {}", exit.stderr);
    }
    let (report, _) = doctor_report(&sandbox, &[]);
    assert!(finding_of(&report, "database connection").contains("sslmode=verify-full"), "{report:#}");
}

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
