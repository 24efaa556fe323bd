//! Generators of calls on endpoints.

use posthaste_domain::{DestinationUrl, EndpointChange, EndpointSpec, NewEndpoint, Uid};
use proptest::collection::{btree_set, vec};
use proptest::option::{self, weighted};
use proptest::prelude::*;
use proptest::sample::select;

use super::generate_choice::{
    CHANNELS, EVENT_TYPES, answer, app, channel, endpoint, endpoint_uid, event_type_name, metadata, order,
    throttle, url,
};
use super::operation::{EndpointChoice, RegistryOperation};
use crate::generate::actor;

pub(super) fn create_endpoint() -> impl Strategy<Value = RegistryOperation> {
    (app(), new_endpoint(), any::<bool>(), weighted(0.1, answer())).prop_map(
        |(app, new, has_headers, answer)| RegistryOperation::CreateEndpoint {
            app,
            new: Box::new(new),
            has_headers,
            answer,
        },
    )
}

fn new_endpoint() -> impl Strategy<Value = NewEndpoint> {
    (
        url(),
        option::of(0..3_u8),
        weighted(0.1, Just(())),
        weighted(0.25, vec(select(&EVENT_TYPES[..]), 1..=2)),
        weighted(0.2, vec(select(&CHANNELS[..]), 1..=2)),
        weighted(0.3, 1..=3_i64),
        order(),
        metadata(),
    )
        .prop_map(|(url, uid, disabled, event_types, channels, throttle_per_second, order, metadata)| {
            let texts = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect::<Vec<String>>();
            let spec = EndpointSpec {
                url: url.to_owned(),
                uid: uid.map(endpoint_uid),
                description: "main \u{1f980}".to_owned(),
                is_disabled: disabled.is_some(),
                event_types: event_types.map(texts),
                channels: channels.map(texts),
                throttle_per_second,
                order,
                metadata: metadata.pairs().clone(),
            };
            NewEndpoint::accept(spec).expect("a valid endpoint")
        })
}

pub(super) fn put_endpoint() -> impl Strategy<Value = RegistryOperation> {
    let endpoint = prop_oneof![2 => endpoint(), 1 => (0..3_u8).prop_map(EndpointChoice::Uid)];
    (endpoint, new_endpoint(), actor()).prop_map(|(endpoint, new, actor)| RegistryOperation::PutEndpoint {
        endpoint,
        new: Box::new(new),
        actor,
    })
}

/// Half of the changes only disable or enable the endpoint.
pub(super) fn change_endpoint() -> impl Strategy<Value = RegistryOperation> {
    let switch = any::<bool>()
        .prop_map(|disabled| EndpointChange { is_disabled: Some(disabled), ..EndpointChange::default() });
    let change = prop_oneof![1 => switch, 1 => endpoint_change()];
    (endpoint(), change, actor()).prop_map(|(endpoint, change, actor)| RegistryOperation::ChangeEndpoint {
        endpoint,
        change: Box::new(change),
        actor,
    })
}

fn endpoint_change() -> impl Strategy<Value = EndpointChange> {
    let uid = option::of(0..3_u8)
        .prop_map(|uid| uid.map(|uid| Uid::for_endpoint(&endpoint_uid(uid)).expect("a valid uid")));
    (
        weighted(0.3, url()),
        weighted(0.2, uid),
        weighted(0.2, any::<bool>()),
        weighted(0.3, option::of(btree_set(event_type_name(), 1..=2))),
        weighted(0.3, option::of(btree_set(channel(), 1..=2))),
        weighted(0.4, throttle()),
        weighted(0.4, order()),
        weighted(0.2, metadata()),
    )
        .prop_map(|(url, uid, is_disabled, event_types, channels, throttle, order, metadata)| {
            EndpointChange {
                url: url.map(|url| DestinationUrl::parse(url).expect("a valid URL")),
                uid,
                description: None,
                is_disabled,
                event_types,
                channels,
                throttle,
                order,
                metadata,
            }
        })
}
