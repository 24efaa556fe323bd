//! Generators of what calls on the registry name: applications, endpoints, messages, event types, channels and settings.

use posthaste_domain::{Channel, DeliveryOrder, EventTypeName, Metadata, Throttle};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::operation::{AnswerSpec, AppChoice, EndpointChoice, MessageChoice, Org};
use crate::durations::ANSWER_LIFETIMES;
use crate::generate::recency_index;
use crate::operation::Destination;

pub(crate) const EVENT_TYPES: [&str; 3] = ["invoice.paid", "invoice.voided", "user.created"];
pub(super) const URLS: [&str; 3] = [Destination::A.url(), Destination::C.url(), "https://e.example/hook"];
pub(super) const CHANNELS: [&str; 2] = ["eu", "us"];
pub(super) const TAGS: [&str; 2] = ["red", "green"];

pub(super) fn app_uid(number: u8) -> String {
    format!("customer-{number}")
}

pub(super) fn endpoint_uid(number: u8) -> String {
    format!("hook-{number}")
}

pub(super) fn org() -> impl Strategy<Value = Org> {
    prop_oneof![6 => Just(Org::Default), 1 => Just(Org::Other)]
}

pub(super) fn app() -> impl Strategy<Value = AppChoice> {
    prop_oneof![
        18 => recency_index().prop_map(AppChoice::Live),
        1 => recency_index().prop_map(AppChoice::Any),
        1 => recency_index().prop_map(AppChoice::Foreign),
        1 => (0..3_u8).prop_map(AppChoice::Uid),
    ]
}

pub(super) fn endpoint() -> impl Strategy<Value = EndpointChoice> {
    prop_oneof![
        12 => recency_index().prop_map(EndpointChoice::Live),
        2 => recency_index().prop_map(EndpointChoice::LiveByUid),
        1 => recency_index().prop_map(EndpointChoice::Any),
        1 => recency_index().prop_map(EndpointChoice::OfLatestApp),
        1 => (0..3_u8).prop_map(EndpointChoice::Uid),
    ]
}

pub(super) fn message() -> impl Strategy<Value = MessageChoice> {
    prop_oneof![
        8 => recency_index().prop_map(MessageChoice::Any),
        1 => recency_index().prop_map(MessageChoice::ByUid),
        1 => recency_index().prop_map(MessageChoice::OfLatestApp),
    ]
}

pub(super) fn answer() -> impl Strategy<Value = AnswerSpec> {
    (0..3_u8, select(&ANSWER_LIFETIMES[..])).prop_map(|(number, keep_for)| AnswerSpec { number, keep_for })
}

pub(super) fn event_type_name() -> impl Strategy<Value = EventTypeName> {
    select(&EVENT_TYPES[..]).prop_map(|name| EventTypeName::new(name).expect("a valid name"))
}

pub(super) fn channel() -> impl Strategy<Value = Channel> {
    select(&CHANNELS[..]).prop_map(|name| Channel::new(name).expect("a valid name"))
}

/// Generates the URL of an endpoint. Endpoints share hosts, and sometimes URLs, with the destinations of direct events.
pub(super) fn url() -> impl Strategy<Value = &'static str> {
    select(&URLS[..])
}

pub(super) fn order() -> impl Strategy<Value = DeliveryOrder> {
    prop_oneof![2 => Just(DeliveryOrder::Any), 1 => Just(DeliveryOrder::Fifo)]
}

pub(super) fn throttle() -> impl Strategy<Value = Option<Throttle>> {
    option::of((1..=3_i64).prop_map(|rate| Throttle::new(rate).expect("a valid rate")))
}

pub(super) fn metadata() -> impl Strategy<Value = Metadata> {
    let pairs = prop_oneof![Just(vec![]), Just(vec![("plan".to_owned(), "it's \u{1f980}".to_owned())])];
    pairs.prop_map(|pairs| Metadata::new(pairs.into_iter().collect()).expect("valid metadata"))
}
