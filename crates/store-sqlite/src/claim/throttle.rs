//! Throttles of endpoints and applications: a claim grants no more events than they allow, and spends them in its
//! transaction.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use posthaste_domain::{DestinationId, Throttle, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::WaitingDestination;
use crate::row;

/// The token bucket of an endpoint or an application during a claim.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    throttle: Throttle,
    spent_until: Option<Timestamp>,
}

impl Bucket {
    /// Reads the rate and the time until which tokens are spent, from two columns. `None` without a throttle.
    pub(super) fn from_row(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Self>> {
        let throttle = row.get::<_, Option<i64>>(column)?.and_then(|rate| Throttle::new(rate).ok());
        let Some(throttle) = throttle else { return Ok(None) };
        Ok(Some(Self { throttle, spent_until: row::optional_timestamp(row, column + 1)? }))
    }
}

/// A bucket, and how many events the claim may still grant from it.
#[derive(Debug, Clone, Copy)]
struct OpenBucket {
    bucket: Bucket,
    tokens: usize,
    is_spent: bool,
}

impl OpenBucket {
    fn new(bucket: Bucket, now: Timestamp) -> Self {
        let tokens = bucket.throttle.available(bucket.spent_until, now);
        Self { bucket, tokens, is_spent: false }
    }

    fn take(&mut self, now: Timestamp) {
        let Bucket { throttle, spent_until } = self.bucket;
        self.bucket.spent_until = Some(throttle.spend(spent_until, now, 1));
        self.tokens = self.tokens.saturating_sub(1);
        self.is_spent = true;
    }
}

/// The buckets of the endpoints and applications that a claim has met.
#[derive(Default)]
pub(super) struct Throttles {
    endpoints: BTreeMap<DestinationId, Option<OpenBucket>>,
    applications: BTreeMap<i64, Option<OpenBucket>>,
}

impl Throttles {
    /// Returns how many more events of a destination the throttles allow.
    pub(super) fn available(
        &mut self,
        db: &Connection,
        now: Timestamp,
        destination: &WaitingDestination,
    ) -> rusqlite::Result<usize> {
        if destination.app == 0 {
            return Ok(usize::MAX);
        }
        let of_endpoint = self
            .endpoints
            .entry(destination.id)
            .or_insert_with(|| destination.bucket.map(|bucket| OpenBucket::new(bucket, now)));
        if let Entry::Vacant(vacant) = self.applications.entry(destination.app) {
            let bucket = read_application(db, destination.app)?;
            vacant.insert(bucket.map(|bucket| OpenBucket::new(bucket, now)));
        }
        let of_application = self.applications.get(&destination.app).copied().flatten();
        let tokens = |bucket: Option<OpenBucket>| bucket.map_or(usize::MAX, |bucket| bucket.tokens);
        Ok(tokens(*of_endpoint).min(tokens(of_application)))
    }

    /// Spends a token of each throttle of a destination.
    pub(super) fn take(&mut self, now: Timestamp, destination: &WaitingDestination) {
        let of_endpoint = self.endpoints.get_mut(&destination.id).and_then(Option::as_mut);
        let of_application = self.applications.get_mut(&destination.app).and_then(Option::as_mut);
        of_endpoint.into_iter().chain(of_application).for_each(|bucket| bucket.take(now));
    }

    /// Stores the buckets that the claim has spent from.
    pub(super) fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        let spent = |bucket: &Option<OpenBucket>| {
            bucket.filter(|bucket| bucket.is_spent).and_then(|bucket| bucket.bucket.spent_until)
        };
        for (id, bucket) in &self.endpoints {
            if let Some(until) = spent(bucket) {
                db.prepare_cached("UPDATE webhook_destinations SET throttle_spent_until = ?2 WHERE id = ?1")?
                    .execute((id.0, until.as_micros()))?;
            }
        }
        for (id, bucket) in &self.applications {
            if let Some(until) = spent(bucket) {
                db.prepare_cached("UPDATE webhook_applications SET throttle_spent_until = ?2 WHERE id = ?1")?
                    .execute((id, until.as_micros()))?;
            }
        }
        Ok(())
    }
}

fn read_application(db: &Connection, app: i64) -> rusqlite::Result<Option<Bucket>> {
    let bucket = db
        .prepare_cached(
            "SELECT throttle_per_second, throttle_spent_until FROM webhook_applications WHERE id = ?1",
        )?
        .query_row([app], |row| Bucket::from_row(row, 0))
        .optional()?;
    Ok(bucket.flatten())
}
