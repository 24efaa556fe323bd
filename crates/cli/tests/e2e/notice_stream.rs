//! Notice streams that resume after a restart of the service.

use crate::harness::{Event, Receiver, Reply, Sandbox, Service};

on_each_store! {
    subscriber_that_resumes_after_a_restart_misses_no_notice,
}

/// Enqueues an event and waits until it is delivered, or dead-lettered if `gone`. Returns the event id and the type of its
/// notice.
fn finish_event(service: &Service, receiver: &Receiver, gone: bool) -> (String, String) {
    let event = Event::to(receiver).with("event_type", if gone { "invoice.void" } else { "invoice.paid" });
    let event_id = service.enqueue(&event);
    let notice = if gone { "WebhookDLQEvent" } else { "WebhookDeliveredEvent" };
    match gone {
        true => service.wait_until_failed(&event_id),
        false => service.wait_until_delivered(&event_id),
    };
    (event_id, notice.to_owned())
}

fn subscriber_that_resumes_after_a_restart_misses_no_notice(sandbox: Sandbox) {
    let receiver = Receiver::scripted(|request, _| {
        Reply::Status(if request.header("posthaste-event-type") == Some("invoice.void") { 410 } else { 200 })
    });
    let service = sandbox.serve();
    let earlier = finish_event(&service, &receiver, false);
    let mut subscriber = service.subscribe(None);
    let expected = [finish_event(&service, &receiver, false), finish_event(&service, &receiver, true)];
    assert_eq!(subscriber.next_notices(2), expected);
    assert!(!expected.contains(&earlier), "a new stream starts with an old notice");
    let last_event_id = subscriber.last_event_id.clone();
    drop(subscriber);

    let mut missed = vec![finish_event(&service, &receiver, true), finish_event(&service, &receiver, false)];
    service.stop();
    let service = sandbox.serve();
    missed.push(finish_event(&service, &receiver, false));
    service.kill();
    let service = sandbox.serve();
    missed.push(finish_event(&service, &receiver, true));

    let mut subscriber = service.subscribe(last_event_id.as_deref());
    assert_eq!(
        subscriber.next_notices(missed.len()),
        missed,
        "the missed notices are not complete and in order"
    );
    let live = finish_event(&service, &receiver, false);
    assert_eq!(subscriber.next_notices(1), [live]);
    // An open stream does not delay the stop of a service.
    service.stop();
    subscriber.read_to_end();
}
