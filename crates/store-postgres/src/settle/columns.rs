//! Settlements as columns, the form in which the settle statements take them. Durations are in microseconds.

use posthaste_domain::{EndpointDisable, ErrorClass, FailureKind, ReceiverHealth};
use posthaste_store::Settlement;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::convert::{lease_claim, micros};

type Param<'a> = &'a (dyn ToSql + Sync);

/// What every result of an attempt has.
#[derive(Default)]
struct AttemptColumns<'a> {
    keys: Vec<i64>,
    /// The claims that granted the leases.
    claims: Vec<Uuid>,
    /// How long ago each attempt started.
    started_ago: Vec<i64>,
    durations: Vec<i64>,
    http_statuses: Vec<Option<i16>>,
    excerpts: Vec<&'a str>,
    /// The index of each settlement in its batch.
    batch_indexes: Vec<i32>,
}

impl<'a> AttemptColumns<'a> {
    fn push(&mut self, batch_index: usize, settlement: &'a Settlement) {
        let transition = &*settlement.transition;
        let outcome = transition.outcome();
        self.keys.push(transition.key().0);
        self.claims.push(lease_claim(transition.token(), transition.key()));
        self.started_ago.push(micros(settlement.ended_ago.saturating_add(transition.duration())));
        self.durations.push(micros(transition.duration()));
        self.http_statuses.push(outcome.http_status().and_then(|status| i16::try_from(status).ok()));
        self.excerpts.push(outcome.excerpt().as_str());
        self.batch_indexes.push(i32::try_from(batch_index).expect("a batch has fewer than 2^31 settlements"));
    }

    fn params(&self) -> [Param<'_>; 7] {
        [
            &self.keys,
            &self.claims,
            &self.started_ago,
            &self.durations,
            &self.http_statuses,
            &self.excerpts,
            &self.batch_indexes,
        ]
    }
}

/// Results that deliver their events. The statement derives everything else from the rows of the queue.
#[derive(Default)]
pub(super) struct Deliveries<'a>(AttemptColumns<'a>);

impl<'a> Deliveries<'a> {
    pub(super) fn push(&mut self, batch_index: usize, settlement: &'a Settlement) {
        self.0.push(batch_index, settlement);
    }

    pub(super) fn params(&self) -> [Param<'_>; 7] {
        self.0.params()
    }
}

/// Results that do not deliver their events: retries and failures.
#[derive(Default)]
pub(super) struct Failures<'a> {
    attempts: AttemptColumns<'a>,
    /// None for an event that is not retried.
    retry_delays: Vec<Option<i64>>,
    failure_kinds: Vec<Option<&'a str>>,
    last_errors: Vec<Option<String>>,
    error_classes: Vec<Option<&'a str>>,
    pauses: Vec<Option<i64>>,
    /// 1 for a healthy receiver, -1 for an unhealthy one, 0 if the attempt shows neither.
    healths: Vec<i16>,
    /// How long an endpoint may have been failing before the result disables it: zero disables it at once.
    disables: Vec<Option<i64>>,
}

impl<'a> Failures<'a> {
    pub(super) fn push(&mut self, batch_index: usize, settlement: &'a Settlement) {
        let transition = &*settlement.transition;
        self.attempts.push(batch_index, settlement);
        self.retry_delays.push(transition.retry_after().map(micros));
        self.failure_kinds.push(transition.failure_kind().map(FailureKind::as_str));
        self.last_errors.push(transition.last_error());
        self.error_classes.push(transition.outcome().error_class().map(ErrorClass::as_str));
        self.pauses.push(transition.destination_pause().map(micros));
        self.healths.push(match transition.outcome().health() {
            ReceiverHealth::Healthy => 1,
            ReceiverHealth::Unhealthy => -1,
            ReceiverHealth::Unknown => 0,
        });
        self.disables.push(transition.endpoint_disable().map(|rule| match rule {
            EndpointDisable::Gone => 0,
            EndpointDisable::FailingFor(limit) => micros(limit).max(1),
        }));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.healths.is_empty()
    }

    pub(super) fn params(&self) -> Vec<Param<'_>> {
        let own: [Param<'_>; 7] = [
            &self.retry_delays,
            &self.failure_kinds,
            &self.last_errors,
            &self.error_classes,
            &self.pauses,
            &self.healths,
            &self.disables,
        ];
        [&self.attempts.params()[..], &own].concat()
    }
}

/// Results whose leases had been lost. The event's row has moved on, so they name the attempt themselves.
#[derive(Default)]
pub(super) struct LateResults<'a> {
    attempts: AttemptColumns<'a>,
    ordinals: Vec<i32>,
    error_classes: Vec<Option<&'a str>>,
    triggers: Vec<&'a str>,
}

impl<'a> LateResults<'a> {
    pub(super) fn push(&mut self, batch_index: usize, settlement: &'a Settlement) {
        let transition = &*settlement.transition;
        self.attempts.push(batch_index, settlement);
        self.ordinals.push(i32::try_from(transition.attempt()).unwrap_or(i32::MAX));
        self.error_classes.push(transition.outcome().error_class().map(ErrorClass::as_str));
        self.triggers.push(transition.trigger().as_str());
    }

    pub(super) fn keys(&self) -> &Vec<i64> {
        &self.attempts.keys
    }

    pub(super) fn params(&self) -> Vec<Param<'_>> {
        let own: [Param<'_>; 3] = [&self.ordinals, &self.error_classes, &self.triggers];
        [&self.attempts.params()[..], &own].concat()
    }
}
