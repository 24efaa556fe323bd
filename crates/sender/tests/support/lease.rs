//! The lease that the tests send. Its id and payload are the test vector of Standard Webhooks.

use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::{
    DestinationId, DestinationUrl, EventId, EventKey, Lease, LeaseToken, MessageId, Timestamp, Trigger,
};

pub(crate) const PAYLOAD: &[u8] = br#"{"test": 2432232314}"#;

pub(crate) fn lease(destination_url: DestinationUrl) -> Lease {
    Lease {
        token: LeaseToken::random([7; 16]),
        key: EventKey(1),
        event_id: EventId::new("msg_p5jXN8AQM9LWM0D4loKWxJek").expect("a valid id"),
        wire_id: EventId::new("msg_p5jXN8AQM9LWM0D4loKWxJek").expect("a valid id"),
        message_id: MessageId::v7(Timestamp::default(), [9; 10]),
        destination_id: DestinationId(1),
        destination_url,
        profile_version: 0,
        event_type: "invoice.paid".to_owned(),
        content_type: "application/json".to_owned(),
        payload: Bytes::from_static(PAYLOAD).into(),
        traceparent: None,
        attempts: 0,
        max_attempts: 6,
        trigger: Trigger::Scheduled,
        overdue: Duration::ZERO,
    }
}
