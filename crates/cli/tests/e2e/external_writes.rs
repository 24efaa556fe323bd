//! Writes to the database by other clients while the service runs.

use serde_json::json;

use crate::harness::{Event, Receiver, Reply, Sandbox, Store};

on_each_store! {
    s4_reset_through_the_view_makes_a_running_service_send_the_event_again,
}

fn s4_reset_through_the_view_makes_a_running_service_send_the_event_again(sandbox: Sandbox) {
    let receiver = Receiver::scripted(|_, earlier| Reply::Status(if earlier == 0 { 410 } else { 200 }));
    let service = sandbox.serve();
    let event_id = service.enqueue(&Event::to(&receiver));
    service.wait_until_failed(&event_id);
    let from_view = format!("FROM webhook_deliveries WHERE id = '{event_id}'");
    assert_eq!(sandbox.sql(&format!("SELECT status {from_view}")), "dead");
    sandbox.sql(&format!(
        "UPDATE webhook_deliveries SET attempt_count = 0, status = 'pending' WHERE id = '{event_id}'"
    ));
    let delivered = service.wait_until_delivered(&event_id);
    assert_eq!(delivered["attempts"], 1);
    assert_eq!(sandbox.sql(&format!("SELECT status {from_view}")), "delivered");
    assert_eq!(sandbox.sql(&format!("SELECT count(next_retry_at) {from_view}")), "0");
    service.stop();
    assert_eq!(receiver.requests().len(), 2);
}

#[test]
fn event_of_a_sql_transaction_is_sent_only_after_commit_and_byte_for_byte() {
    let sandbox = Sandbox::new(Store::Postgres);
    let receiver = Receiver::responding(200);
    let service = sandbox.serve();
    let mut subscriber = service.subscribe(None);
    let enqueue = |number: u32| {
        format!(
            "SELECT app.enqueue_webhook(destination_url => '{}', event_type => 'invoice.paid', \
             payload => '{{\"b\": {number}.50, \"a\":1}}')",
            receiver.url()
        )
    };
    sandbox.sql(&format!("BEGIN; {}; ROLLBACK;", enqueue(1)));
    let event_id = sandbox.sql(&format!("BEGIN; {}; COMMIT;", enqueue(2)));
    assert_eq!(subscriber.next_notice()["webhook_delivery_id"], json!(event_id));
    service.stop();
    let requests = receiver.requests();
    assert_eq!((requests.len(), requests[0].body.as_str()), (1, r#"{"b": 2.50, "a":1}"#));
}
