//! Leases on new events, granted in the commit that stores the events. Such an event never enters the queue of its
//! destination unless its worker releases it.

use posthaste_domain::{
    ClaimId, DestinationId, EventId, EventKey, Lease, MessageId, NewEvent, NewEventIds, Timestamp,
};
use posthaste_store::EnqueueLease;
use rand::RngExt as _;
use rand::rngs::StdRng;
use rusqlite::{CachedStatement, Connection};

use crate::claims::{self, ClaimNumber, LeaseCounts, NewClaim};
use crate::token_seed::TokenSeed;

/// The leases that one request is granted on its events. They are stored as a claim of their own.
pub(super) struct NewLeases<'a> {
    db: &'a Connection,
    now: Timestamp,
    request: &'a EnqueueLease,
    claim_id: ClaimId,
    number: ClaimNumber,
    seed: TokenSeed,
    leases: Vec<Lease>,
    is_excluded: CachedStatement<'a>,
    insert_leased: CachedStatement<'a>,
}

impl<'a> NewLeases<'a> {
    pub(super) fn prepare(
        db: &'a Connection,
        now: Timestamp,
        random: &mut StdRng,
        request: &'a EnqueueLease,
    ) -> rusqlite::Result<Self> {
        Ok(Self {
            db,
            now,
            request,
            claim_id: ClaimId::random(random.random()),
            number: claims::next_claim_number(db)?,
            seed: TokenSeed::random(random),
            leases: Vec::new(),
            is_excluded: db.prepare_cached(
                "SELECT 1 FROM webhook_destinations
                 WHERE id = ?1 AND (paused_until > ?2 OR profile_version > 0)",
            )?,
            insert_leased: db.prepare_cached(
                "INSERT INTO webhook_queue
                     (id, destination_id, claims, next_attempt_at, updated_at, lease_token, lease_claim, lease_until)
                 VALUES (?1, ?2, 1, ?3, ?3, ?4, ?5, ?6)",
            )?,
        })
    }

    /// Inserts a new event into `webhook_queue` under a lease. Returns false, and inserts nothing, if its destination is
    /// paused or has keys of its own, which only a claim announces.
    pub(super) fn insert(
        &mut self,
        key: i64,
        destination_id: i64,
        message_id: MessageId,
        event_id: &EventId,
        event: &NewEvent,
    ) -> rusqlite::Result<bool> {
        if self.is_excluded.exists((destination_id, self.now.as_micros()))? {
            return Ok(false);
        }
        let until = self.until();
        self.insert_leased.execute((
            key,
            destination_id,
            self.now.as_micros(),
            self.seed.into_bytes(),
            self.number.0,
            until.as_micros(),
        ))?;
        let key = EventKey(key);
        let destination_id = DestinationId(destination_id);
        let ids = NewEventIds { key, event_id: event_id.clone(), message_id, destination_id };
        self.leases.push(Lease::on_new_event(event, ids, self.seed.token(key)));
        Ok(true)
    }

    /// Stores the claim, if it has any leases, and returns them.
    pub(super) fn finish(self) -> rusqlite::Result<Vec<Lease>> {
        if !self.leases.is_empty() {
            let claim = NewClaim {
                number: self.number,
                id: self.claim_id,
                owner: &self.request.owner,
                lease: self.request.duration,
                until: self.until(),
            };
            let mut counts = LeaseCounts::default();
            self.leases.iter().for_each(|lease| counts.add(lease.is_retry()));
            claims::insert(self.db, &claim, counts, self.leases.iter().map(|lease| lease.key))?;
        }
        Ok(self.leases)
    }

    fn until(&self) -> Timestamp {
        self.now.after(self.request.duration)
    }
}
