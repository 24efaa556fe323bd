//! New events as the parameters of the statement that inserts them, and its result.

use std::collections::BTreeSet;

use posthaste_domain::{
    ClaimId, DeliveryStatus, DestinationId, EventId, EventKey, Lease, MessageId, NewEvent, NewEventIds,
    Timestamp,
};
use posthaste_store::{EnqueueRequest, EnqueueResponse, Receipt};
use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::destination_ids::DestinationIds;
use super::insert_sql::{INSERT, INSERT_DEFERRED, INSERT_LEASED};
use crate::StoreState;
use crate::convert::{PgTimestamp, lease_token, micros};
use crate::notices::{EventReferences, NoticeReferences};
use crate::session::{Session, Sql};

/// Generates message ids from this host's clock and random numbers. The clock only sorts the ids; the time at which an
/// event was accepted is the server's.
pub(crate) struct MessageIds {
    now: Timestamp,
    random: StdRng,
}

impl MessageIds {
    #[expect(
        clippy::disallowed_methods,
        reason = "message ids sort by this host's clock and take its random numbers"
    )]
    pub(crate) fn from_system() -> Self {
        let since_epoch =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self { now: Timestamp::default().after(since_epoch), random: rand::make_rng() }
    }

    /// Draws the id of a claim.
    fn claim_id(&mut self) -> ClaimId {
        ClaimId::random(self.random.random())
    }

    /// Draws the id of a message.
    pub(crate) fn next(&mut self) -> MessageId {
        MessageId::v7(self.now, self.random.random())
    }
}

/// The parameters of [`INSERT`], [`INSERT_DEFERRED`] or [`INSERT_LEASED`]: one column per field. Payloads are borrowed, not copied.
pub(crate) struct Insert<'a> {
    events: Vec<&'a NewEvent>,
    /// The distinct destination URLs, sorted.
    urls: Vec<&'a str>,
    /// The cached ids of these destinations, in the order of `urls`.
    cached_ids: Vec<Option<i64>>,
    /// Per event, the position of its destination in `urls`, from 1.
    destination_indexes: Vec<i32>,
    message_ids: Vec<Uuid>,
    event_ids: Vec<EventId>,
    event_id_texts: Vec<String>,
    event_types: Vec<&'a str>,
    webhook_ids: Vec<Option<&'a str>>,
    payment_request_ids: Vec<Option<&'a str>>,
    session_ids: Vec<Option<&'a str>>,
    max_attempts: Vec<i32>,
    content_types: Vec<&'a str>,
    traceparents: Vec<Option<&'a str>>,
    payloads: Vec<&'a [u8]>,
    stored_by: Vec<Option<&'a str>>,
    /// Per event, the time until its first attempt is due, if one of them is due later. The events of such a batch get no leases.
    deliver_in: Option<Vec<Option<i64>>>,
    lease: Option<BatchLease<'a>>,
}

/// The claim that leases events of a batch. Its requests come from one process, so they want the same lease; a request that
/// wants another one gets none.
struct BatchLease<'a> {
    /// Per event, whether its request wants the lease.
    wants_lease: Vec<bool>,
    claim: Uuid,
    owner: &'a str,
    lease_us: i64,
}

impl<'a> Insert<'a> {
    /// Inserts the events of requests, with the names of the API keys that the requests were made with.
    pub(crate) fn of_requests(
        requests: impl Iterator<Item = &'a EnqueueRequest> + Clone,
        cache: &DestinationIds,
        message_ids: &mut MessageIds,
    ) -> Self {
        let events: Vec<&'a NewEvent> = requests.clone().flat_map(|request| &request.events).collect();
        let names = requests.clone().flat_map(|request| {
            let name = request.stored_by.as_deref();
            request.events.iter().map(move |_| name)
        });
        let terms = requests.clone().find_map(|request| request.lease.as_ref());
        let lease = terms.map(|terms| BatchLease {
            wants_lease: requests
                .flat_map(|request| {
                    let wants_lease = request.lease.as_ref() == Some(terms);
                    request.events.iter().map(move |_| wants_lease)
                })
                .collect(),
            claim: message_ids.claim_id().as_uuid(),
            owner: terms.owner.as_str(),
            lease_us: micros(terms.duration),
        });
        let insert = Self::new(&events, cache, message_ids);
        let lease = lease.filter(|_| insert.deliver_in.is_none());
        Self { stored_by: names.collect(), lease, ..insert }
    }

    /// Inserts events of a producer without an API key.
    pub(crate) fn new(events: &[&'a NewEvent], cache: &DestinationIds, message_ids: &mut MessageIds) -> Self {
        let sorted: BTreeSet<&'a str> = events.iter().map(|event| event.destination_url().as_str()).collect();
        let urls: Vec<&'a str> = sorted.into_iter().collect();
        let index_of = |url: &str| {
            let index = urls.binary_search(&url).expect("the list has the URL of every event");
            i32::try_from(index + 1).expect("a batch has far fewer than two billion events")
        };
        let column = |field: fn(&'a NewEvent) -> &'a str| events.iter().map(|event| field(event)).collect();
        let optional =
            |field: fn(&'a NewEvent) -> Option<&'a str>| events.iter().map(|event| field(event)).collect();
        let destination_indexes =
            events.iter().map(|event| index_of(event.destination_url().as_str())).collect();
        let messages: Vec<MessageId> = events.iter().map(|_| message_ids.next()).collect();
        let event_ids: Vec<EventId> = events
            .iter()
            .zip(&messages)
            .map(|(event, message)| {
                event.event_id().cloned().unwrap_or_else(|| EventId::from_message(*message))
            })
            .collect();
        let is_deferred = |event: &&NewEvent| !event.deliver_in().is_zero();
        let deliver_in =
            || events.iter().map(|event| Some(*event).filter(is_deferred).map(|it| micros(it.deliver_in())));
        Self {
            events: events.to_vec(),
            deliver_in: events.iter().any(is_deferred).then(|| deliver_in().collect()),
            lease: None,
            cached_ids: cache.get(&urls),
            urls,
            destination_indexes,
            message_ids: messages.into_iter().map(MessageId::as_uuid).collect(),
            event_id_texts: event_ids.iter().map(|event_id| event_id.as_str().to_owned()).collect(),
            event_ids,
            event_types: column(NewEvent::event_type),
            webhook_ids: optional(NewEvent::webhook_id),
            payment_request_ids: optional(NewEvent::payment_request_id),
            session_ids: optional(NewEvent::session_id),
            max_attempts: events
                .iter()
                .map(|event| i32::try_from(event.max_attempts()).expect("accepted events have few attempts"))
                .collect(),
            content_types: column(NewEvent::content_type),
            traceparents: optional(NewEvent::traceparent),
            payloads: events.iter().map(|event| &event.payload()[..]).collect(),
            stored_by: vec![None; events.len()],
        }
    }

    /// Returns the statement that inserts the events.
    pub(crate) fn statement(&self) -> &'static Sql {
        match (&self.deliver_in, &self.lease) {
            (Some(_), _) => &INSERT_DEFERRED,
            (None, Some(_)) => &INSERT_LEASED,
            (None, None) => &INSERT,
        }
    }

    /// Returns the parameters, in the statement's order.
    pub(crate) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![
            &self.urls,
            &self.cached_ids,
            &self.destination_indexes,
            &self.message_ids,
            &self.event_id_texts,
            &self.event_types,
            &self.webhook_ids,
            &self.payment_request_ids,
            &self.session_ids,
            &self.max_attempts,
            &self.content_types,
            &self.traceparents,
            &self.payloads,
            &self.stored_by,
        ];
        if let Some(deliver_in) = &self.deliver_in {
            params.push(deliver_in);
        }
        if let Some(lease) = &self.lease {
            let lease: [&(dyn ToSql + Sync); 4] =
                [&lease.wants_lease, &lease.claim, &lease.owner, &lease.lease_us];
            params.extend(lease);
        }
        params
    }

    /// Returns the time at which the events were stored, and caches the ids of their destinations.
    pub(crate) fn read_result(
        &self,
        rows: &[Row],
        cache: &DestinationIds,
    ) -> Result<Timestamp, tokio_postgres::Error> {
        let row = rows.first().expect("the statement returns one row");
        cache.insert(&self.urls, &row.try_get::<_, Vec<i64>>("ids")?);
        Ok(row.try_get::<_, PgTimestamp>("now")?.0)
    }

    /// Returns the lease of each event, in order, if any was leased.
    pub(crate) fn read_leases(
        &self,
        rows: &[Row],
    ) -> Result<Option<Vec<Option<Lease>>>, tokio_postgres::Error> {
        let Some(lease) = &self.lease else { return Ok(None) };
        let claim = lease.claim;
        let row = rows.first().expect("the statement returns one row");
        let Some(leased) = row.try_get::<_, Option<Vec<i64>>>("leased_keys")? else { return Ok(None) };
        let (keys, destinations): (Vec<i64>, Vec<i64>) = (row.try_get("keys")?, row.try_get("ids")?);
        let lease = |(index, key): (usize, &i64)| {
            leased.binary_search(key).is_ok().then(|| self.lease(index, EventKey(*key), claim, &destinations))
        };
        Ok(Some(keys.iter().enumerate().map(lease).collect()))
    }

    /// Returns the references of an event that its notices repeat.
    fn references(&self, index: usize) -> EventReferences {
        let event = self.events[index];
        let own = |text: Option<&str>| text.map(str::to_owned);
        let references = NoticeReferences {
            webhook_id: own(event.webhook_id()),
            session_id: own(event.session_id()),
            payment_request_id: own(event.payment_request_id()),
        };
        (references != NoticeReferences::default()).then(|| Box::new(references))
    }

    /// Builds the lease of one event.
    fn lease(&self, index: usize, key: EventKey, claim: Uuid, destinations: &[i64]) -> Lease {
        let destination = usize::try_from(self.destination_indexes[index] - 1).expect("indexes begin at 1");
        let ids = NewEventIds {
            key,
            event_id: self.event_ids[index].clone(),
            message_id: MessageId::from_uuid(self.message_ids[index]),
            destination_id: DestinationId(destinations[destination]),
        };
        Lease::on_new_event(self.events[index], ids, lease_token(claim, key))
    }

    /// Returns the ids of the events, in order.
    pub(crate) fn event_ids(&self) -> impl Iterator<Item = EventId> {
        self.event_ids.iter().cloned()
    }
}

/// Inserts an event in a transaction that the caller has begun, and returns the id of its destination.
pub(crate) async fn insert_in_transaction(
    session: &Session,
    event: &NewEvent,
) -> Result<i64, tokio_postgres::Error> {
    let uncached = DestinationIds::default();
    let insert = Insert::new(&[event], &uncached, &mut MessageIds::from_system());
    let rows = session.query(insert.statement(), &insert.params()).await?;
    let ids: Vec<i64> = rows.first().expect("the statement returns one row").try_get("ids")?;
    Ok(ids[0])
}

/// Returns the receipts of events that were just stored, all pending.
pub(crate) fn pending_receipts(ids: impl Iterator<Item = EventId>, created_at: Timestamp) -> Vec<Receipt> {
    ids.map(|event_id| Receipt { event_id, status: DeliveryStatus::Pending, created_at }).collect()
}

/// Returns the responses of requests that were just stored, with the time at which they were, and remembers their leases.
pub(crate) fn stored_responses<'a>(
    store: &StoreState,
    insert: &Insert<'_>,
    rows: &[Row],
    requests: impl Iterator<Item = &'a EnqueueRequest>,
) -> Result<(Timestamp, Vec<EnqueueResponse>), tokio_postgres::Error> {
    let created_at = insert.read_result(rows, &store.destination_ids)?;
    let mut leases = match insert.read_leases(rows)? {
        None => Vec::new(),
        Some(leases) => {
            let granted = leases
                .iter()
                .enumerate()
                .filter_map(|(index, lease)| lease.as_ref().map(|lease| (lease, insert.references(index))));
            store.outstanding.add(granted);
            leases
        }
    }
    .into_iter();
    let mut ids = insert.event_ids();
    let respond = |request: &EnqueueRequest| {
        let count = request.events.len();
        EnqueueResponse {
            replayed: false,
            receipts: pending_receipts(ids.by_ref().take(count), created_at),
            leases: leases.by_ref().take(count).flatten().collect(),
        }
    };
    Ok((created_at, requests.map(respond).collect()))
}
