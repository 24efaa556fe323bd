//! A bulk operation whose process is killed in the middle.

use serde_json::{Value, json};

use crate::harness::{Event, Receiver, Reply, Sandbox, Service, wait_until};

on_each_store! {
    a_bulk_requeue_is_carried_on_by_the_next_process_after_a_kill,
}

const BULK: &str = "/v1/webhook-outbox/bulk";

fn operation(service: &Service, id: &str) -> Value {
    service.get(&format!("{BULK}/{id}")).expect_json(200)
}

fn a_bulk_requeue_is_carried_on_by_the_next_process_after_a_kill(sandbox: Sandbox) {
    const DEAD_LETTERS: usize = 40;
    let sandbox = sandbox.with_env("POSTHASTE_CIRCUIT_BREAKER", "off");
    let receiver =
        Receiver::scripted(
            |_, earlier| {
                if earlier < DEAD_LETTERS { Reply::Status(500) } else { Reply::Status(200) }
            },
        );
    let service = sandbox.serve();
    let event_ids = service.enqueue_all(&vec![Event::to(&receiver).with("max_attempts", 1); DEAD_LETTERS]);
    for event_id in &event_ids {
        service.wait_until_failed(event_id);
    }
    let request = json!({ "action": "requeue", "filter": {}, "rate_per_second": 5 });
    let started = service.post(BULK, &request.to_string()).expect_json(202);
    assert_eq!(started["matched_count"], DEAD_LETTERS);
    let id = started["operation_id"].as_str().unwrap();
    let done = wait_until("a part of the operation is done", || {
        operation(&service, id)["done_count"].as_u64().filter(|done| *done > 0)
    });
    assert!(done < DEAD_LETTERS as u64, "the operation was faster than its rate");
    service.kill();

    let service = sandbox.serve();
    let finished = wait_until("the operation has finished", || {
        Some(operation(&service, id)).filter(|operation| operation["state"] == "finished")
    });
    assert_eq!(finished["done_count"], DEAD_LETTERS, "{finished}");
    for event_id in &event_ids {
        let delivered = service.wait_until_delivered(event_id);
        let audit = delivered["audit"].as_array().unwrap();
        assert_eq!(audit.len(), 1, "an event was requeued twice: {delivered}");
        assert_eq!(audit[0]["action"], "requeue");
    }
    service.stop();
}
