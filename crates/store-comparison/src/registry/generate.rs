//! Generators of operations on the registry. Names and uids come from small sets, so that they are often taken or matched.

use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::{
    ApplicationChange, ApplicationName, ApplicationSpec, Description, EventTypeChange, EventTypeSettings,
    MessageSpec, NewApplication, NewEventType, NewMessage, Throttle, Uid,
};
use posthaste_store::{KeyGrace, OperationKind, PastRange};
use proptest::collection::{btree_set, vec};
use proptest::option::{self, weighted};
use proptest::prelude::*;
use proptest::sample::select;

use super::generate_choice::{
    CHANNELS, TAGS, answer, app, app_uid, endpoint, event_type_name, message, metadata, org, throttle, url,
};
use super::generate_endpoint::{change_endpoint, create_endpoint, put_endpoint};
use super::generate_list::list;
use super::operation::{AppChoice, Org, RegistryOperation};
use crate::durations::{DELIVERY_DELAYS, KEY_GRACES, OPERATION_RANGES, PAST_TIMES};
use crate::generate::{actor, destination_choice, recency_index};
use crate::operation::DestinationChoice;

/// Generates the calls with which a sequence begins: an application, event types, endpoints and messages. The messages before the
/// endpoints are those that an operation can replay.
pub(crate) fn setup() -> impl Strategy<Value = Vec<RegistryOperation>> {
    let app = new_application().prop_map(|new| {
        let (org, returns_existing, answer) = (Org::Default, false, None);
        RegistryOperation::CreateApplication { org, new: Box::new(new), returns_existing, answer }
    });
    let event_types = vec(new_event_type(), 0..=2).prop_map(|types| {
        let put = |new| RegistryOperation::PutEventType { org: Org::Default, new: Box::new(new) };
        types.into_iter().map(put)
    });
    (app, event_types, vec(publish(), 0..=1), vec(create_endpoint(), 1..=3), vec(publish(), 0..=2)).prop_map(
        |(app, types, missed, endpoints, messages)| {
            let calls = [app].into_iter().chain(types).chain(missed);
            calls.chain(endpoints).chain(messages).collect()
        },
    )
}

/// Generates a call on the registry, or a few that belong together. Publications and changes of endpoints are the most frequent.
pub(crate) fn registry_calls() -> impl Strategy<Value = Vec<RegistryOperation>> {
    let step = || (1..=4_usize).prop_map(|rows_max| RegistryOperation::AdvanceOperations { rows_max });
    let operation = (start_operation(), vec(step(), 0..=3));
    prop_oneof![
        20 => vec(publish(), 1..=2),
        6 => operation.prop_map(|(start, steps)| [start].into_iter().chain(steps).collect()),
        40 => vec(registry_call(), 1),
    ]
}

fn registry_call() -> impl Strategy<Value = RegistryOperation> {
    prop_oneof![
        6 => applications(),
        2 => event_types(),
        4 => create_endpoint(),
        3 => put_endpoint(),
        11 => change_endpoint(),
        3 => (endpoint(), actor()).prop_map(|(endpoint, actor)| RegistryOperation::DeleteEndpoint { endpoint, actor }),
        6 => resend(),
        2 => (message(), actor()).prop_map(|(message, actor)| RegistryOperation::ExpungeMessage { message, actor }),
        1 => (1..=4_usize).prop_map(|rows_max| RegistryOperation::AdvanceOperations { rows_max }),
        1 => recency_index().prop_map(RegistryOperation::StopOperation),
        8 => keys(),
        2 => count_events(),
        22 => list(),
    ]
}

fn applications() -> impl Strategy<Value = RegistryOperation> {
    let boxed = || new_application().prop_map(Box::new);
    prop_oneof![
        3 => (org(), boxed(), any::<bool>(), weighted(0.3, answer())).prop_map(
            |(org, new, returns_existing, answer)| RegistryOperation::CreateApplication { org, new, returns_existing, answer },
        ),
        2 => (app(), boxed()).prop_map(|(app, new)| RegistryOperation::PutApplication { app, new }),
        4 => (app(), application_change()).prop_map(|(app, change)| RegistryOperation::ChangeApplication { app, change: Box::new(change) }),
        2 => (app(), actor()).prop_map(|(app, actor)| RegistryOperation::DeleteApplication { app, actor }),
    ]
}

fn new_application() -> impl Strategy<Value = NewApplication> {
    (option::of(0..3_u8), weighted(0.3, 1..=3_i64), metadata()).prop_map(
        |(uid, throttle_per_second, metadata)| {
            let spec = ApplicationSpec {
                name: "B\u{fc}cher".to_owned(),
                uid: uid.map(app_uid),
                throttle_per_second,
                metadata: metadata.pairs().clone(),
            };
            NewApplication::accept(spec).expect("a valid application")
        },
    )
}

fn application_change() -> impl Strategy<Value = ApplicationChange> {
    let uid = option::of(0..3_u8)
        .prop_map(|uid| uid.map(|uid| Uid::for_application(&app_uid(uid)).expect("a valid uid")));
    let name = Just(ApplicationName::new("it's").expect("a valid name"));
    (option::of(name), weighted(0.3, uid), option::of(throttle()), option::of(metadata()))
        .prop_map(|(name, uid, throttle, metadata)| ApplicationChange { name, uid, throttle, metadata })
}

fn event_types() -> impl Strategy<Value = RegistryOperation> {
    let change = (
        option::of(any::<bool>()),
        option::of(any::<bool>()),
        option::of(option::of(Just("billing".to_owned()))),
    )
        .prop_map(|(is_archived, is_deprecated, group_name)| EventTypeChange {
            is_archived,
            is_deprecated,
            group_name,
            ..EventTypeChange::default()
        });
    prop_oneof![
        2 => (org(), new_event_type(), weighted(0.3, answer())).prop_map(
            |(org, new, answer)| RegistryOperation::CreateEventType { org, new: Box::new(new), answer },
        ),
        1 => put_event_type(),
        3 => (org(), event_type_name(), change).prop_map(
            |(org, name, change)| RegistryOperation::ChangeEventType { org, name, change: Box::new(change) },
        ),
        1 => (org(), event_type_name()).prop_map(|(org, name)| RegistryOperation::ExpungeEventType { org, name }),
    ]
}

fn put_event_type() -> impl Strategy<Value = RegistryOperation> {
    (org(), new_event_type())
        .prop_map(|(org, new)| RegistryOperation::PutEventType { org, new: Box::new(new) })
}

fn new_event_type() -> impl Strategy<Value = NewEventType> {
    (event_type_name(), any::<bool>(), btree_set(select(&["beta", "it's"][..]), 0..=2)).prop_map(
        |(name, all_fields, flags)| {
            let settings = EventTypeSettings {
                description: Description::new(if all_fields { "paid \u{1f980}" } else { "" })
                    .expect("it is short"),
                schemas: all_fields.then(|| r#"{"1": {"type": "object"}}"#.to_owned()),
                is_deprecated: all_fields,
                group_name: all_fields.then(|| "billing".to_owned()),
                feature_flags: flags.into_iter().map(str::to_owned).collect(),
            };
            NewEventType { name, settings }
        },
    )
}

fn publish() -> impl Strategy<Value = RegistryOperation> {
    let app = prop_oneof![8 => app(), 1 => (0..3_u8).prop_map(AppChoice::Uid)];
    (
        app,
        new_message(),
        weighted(0.2, new_application().prop_map(Box::new)),
        weighted(0.1, recency_index()),
        weighted(0.5, select(&["orders", "invoices"][..])),
        weighted(0.2, answer()),
    )
        .prop_map(|(app, message, create_app, only_endpoint, stored_by, answer)| {
            RegistryOperation::Publish {
                app,
                message: Box::new(message),
                create_app,
                only_endpoint,
                stored_by,
                answer,
            }
        })
}

fn new_message() -> impl Strategy<Value = NewMessage> {
    (
        event_type_name(),
        weighted(0.15, 0..4_u8),
        weighted(0.4, vec(select(&CHANNELS[..]), 1..=2)),
        vec(select(&TAGS[..]), 0..=2),
        weighted(0.1, select(&DELIVERY_DELAYS[..])),
        select(&[90_u32, 5][..]),
        (
            prop_oneof![2 => Just(1_u32), 1 => 2..=3_u32],
            any::<bool>(),
            prop_oneof![4 => Just(0_usize), 1 => Just(40_usize), 1 => Just(200_usize)],
        ),
    )
        .prop_map(
            |(
                event_type,
                uid,
                channels,
                tags,
                deliver_in,
                retention_days,
                (max_attempts, all_fields, padding),
            )| {
                let optional = |text: &str| all_fields.then(|| text.to_owned());
                let spec = MessageSpec {
                    event_type: event_type.as_str().to_owned(),
                    payload: Bytes::from([&br#"{"amount": 1.0}"#[..], &vec![b' '; padding]].concat()),
                    content_type: None,
                    uid: uid.map(|uid| format!("order-{uid}")),
                    channels: channels.map(|channels| channels.into_iter().map(str::to_owned).collect()),
                    tags: tags.into_iter().map(str::to_owned).collect(),
                    deliver_in: deliver_in.unwrap_or(Duration::ZERO),
                    payload_retention_days: Some(retention_days),
                    payment_request_id: optional("pr-1"),
                    session_id: optional("se-3"),
                    traceparent: optional("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
                    max_attempts: Some(max_attempts),
                };
                NewMessage::accept(spec, 1 << 20, max_attempts).expect("a valid message")
            },
        )
}

fn resend() -> impl Strategy<Value = RegistryOperation> {
    (message(), recency_index(), actor(), weighted(0.2, answer())).prop_map(
        |(message, endpoint, actor, answer)| RegistryOperation::Resend { message, endpoint, actor, answer },
    )
}

fn start_operation() -> impl Strategy<Value = RegistryOperation> {
    let kind = select(&[OperationKind::Recover, OperationKind::ReplayMissing][..]);
    let range = select(&OPERATION_RANGES[..])
        .prop_map(|(since, until)| PastRange::new(since, until).expect("a valid period"));
    let rate = select(&[1_000_i64, 2, 1][..]).prop_map(|rate| Throttle::new(rate).expect("a valid rate"));
    (endpoint(), kind, range, rate, actor(), weighted(0.1, answer())).prop_map(
        |(endpoint, kind, range, rate, actor, answer)| RegistryOperation::StartOperation {
            endpoint,
            kind,
            range,
            rate,
            actor,
            answer,
        },
    )
}

fn keys() -> impl Strategy<Value = RegistryOperation> {
    let destination_choice = || {
        prop_oneof![
            3 => recency_index().prop_map(DestinationChoice::Endpoint),
            1 => destination_choice(),
        ]
    };
    let times = prop_oneof![12 => Just(1_usize), 1 => Just(12_usize)];
    let grace = select(&KEY_GRACES[..]).prop_map(|grace| KeyGrace::new(grace).expect("a valid grace period"));
    prop_oneof![
        5 => (destination_choice(), grace, actor(), times, any::<bool>(), weighted(0.1, answer())).prop_map(
            |(destination, grace, actor, times, is_repeated, answer)| RegistryOperation::RotateKey { destination, grace, actor, times, is_repeated, answer },
        ),
        3 => (destination_choice(), weighted(0.8, Just(())), any::<bool>()).prop_map(
            |(destination, expected, has_headers)| RegistryOperation::SetHeaders { destination, is_expected: expected.is_some(), has_headers },
        ),
        1 => (0..6_usize, 1..=4_usize, any::<bool>()).prop_map(|(skip, limit, is_current)| RegistryOperation::Reseal { skip, limit, is_current }),
        1 => url().prop_map(RegistryOperation::FindUrlDestination),
    ]
}

fn count_events() -> impl Strategy<Value = RegistryOperation> {
    let ago = || option::of(select(&PAST_TIMES[..]));
    (endpoint(), ago(), ago()).prop_map(|(endpoint, since_ago, until_ago)| RegistryOperation::CountEvents {
        endpoint,
        since_ago,
        until_ago,
    })
}
