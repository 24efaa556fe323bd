//! Idempotency keys across a restart of the service.

use crate::harness::{EVENTS, Event, HttpResponse, Receiver, Sandbox, Service};

on_each_store! {
    idempotency_key_survives_a_restart,
}

fn enqueue(service: &Service, key: &str, body: &str) -> HttpResponse {
    service.request("POST", EVENTS, &[("content-type", "application/json"), ("idempotency-key", key)], body)
}

fn idempotency_key_survives_a_restart(sandbox: Sandbox) {
    let receiver = Receiver::responding(200);
    let single = Event::to(&receiver).request_body();
    let batch = format!("[{single},{single}]");
    let service = sandbox.serve();
    let first = enqueue(&service, "order-17", &single);
    let first_batch = enqueue(&service, "orders", &batch);
    assert_eq!((first.status, first_batch.status), (202, 202));
    receiver.wait_for_requests(3);
    service.kill();

    let service = sandbox.serve();
    for (key, body, first) in [("order-17", &single, &first), ("orders", &batch, &first_batch)] {
        let again = enqueue(&service, key, body);
        assert_eq!(
            (again.status, &again.body),
            (200, &first.body),
            "the replayed response differs from the first"
        );
    }
    let other = Event::to(&receiver).with("event_type", "invoice.void").request_body();
    enqueue(&service, "order-17", &other).expect_error(409, "idempotency_key_conflict");
    assert_eq!(enqueue(&service, "order-18", &other).status, 202);
    let overview = service.overview();
    let counts =
        ["pending_count", "delivered_count", "failed_count"].map(|count| overview[count].as_u64().unwrap());
    assert_eq!(counts.iter().sum::<u64>(), 4, "a replay enqueued an event: {overview}");
    service.stop();
}
