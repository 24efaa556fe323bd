//! A PostgreSQL database that refuses results: each event is sent once, and readiness names what is missing.

use crate::harness::{Event, Receiver, Sandbox, Service, Store, wait_until};

const COUNT: usize = 200;
const KEPT: &str = "results cannot be written; they are kept, and nothing is claimed until they are written";

/// Waits until `/readyz` is 503 and its worker check names `missing`.
#[track_caller]
fn wait_until_not_ready(service: &Service, missing: &str) {
    let named = wait_until(&format!("/readyz names {missing}"), || {
        let response = service.get("/readyz");
        (response.status == 503 && response.body.contains(missing)).then_some(response)
    });
    let checks = named.expect_json(503)["checks"].clone();
    let worker = checks.as_array().unwrap().iter().find(|check| check["name"] == "worker").unwrap();
    assert_eq!(worker["ok"], false, "{checks}");
}

/// Waits until leases have been held for longer than a lease lasts without a renewal, which is ten seconds.
fn wait_for_renewals(sandbox: &Sandbox) {
    let sql = "SELECT count(*) FROM webhook_queue WHERE lease_until > updated_at + interval '20 seconds'";
    wait_until("leases are renewed", || (sandbox.sql(sql) != "0").then_some(()));
}

/// Starts a service, and waits until it has delivered an event. It has made its trial write then.
fn serve_and_deliver_one(sandbox: &Sandbox) -> Service {
    let service = sandbox.serve();
    service.wait_until_delivered(&service.enqueue(&Event::to(&Receiver::responding(200))));
    service
}

/// Runs 200 events through a service whose database refuses every result between `spoil` and `repair`.
fn deliver_while_results_are_refused(sandbox: &Sandbox, missing: &str, spoil: &str, repair: &str) {
    let receiver = Receiver::responding(200);
    let service = serve_and_deliver_one(sandbox);
    sandbox.sql(spoil);
    let ids = service.enqueue_all(&vec![Event::to(&receiver); COUNT]);
    wait_until_not_ready(&service, missing);
    wait_for_renewals(sandbox);
    let metrics = service.metrics();
    assert!(metrics["webhook_unwritten_results"] > 0.0, "{metrics:?}");
    assert!(sandbox.sql("SELECT sum(attempts) FROM webhook_queue") == "0", "no attempt is recorded yet");
    assert_eq!(service.count_log_lines(KEPT), 1, "logged once a minute");

    sandbox.sql(repair);
    wait_until("every event is delivered", || {
        (service.overview()["delivered_count"] == COUNT + 1).then_some(())
    });
    wait_until("the service is ready", || (service.get("/readyz").status == 200).then_some(()));
    for id in &ids {
        assert_eq!(receiver.count_requests_of(id), 1, "{id}");
    }
    let recorded = "SELECT count(DISTINCT event_key) || ' of ' || count(*) FROM webhook_attempts";
    assert_eq!(sandbox.sql(recorded), format!("{0} of {0}", COUNT + 1));
    assert_eq!(sandbox.sql("SELECT sum(lost_leases) FROM webhook_outbox_events"), "0");
    service.stop();
}

fn limited_sandbox() -> (Sandbox, String) {
    Sandbox::new(Store::Postgres).with_env("POSTHASTE_LEASE_SECONDS", "10").with_limited_role()
}

#[test]
fn results_that_a_role_may_not_write_are_kept_until_the_right_is_granted() {
    let (sandbox, role) = limited_sandbox();
    deliver_while_results_are_refused(
        &sandbox,
        "permission denied for table webhook_attempts",
        &format!("REVOKE INSERT ON webhook_attempts FROM {role}"),
        &format!("GRANT INSERT ON webhook_attempts TO {role}"),
    );
}

#[test]
fn results_whose_table_is_missing_are_kept_until_the_table_is_back() {
    let (sandbox, _) = limited_sandbox();
    deliver_while_results_are_refused(
        &sandbox,
        "app.webhook_attempts\\\" does not exist",
        "ALTER TABLE webhook_attempts RENAME TO elsewhere",
        "ALTER TABLE elsewhere RENAME TO webhook_attempts",
    );
}

#[test]
fn worker_that_restarts_while_results_are_refused_sends_nothing() {
    let (sandbox, role) = limited_sandbox();
    let receiver = Receiver::responding(200);
    let service = serve_and_deliver_one(&sandbox);
    sandbox.sql(&format!("REVOKE INSERT ON webhook_attempts FROM {role}"));
    let id = service.enqueue(&Event::to(&receiver));
    receiver.wait_for_requests(1);
    wait_until_not_ready(&service, "permission denied for table webhook_attempts");
    let exit = service.stop();
    assert!(exit.stderr.contains("and are lost"), "{}", exit.stderr);
    for _ in 0..6 {
        let service = sandbox.serve();
        service.wait_for_log("results could not be written; nothing is claimed until they can", 1);
        wait_until_not_ready(&service, "permission denied for table webhook_attempts");
        service.stop();
    }
    assert_eq!(receiver.requests().len(), 1, "the event was sent although its result could not be written");
    sandbox.sql(&format!("GRANT INSERT ON webhook_attempts TO {role}"));
    let service = sandbox.serve();
    service.wait_until_delivered(&id);
    assert_eq!(sandbox.sql("SELECT sum(lost_leases) FROM webhook_outbox_events"), "0");
    service.stop();
}

#[test]
fn migrate_and_doctor_name_what_is_missing_from_the_schema() {
    for (damage, missing) in [
        ("DROP TABLE webhook_claims CASCADE", "table webhook_claims is missing"),
        ("DROP INDEX webhook_queue_position", "index webhook_queue_position is missing: CREATE INDEX"),
        (
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'webhook_queue_id'::regclass",
            "(invalid)",
        ),
    ] {
        let sandbox = Sandbox::new(Store::Postgres);
        assert!(sandbox.run(&["migrate"]).stdout.starts_with("nothing to do"));
        let healthy = sandbox.run(&["doctor"]);
        assert_eq!(healthy.code, Some(0), "{}", healthy.stdout);
        assert!(
            healthy.stdout.contains("a trial enqueue, claim and settle were accepted"),
            "{}",
            healthy.stdout
        );
        sandbox.sql(damage);
        let migrate = sandbox.run(&["migrate"]);
        assert_eq!(migrate.code, Some(1), "{}", migrate.stdout);
        assert!(migrate.stderr.contains(missing), "{damage}: {}", migrate.stderr);
        let doctor = sandbox.run(&["doctor"]);
        assert_eq!(doctor.code, Some(1), "{}", doctor.stdout);
        assert!(doctor.stdout.contains(missing), "{damage}: {}", doctor.stdout);
    }
}

#[test]
fn migrate_doctor_and_the_start_name_a_missing_right() {
    let (sandbox, role) = limited_sandbox();
    assert!(sandbox.run(&["migrate"]).stdout.starts_with("nothing to do"));
    sandbox.sql(&format!("REVOKE INSERT ON webhook_attempts FROM {role}"));
    let missing = "this role has no right to INSERT on webhook_attempts";
    let migrate = sandbox.run(&["migrate"]);
    assert!(migrate.code == Some(1) && migrate.stderr.contains(missing), "{}", migrate.stderr);
    let doctor = sandbox.run(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{}", doctor.stdout);
    for words in [missing, "a trial write failed: ", "permission denied for table webhook_attempts"] {
        assert!(doctor.stdout.contains(words), "{}", doctor.stdout);
    }
    let service = sandbox.serve();
    service.wait_for_log("the schema is not what it should be; `posthaste doctor` lists all problems", 1);
    service.stop();
}
