//! Endpoints: registered destinations. What claims need is in `webhook_destinations`, the rest in `webhook_endpoints`, and
//! what a publish reads in `webhook_subscriptions`.

use std::collections::BTreeSet;

use posthaste_domain::{
    ApplicationId, Channel, DeliveryOrder, Description, DestinationId, DestinationUrl, DisableReason,
    EndpointChange, EndpointId, EndpointRef, EventTypeName, NewEndpoint, Subscription, Timestamp, Uid,
};
use posthaste_store::{Created, Endpoint, EndpointStats, List, ListRequest, NewSecrets, StoreError};
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::list::KeyRange;
use super::{
    ENDPOINT_BY_UID, endpoint_state, event_type, find_endpoint, keys, metadata, metadata_json, names,
    per_second, throttle, to_json, uid, uid_taken,
};
use crate::destination_view::disabled;
use crate::error::CallError;
use crate::row;

/// Builds a query for [`from_row`] on endpoints that are not deleted, named `p` in the condition. The destinations are read by
/// primary key.
macro_rules! endpoints {
    ($where:literal) => {
        concat!(
            "SELECT d.id, p.app_id, p.uid, d.url, p.description, p.event_types, p.channels, d.throttle_per_second, d.is_fifo,
                    p.metadata, d.disabled_at, d.disabled_reason, d.created_at, p.updated_at
             FROM webhook_endpoints p
             CROSS JOIN webhook_destinations d ON d.id = p.destination_id
             WHERE p.deleted_at IS NULL AND ",
            $where
        )
    };
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Endpoint> {
    let is_fifo: bool = row.get(8)?;
    Ok(Endpoint {
        id: EndpointId(DestinationId(row.get(0)?)),
        app: ApplicationId(row.get(1)?),
        uid: uid(row, 2)?,
        url: DestinationUrl::from_stored(row.get(3)?),
        description: Description::from_stored(row.get(4)?),
        subscription: Subscription {
            event_types: names(row, 5, EventTypeName::from_stored)?,
            channels: names(row, 6, Channel::from_stored)?,
        },
        throttle: throttle(row, 7)?,
        order: if is_fifo { DeliveryOrder::Fifo } else { DeliveryOrder::Any },
        metadata: metadata(row, 9)?,
        disabled: disabled(row, 10)?,
        created_at: row::timestamp(row, 12)?,
        updated_at: row::timestamp(row, 13)?,
    })
}

/// Finds an endpoint that is not deleted.
pub(super) fn find(db: &Connection, id: DestinationId) -> rusqlite::Result<Option<Endpoint>> {
    db.prepare_cached(endpoints!("p.destination_id = ?1"))?.query_row([id.0], from_row).optional()
}

/// Reads an endpoint that the caller has found.
pub(super) fn read(db: &Connection, id: DestinationId) -> rusqlite::Result<Endpoint> {
    db.prepare_cached(endpoints!("p.destination_id = ?1"))?.query_row([id.0], from_row)
}

/// Finds an endpoint, and refuses a disabled one.
pub(super) fn find_enabled(
    db: &Connection,
    app: ApplicationId,
    endpoint: &EndpointRef,
) -> Result<DestinationId, CallError> {
    let id = find_endpoint(db, app, endpoint)?;
    match read(db, id)?.disabled {
        Some(_) => Err(StoreError::EndpointDisabled { endpoint: endpoint.to_string() }.into()),
        None => Ok(id),
    }
}

pub(super) fn create(
    db: &Connection,
    now: Timestamp,
    app: ApplicationId,
    new: &NewEndpoint,
    secrets: &NewSecrets,
) -> Result<Endpoint, CallError> {
    check_uid(db, app, None, new.uid.as_ref())?;
    check_event_types(db, app, new.subscription.event_types.as_ref())?;
    let id = db
        .prepare_cached(
            "INSERT INTO webhook_destinations
                 (app_id, kind, url, created_at, is_fifo, throttle_per_second, disabled_at, disabled_reason,
                  paused_until)
             VALUES (?1, 'endpoint', ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .insert((
            app.0,
            new.url.as_str(),
            now.as_micros(),
            new.order == DeliveryOrder::Fifo,
            per_second(new.throttle),
            new.is_disabled.then_some(now.as_micros()),
            new.is_disabled.then_some(DisableReason::Manual.as_str()),
            new.is_disabled.then_some(i64::MAX),
        ))
        .map(DestinationId)?;
    db.prepare_cached(
        "INSERT INTO webhook_endpoints (destination_id, app_id, uid, description, metadata, updated_at)
         VALUES (?1, ?2, NULL, '', '{}', ?3)",
    )?
    .execute((id.0, app.0, now.as_micros()))?;
    let endpoint = Endpoint {
        uid: new.uid.clone(),
        description: new.description.clone(),
        subscription: new.subscription.clone(),
        metadata: new.metadata.clone(),
        ..read(db, id)?
    };
    write(db, &endpoint)?;
    keys::add_first(db, now, id, secrets)?;
    Ok(endpoint)
}

pub(super) fn put(
    db: &Connection,
    now: Timestamp,
    app: ApplicationId,
    endpoint: &EndpointRef,
    new: &NewEndpoint,
    secrets: &NewSecrets,
    actor: &str,
) -> Result<Created<Endpoint>, CallError> {
    match (find_endpoint(db, app, endpoint), endpoint.uid()) {
        (Ok(id), _) => {
            let value = update(db, now, id, &EndpointChange::from(new.clone()), actor)?;
            Ok(Created { value, is_new: false })
        }
        (Err(CallError::Refused(_)), Some(uid)) => {
            let new = NewEndpoint { uid: new.uid.clone().or(Some(uid.clone())), ..new.clone() };
            Ok(Created { value: create(db, now, app, &new, secrets)?, is_new: true })
        }
        (Err(error), _) => Err(error),
    }
}

pub(super) fn update(
    db: &Connection,
    now: Timestamp,
    id: DestinationId,
    change: &EndpointChange,
    actor: &str,
) -> Result<Endpoint, CallError> {
    let before = read(db, id)?;
    check_uid(db, before.app, Some(id), change.uid.as_ref().and_then(Option::as_ref))?;
    check_event_types(db, before.app, change.event_types.as_ref().and_then(Option::as_ref))?;
    let EndpointChange { url, uid, description, event_types, channels, throttle, order, metadata, .. } =
        change.clone();
    if url.as_ref().is_some_and(|url| *url != before.url) {
        keys::change_profile(db, now, id)?;
    }
    let after = Endpoint {
        url: url.unwrap_or(before.url),
        uid: uid.unwrap_or(before.uid),
        description: description.unwrap_or(before.description),
        subscription: Subscription {
            event_types: event_types.unwrap_or(before.subscription.event_types),
            channels: channels.unwrap_or(before.subscription.channels),
        },
        throttle: throttle.unwrap_or(before.throttle),
        order: order.unwrap_or(before.order),
        metadata: metadata.unwrap_or(before.metadata),
        updated_at: now,
        ..before
    };
    write(db, &after)?;
    if after.order != before.order {
        endpoint_state::set_order(db, id, after.order)?;
    }
    match change.is_disabled {
        Some(true) => drop(endpoint_state::disable(db, now, id, DisableReason::Manual, actor)?),
        Some(false) => endpoint_state::enable(db, now, id, actor)?,
        None => {}
    }
    Ok(read(db, id)?)
}

/// Writes the fields of an endpoint, except its order and whether it is disabled.
fn write(db: &Connection, endpoint: &Endpoint) -> rusqlite::Result<()> {
    let id = endpoint.destination();
    let Subscription { event_types, channels } = &endpoint.subscription;
    db.prepare_cached("UPDATE webhook_destinations SET url = ?2, throttle_per_second = ?3 WHERE id = ?1")?
        .execute((id.0, endpoint.url.as_str(), per_second(endpoint.throttle)))?;
    db.prepare_cached(
        "UPDATE webhook_endpoints
         SET uid = ?2, description = ?3, event_types = ?4, channels = ?5, metadata = ?6, updated_at = ?7
         WHERE destination_id = ?1",
    )?
    .execute((
        id.0,
        endpoint.uid.as_ref().map(Uid::as_str),
        endpoint.description.as_str(),
        event_types.as_ref().map(|types| to_json(types.iter().map(EventTypeName::as_str))),
        channels.as_ref().map(|channels| to_json(channels.iter().map(Channel::as_str))),
        metadata_json(&endpoint.metadata),
        endpoint.updated_at.as_micros(),
    ))?;
    remove_subscriptions(db, id)?;
    let mut subscribe = db.prepare_cached(
        "INSERT INTO webhook_subscriptions (app_id, event_type, channel, destination_id) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for (event_type, channel) in endpoint.subscription.index_entries() {
        subscribe.execute((endpoint.app.0, event_type, channel, id.0))?;
    }
    Ok(())
}

/// Removes the entries by which a publish finds an endpoint. Index: webhook_subscriptions_destination.
pub(super) fn remove_subscriptions(db: &Connection, id: DestinationId) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM webhook_subscriptions WHERE destination_id = ?1")?.execute([id.0])?;
    Ok(())
}

/// Refuses a uid that another endpoint of the application has.
fn check_uid(
    db: &Connection,
    app: ApplicationId,
    own: Option<DestinationId>,
    uid: Option<&Uid>,
) -> Result<(), CallError> {
    let Some(uid) = uid else { return Ok(()) };
    let found = db
        .prepare_cached(ENDPOINT_BY_UID)?
        .query_row((app.0, uid.as_str()), |row| row.get(0).map(DestinationId))
        .optional()?;
    if found.is_some_and(|id| own != Some(id)) { Err(uid_taken(uid)) } else { Ok(()) }
}

/// Refuses event types that the organisation of the application has not registered. Archived types are accepted.
fn check_event_types(
    db: &Connection,
    app: ApplicationId,
    names: Option<&BTreeSet<EventTypeName>>,
) -> Result<(), CallError> {
    let Some(names) = names else { return Ok(()) };
    let org: String = db
        .prepare_cached("SELECT org FROM webhook_applications WHERE id = ?1")?
        .query_row([app.0], |row| row.get(0))?;
    let mut unknown = Vec::new();
    for name in names {
        if !event_type::is_registered(db, &org, name)? {
            unknown.push(name.to_string());
        }
    }
    if unknown.is_empty() { Ok(()) } else { Err(StoreError::UnknownEventTypes { names: unknown }.into()) }
}

/// Builds the statement that reads a page of endpoints. Index: webhook_endpoints_app.
pub(super) fn list_sql(order: &str) -> String {
    let page = endpoints!("p.app_id = ?1 AND p.destination_id > ?2 AND p.destination_id < ?3");
    format!("{page} ORDER BY p.destination_id {order}")
}

pub(super) fn list(
    db: &Connection,
    app: ApplicationId,
    request: &ListRequest<EndpointId>,
) -> Result<List<Endpoint>, CallError> {
    let bound = |id| EndpointId(DestinationId(id));
    let range = KeyRange::descending(request, bound(i64::MIN), bound(i64::MAX));
    let mut listed = db.prepare_cached(&list_sql(range.order()))?;
    Ok(range.page(listed.query_map((app.0, range.low.0.0, range.high.0.0), from_row)?)?)
}

/// Counts the events of an endpoint by state. Index: webhook_events_destination; the others by primary key.
pub(super) const STATS: &str = "
    SELECT count(*) FILTER (WHERE q.id IS NULL AND f.id IS NULL),
           count(*) FILTER (WHERE q.attempts = 0),
           count(*) FILTER (WHERE q.attempts > 0),
           count(*) FILTER (WHERE f.id IS NOT NULL)
    FROM webhook_events e INDEXED BY webhook_events_destination
    LEFT JOIN webhook_queue q ON q.id = e.id
    LEFT JOIN webhook_failures f ON f.id = e.id
    WHERE e.destination_id = ?1 AND e.created_at >= ?2 AND e.created_at < ?3";

pub(super) fn stats(
    db: &Connection,
    id: DestinationId,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
) -> rusqlite::Result<EndpointStats> {
    let since = since.map_or(i64::MIN, Timestamp::as_micros);
    let until = until.map_or(i64::MAX, Timestamp::as_micros);
    db.prepare_cached(STATS)?.query_row((id.0, since, until), |row| {
        Ok(EndpointStats {
            delivered: row::unsigned(row, 0)?,
            pending: row::unsigned(row, 1)?,
            retrying: row::unsigned(row, 2)?,
            failed: row::unsigned(row, 3)?,
        })
    })
}
