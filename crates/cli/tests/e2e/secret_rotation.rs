//! `posthaste secret rotate` while the service runs: receivers with the old and with the new secret accept deliveries.

use posthaste::domain::Timestamp;
use posthaste::domain::signature::{Secret, SignedHeaders, SigningKeys};
use serde_json::Value;

use crate::harness::{Event, ReceivedRequest, Receiver, SECRET, Sandbox, wait_until};

on_each_store! {
    rotated_secret_signs_beside_the_old_one_without_a_restart,
    api_and_worker_processes_learn_of_a_rotation,
}

/// Runs a subcommand of `posthaste secret`, which prints a secret, and returns its standard output and its log.
#[track_caller]
fn secret_command(sandbox: &Sandbox, arguments: &[&str]) -> (String, String) {
    let exit = sandbox.start(&[&["secret"], arguments].concat()).allow_secrets().wait_for_exit();
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    (exit.stdout.trim_end().to_owned(), exit.stderr)
}

/// Returns whether a receiver that knows only this secret accepts the request.
fn accepts(secret: &str, request: &ReceivedRequest) -> bool {
    let header = |name: &str| request.header(name).unwrap();
    let headers = SignedHeaders {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
    };
    let now = Timestamp::from_secs(headers.timestamp.parse().unwrap());
    let keys = SigningKeys::new(vec![Secret::parse(secret).unwrap()]).unwrap();
    keys.verify(headers, request.body.as_bytes(), now, std::time::Duration::ZERO).is_ok()
}

/// Ends the grace periods in the database, as if they had passed.
fn end_grace_periods(sandbox: &Sandbox) {
    let past = match sandbox.store {
        crate::harness::Store::Sqlite => "1",
        crate::harness::Store::Postgres => "app.webhook_now() - interval '1 second'",
    };
    sandbox.sql(&format!("UPDATE webhook_secrets SET retires_at = {past} WHERE retires_at IS NOT NULL"));
}

fn rotated_secret_signs_beside_the_old_one_without_a_restart(mut sandbox: Sandbox) {
    sandbox.remove_env("POSTHASTE_SIGNING_SECRET");
    let receiver = Receiver::responding(200);
    let service = sandbox.serve();
    let deliver = || {
        let event_id = service.enqueue(&Event::to(&receiver));
        service.wait_until_delivered(&event_id);
        receiver.requests().pop().unwrap()
    };
    let (old, _) = secret_command(&sandbox, &[]);
    assert!(accepts(&old, &deliver()));

    // The command returns when every worker signs with the new secret, so the next delivery carries both.
    let (new, advice) = secret_command(&sandbox, &["rotate", "--grace", "3600"]);
    let request = deliver();
    assert!(accepts(&old, &request) && accepts(&new, &request), "{:?}", request.header("webhook-signature"));
    assert!(
        advice.contains(&old[..10]) && advice.contains("retires at") && !advice.contains(&old),
        "{advice}"
    );
    assert_eq!(secret_command(&sandbox, &[]).0, format!("{new}\n{old}"));

    let listed: Value = serde_json::from_str(&sandbox.run(&["secret", "list", "--json"]).stdout).unwrap();
    let states: Vec<_> =
        listed["secrets"].as_array().unwrap().iter().map(|secret| secret["state"].clone()).collect();
    assert_eq!(states, ["current", "retiring"], "{listed:#}");
    assert!(listed["secrets"][0]["created_by"].as_str().unwrap().contains('@'), "{listed:#}");
    assert!(listed["secrets"][1]["retires_at"].is_string() && listed["secrets"][0]["retires_at"].is_null());
    assert!(sandbox.run(&["secret", "list"]).stdout.contains("retiring"));

    end_grace_periods(&sandbox);
    wait_until("the worker stops signing with the retired secret", || {
        let request = deliver();
        assert!(accepts(&new, &request));
        (!accepts(&old, &request)).then_some(())
    });
    assert_eq!(secret_command(&sandbox, &[]).0, new);
    assert!(!service.wait_for_log("the signing secrets have changed", 2)[0]["rotated_by"].is_null());
    service.stop();
}

fn api_and_worker_processes_learn_of_a_rotation(mut sandbox: Sandbox) {
    sandbox.remove_env("POSTHASTE_SIGNING_SECRET");
    let receiver = Receiver::responding(200);
    let service = sandbox.serve_with(&["--no-worker"]);
    let workers = [sandbox.start_worker(), sandbox.start_worker()];
    let (old, _) = secret_command(&sandbox, &[]);
    let (rotated, _) = secret_command(&sandbox, &["rotate", "--json"]);
    let rotated: Value = serde_json::from_str(&rotated).unwrap();
    let new = rotated["secret"].as_str().unwrap();
    assert_eq!(rotated["retiring"].as_array().unwrap().len(), 1, "{rotated:#}");
    for _ in 0..20 {
        service.wait_until_delivered(&service.enqueue(&Event::to(&receiver)));
    }
    let requests = receiver.requests();
    assert!(requests.iter().all(|request| accepts(&old, request) && accepts(new, request)));
    for worker in workers {
        worker.stop();
    }
    service.stop();
}

#[test]
fn configured_secret_is_not_rotated_in_the_database() {
    let sandbox = Sandbox::new(crate::harness::Store::Sqlite);
    assert_eq!(sandbox.run(&["migrate"]).code, Some(0));
    let exit = sandbox.run(&["secret", "rotate"]);
    assert_eq!((exit.code, exit.stdout.as_str()), (Some(2), ""), "{}", exit.stderr);
    for text in ["signing_secret is set (POSTHASTE_SIGNING_SECRET)", "NEW,OLD", "restart"] {
        assert!(exit.stderr.contains(text), "{text:?} is not in: {}", exit.stderr);
    }
    let listed: Value = serde_json::from_str(&sandbox.run(&["secret", "list", "--json"]).stdout).unwrap();
    assert_eq!(listed["secrets"][0]["state"], "configured");
    assert_eq!(listed["secrets"][0]["secret"], format!("{}…", &SECRET[..10]));
}
