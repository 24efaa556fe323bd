//! Generators of lists of the registry: which list, with which filters, and which page of it.

use posthaste_store::OperationState;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;

use super::generate_choice::{TAGS, app, channel, endpoint, event_type_name, message, org};
use super::operation::{AttemptFilterSpec, FromSpec, ListSpec, MessageFilterSpec, RegistryOperation};
use crate::durations::{ATTEMPT_FILTER_TIMES, PAST_TIMES};
use crate::generate::recency_index;

pub(super) fn list() -> impl Strategy<Value = RegistryOperation> {
    (list_spec(), from(), 1..=3_i64).prop_map(|(list, from, limit)| RegistryOperation::List {
        list,
        from,
        limit,
    })
}

/// Generates the position of a page.
pub(crate) fn from() -> impl Strategy<Value = FromSpec> {
    prop_oneof![
        1 => Just(FromSpec::Start),
        2 => (0..6_usize).prop_map(FromSpec::After),
        2 => (0..6_usize).prop_map(FromSpec::Before),
    ]
}

fn list_spec() -> impl Strategy<Value = ListSpec> {
    let state = select(OperationState::ALL);
    prop_oneof![
        1 => org().prop_map(ListSpec::Applications),
        1 => (org(), any::<bool>()).prop_map(|(org, include_archived)| ListSpec::EventTypes { org, include_archived }),
        2 => app().prop_map(ListSpec::Endpoints),
        6 => (app(), message_filter(), any::<bool>())
            .prop_map(|(app, filter, with_content)| ListSpec::Messages { app, filter, with_content }),
        2 => (endpoint(), message_filter(), any::<bool>())
            .prop_map(|(endpoint, filter, with_content)| ListSpec::MessagesOfEndpoint { endpoint, filter, with_content }),
        2 => message().prop_map(ListSpec::Destinations),
        2 => (message(), attempt_filter()).prop_map(|(message, filter)| ListSpec::AttemptsOfMessage { message, filter }),
        3 => (endpoint(), attempt_filter())
            .prop_map(|(endpoint, filter)| ListSpec::AttemptsOfEndpoint { endpoint, filter }),
        1 => weighted(0.5, state).prop_map(ListSpec::Operations),
    ]
}

fn message_filter() -> impl Strategy<Value = MessageFilterSpec> {
    let ago = || weighted(0.1, select(&PAST_TIMES[..]));
    (
        weighted(0.1, event_type_name()),
        weighted(0.1, channel()),
        weighted(0.1, select(&TAGS[..])),
        ago(),
        ago(),
    )
        .prop_map(|(event_type, channel, tag, before_ago, after_ago)| MessageFilterSpec {
            event_type,
            channel,
            tag,
            before_ago,
            after_ago,
        })
}

fn attempt_filter() -> impl Strategy<Value = AttemptFilterSpec> {
    let ago = || weighted(0.1, select(&ATTEMPT_FILTER_TIMES[..]));
    (
        weighted(0.1, recency_index()),
        weighted(0.2, any::<bool>()),
        weighted(0.2, select(&[0_u16, 2, 4, 5][..])),
        weighted(0.1, channel()),
        weighted(0.1, event_type_name()),
        (ago(), ago()),
    )
        .prop_map(
            |(endpoint, is_success, status_code_class, channel, event_type, (before_ago, after_ago))| {
                AttemptFilterSpec {
                    endpoint,
                    is_success,
                    status_code_class,
                    channel,
                    event_type,
                    before_ago,
                    after_ago,
                }
            },
        )
}
