//! Settlements as columns, the form in which the settle statement takes them.

use posthaste_domain::{ErrorClass, FailureKind, ReceiverHealth};
use posthaste_store::Settlement;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::convert::micros;

/// Settlements as columns of parameters. Durations are in microseconds.
#[derive(Default)]
pub(super) struct SettlementColumns<'a> {
    keys: Vec<i64>,
    tokens: Vec<Uuid>,
    attempts: Vec<i32>,
    retry_delays: Vec<Option<i64>>,
    failure_kinds: Vec<Option<&'a str>>,
    last_errors: Vec<Option<String>>,
    /// How long ago each attempt started.
    started_ago: Vec<i64>,
    durations: Vec<i64>,
    http_statuses: Vec<Option<i16>>,
    error_classes: Vec<Option<&'a str>>,
    excerpts: Vec<&'a str>,
    triggers: Vec<&'a str>,
    pauses: Vec<Option<i64>>,
    /// 1 for a healthy receiver, -1 for an unhealthy one, 0 if the attempt shows neither.
    healths: Vec<i16>,
    /// The index of each settlement in its batch.
    batch_indexes: Vec<i32>,
}

impl<'a> SettlementColumns<'a> {
    pub(super) fn push(&mut self, batch_index: usize, settlement: &'a Settlement) {
        let transition = &*settlement.transition;
        let outcome = transition.outcome();
        self.keys.push(transition.key().0);
        self.tokens.push(transition.token().as_uuid());
        self.attempts.push(i32::try_from(transition.attempt()).unwrap_or(i32::MAX));
        self.retry_delays.push(transition.retry_after().map(micros));
        self.failure_kinds.push(transition.failure_kind().map(FailureKind::as_str));
        self.last_errors.push(transition.last_error());
        self.started_ago.push(micros(settlement.ended_ago.saturating_add(transition.duration())));
        self.durations.push(micros(transition.duration()));
        self.http_statuses.push(outcome.http_status().and_then(|status| i16::try_from(status).ok()));
        self.error_classes.push(outcome.error_class().map(ErrorClass::as_str));
        self.excerpts.push(outcome.excerpt().as_str());
        self.triggers.push(transition.trigger().as_str());
        self.pauses.push(transition.destination_pause().map(micros));
        self.healths.push(match outcome.health() {
            ReceiverHealth::Healthy => 1,
            ReceiverHealth::Unhealthy => -1,
            ReceiverHealth::Unknown => 0,
        });
        self.batch_indexes.push(i32::try_from(batch_index).expect("a batch has fewer than 2^31 settlements"));
    }

    /// Returns the parameters of events that reach a terminal state.
    pub(super) fn completed_params(&self) -> [&(dyn ToSql + Sync); 14] {
        self.params(&self.failure_kinds)
    }

    /// Returns the parameters of events that will be retried.
    pub(super) fn retried_params(&self) -> [&(dyn ToSql + Sync); 14] {
        self.params(&self.retry_delays)
    }

    /// Returns the parameters of late results.
    pub(super) fn late_params(&self) -> [&(dyn ToSql + Sync); 10] {
        [
            &self.keys,
            &self.tokens,
            &self.attempts,
            &self.started_ago,
            &self.durations,
            &self.http_statuses,
            &self.error_classes,
            &self.excerpts,
            &self.triggers,
            &self.batch_indexes,
        ]
    }

    /// Returns the keys of the events.
    pub(super) fn keys(&self) -> &Vec<i64> {
        &self.keys
    }

    /// Returns the parameters in the order of the statement. `result` is the one column that differs between completed
    /// and retried events.
    fn params<'p>(&'p self, result: &'p (dyn ToSql + Sync)) -> [&'p (dyn ToSql + Sync); 14] {
        [
            &self.keys,
            &self.tokens,
            &self.attempts,
            result,
            &self.last_errors,
            &self.started_ago,
            &self.durations,
            &self.http_statuses,
            &self.error_classes,
            &self.excerpts,
            &self.triggers,
            &self.pauses,
            &self.healths,
            &self.batch_indexes,
        ]
    }
}
