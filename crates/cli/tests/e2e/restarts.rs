//! What a producer may rely on when the process behind the API is another one.

use crate::stage::{EVENTS, Event, Home, Receiver, Service};

on_each_store! {
    an_idempotency_key_is_remembered_across_a_restart,
}

fn enqueue(service: &Service, key: &str, body: &str) -> crate::stage::Answer {
    service.ask("POST", EVENTS, &[("content-type", "application/json"), ("idempotency-key", key)], body)
}

fn an_idempotency_key_is_remembered_across_a_restart(home: Home) {
    let receiver = Receiver::answering(200);
    let one = Event::to(&receiver).body();
    let many = format!("[{one},{one}]");
    let service = home.serve();
    let first = enqueue(&service, "order-17", &one);
    let first_many = enqueue(&service, "orders", &many);
    assert_eq!((first.status, first_many.status), (202, 202));
    receiver.received(3);
    service.kill();

    let service = home.serve();
    for (key, body, first) in [("order-17", &one, &first), ("orders", &many, &first_many)] {
        let again = enqueue(&service, key, body);
        assert_eq!((again.status, &again.body), (200, &first.body), "the first answer, word for word");
    }
    let other = Event::to(&receiver).with("event_type", "invoice.void").body();
    enqueue(&service, "order-17", &other).refused(409, "idempotency_key_conflict");
    assert_eq!(enqueue(&service, "order-18", &other).status, 202);
    let overview = service.overview();
    let all =
        ["pending_count", "delivered_count", "failed_count"].map(|count| overview[count].as_u64().unwrap());
    assert_eq!(all.iter().sum::<u64>(), 4, "a replay enqueues nothing: {overview}");
    service.stop();
}
