//! A database that others write to while the service runs on it.

use serde_json::json;

use crate::stage::{Event, Home, Receiver, Reply, Store};

on_each_store! {
    s4_reset_through_the_view_beside_a_running_service_sends_the_event_again,
}

fn s4_reset_through_the_view_beside_a_running_service_sends_the_event_again(home: Home) {
    let receiver = Receiver::scripted(|_, before| Reply::Status(if before == 0 { 410 } else { 200 }));
    let service = home.serve();
    let event_id = service.enqueue(&Event::to(&receiver));
    service.failed(&event_id);
    let state = format!("FROM webhook_deliveries WHERE id = '{event_id}'");
    assert_eq!(home.sql(&format!("SELECT status {state}")), "dead");
    home.sql(&format!(
        "UPDATE webhook_deliveries SET attempt_count = 0, status = 'pending' WHERE id = '{event_id}'"
    ));
    let delivered = service.delivered(&event_id);
    assert_eq!(delivered["attempts"], 1);
    assert_eq!(home.sql(&format!("SELECT status {state}")), "delivered");
    assert_eq!(home.sql(&format!("SELECT count(next_retry_at) {state}")), "0");
    service.stop();
    assert_eq!(receiver.requests().len(), 2);
}

#[test]
fn an_event_of_a_transaction_is_sent_if_it_commits_and_byte_for_byte() {
    let home = Home::on(Store::Postgres);
    let receiver = Receiver::answering(200);
    let service = home.serve();
    let mut follower = service.follow(None);
    let enqueue = |number: u32| {
        format!(
            "SELECT app.enqueue_webhook(destination_url => '{}', event_type => 'invoice.paid', \
             payload => '{{\"b\": {number}.50, \"a\":1}}')",
            receiver.url()
        )
    };
    home.sql(&format!("BEGIN; {}; ROLLBACK;", enqueue(1)));
    let event_id = home.sql(&format!("BEGIN; {}; COMMIT;", enqueue(2)));
    assert_eq!(follower.next()["webhook_delivery_id"], json!(event_id));
    service.stop();
    let requests = receiver.requests();
    assert_eq!((requests.len(), requests[0].body.as_str()), (1, r#"{"b": 2.50, "a":1}"#));
}
