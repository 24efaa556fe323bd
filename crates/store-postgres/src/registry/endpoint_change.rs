//! Changes of endpoints: creating, updating, disabling, enabling and deleting them.

use std::collections::BTreeSet;

use posthaste_domain::{
    ApplicationId, Channel, DeliveryOrder, DestinationId, DisableReason, EndpointChange, EndpointRef,
    EventTypeName, NewEndpoint, Subscription, Uid,
};
use posthaste_store::{
    Created, DELETE_CANCELS_MAX, DestinationAction, Endpoint, NewSecrets, OperationState, StoreError,
};
use tokio_postgres::types::Type;

use super::application::{metadata_to_store, throttle_to_store};
use super::endpoint::select;
use super::{Call, CallError, cancel, event_type, find_endpoint, keys};
use crate::session::{Session, Sql};

/// Adds the destination of an endpoint. Its profile has the version 1, because every endpoint has a key of its own. No worker has
/// read an older version, so claims do not list the destination as updated.
static INSERT_DESTINATION: Sql = Sql {
    text: "
INSERT INTO app.webhook_destinations (
    kind, url, app_id, profile_version, is_fifo, throttle_per_second, is_limited,
    disabled_at, disabled_reason, paused_until
)
SELECT 'endpoint', $2, $1, 1, $3, $4,
       $3 OR $4::integer IS NOT NULL OR a.throttle_per_second IS NOT NULL,
       CASE WHEN $5 THEN app.webhook_now() END, CASE WHEN $5 THEN 'manual' END,
       CASE WHEN $5 THEN timestamptz 'infinity' END
FROM app.webhook_applications a
WHERE a.id = $1
RETURNING id",
    types: &[Type::INT8, Type::TEXT, Type::BOOL, Type::INT4, Type::BOOL],
};

/// Adds an endpoint to its destination, and its line.
static INSERT_ENDPOINT: Sql = Sql {
    text: "
WITH line AS (
    INSERT INTO app.webhook_fifo_lines (destination_id) VALUES ($2)
)
INSERT INTO app.webhook_endpoints (
    app_id, destination_id, uid, description, event_types, channels, metadata, created_at, updated_at
)
SELECT $1, d.id, $3, $4, $5, $6, $7, d.created_at, d.created_at
FROM app.webhook_destinations d
WHERE d.id = $2",
    types: &[Type::INT8, Type::INT8, Type::TEXT, Type::TEXT, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TEXT],
};

/// Replaces the subscriptions of the endpoint $1: those that stay are not written.
static REPLACE_SUBSCRIPTIONS: Sql = Sql {
    text: "
WITH wanted AS MATERIALIZED (
    SELECT w.event_type, w.channel FROM unnest($3::text[], $4::text[]) AS w (event_type, channel)
),
removed AS (
    DELETE FROM app.webhook_subscriptions s
    WHERE s.destination_id = $1
          AND NOT EXISTS (SELECT FROM wanted w WHERE w.event_type = s.event_type AND w.channel = s.channel)
)
INSERT INTO app.webhook_subscriptions (app_id, event_type, channel, destination_id)
SELECT $2, w.event_type, w.channel, $1 FROM wanted w
ON CONFLICT (app_id, event_type, channel, destination_id) DO NOTHING",
    types: &[Type::INT8, Type::INT8, Type::TEXT_ARRAY, Type::TEXT_ARRAY],
};

/// Writes the fields of an endpoint.
static UPDATE_ENDPOINT: Sql = Sql {
    text: "
UPDATE app.webhook_endpoints e
SET uid = $2, description = $3, event_types = $4, channels = $5, metadata = $6, updated_at = app.webhook_now()
WHERE e.destination_id = $1",
    types: &[Type::INT8, Type::TEXT, Type::TEXT, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TEXT],
};

/// Writes the fields of an endpoint's destination. A new URL raises the version of its profile.
static UPDATE_DESTINATION: Sql = Sql {
    text: "
UPDATE app.webhook_destinations d
SET profile_version = d.profile_version + (d.url <> $2)::integer,
    profile_updated_at = CASE WHEN d.url <> $2 THEN app.webhook_now() ELSE d.profile_updated_at END,
    url = $2, is_fifo = $3, throttle_per_second = $4,
    is_limited = $3 OR $4::integer IS NOT NULL OR a.throttle_per_second IS NOT NULL
FROM app.webhook_applications a
WHERE d.id = $1 AND a.id = d.app_id",
    types: &[Type::INT8, Type::TEXT, Type::BOOL, Type::INT4],
};

/// Keeps messages from being published to the application $1 until the transaction ends, or returns false if a transaction is
/// publishing one.
static TRY_LOCK_PUBLISHERS: Sql =
    Sql { text: "SELECT pg_try_advisory_xact_lock(7527, hashint8($1))", types: &[Type::INT8] };

/// Changes the order of the pending events of the endpoint $1, and records which of them are leased. Uses index
/// webhook_queue_destination_position.
static CHANGE_ORDER: Sql = Sql {
    text: "
WITH pending AS MATERIALIZED (
    SELECT q.id FROM app.webhook_queue q WHERE q.destination_id = $1 ORDER BY q.id FOR UPDATE
),
ordered AS (
    UPDATE app.webhook_queue q SET is_fifo = $2 FROM pending p WHERE q.id = p.id
    RETURNING q.id, q.lease_until
)
UPDATE app.webhook_destinations d
SET line_leases = ARRAY(SELECT o.id FROM ordered o WHERE o.lease_until IS NOT NULL)
WHERE d.id = $1",
    types: &[Type::INT8, Type::BOOL],
};

/// Disables the endpoint $1 for the reason $2, unless it is disabled. Returns a row if it did.
static DISABLE: Sql = Sql {
    text: "
UPDATE app.webhook_destinations d
SET disabled_at = app.webhook_now(), disabled_reason = $2, paused_until = 'infinity'
WHERE d.id = $1 AND d.disabled_at IS NULL
RETURNING d.id",
    types: &[Type::INT8, Type::TEXT],
};

/// Enables the endpoint $1, if it is disabled, and gives its receiver a new start: only an operator's pause stays. Returns a row if
/// it did.
static ENABLE: Sql = Sql {
    text: "
WITH enabled AS (
    UPDATE app.webhook_destinations d
    SET disabled_at = NULL, disabled_reason = NULL, failing_since = NULL, receiver_paused_at = NULL,
        receiver_paused_until = NULL, resumed_at = app.webhook_now(),
        paused_until = CASE WHEN d.operator_paused_at IS NOT NULL THEN coalesce(d.operator_paused_until, 'infinity') END
    WHERE d.id = $1 AND d.disabled_at IS NOT NULL
    RETURNING d.id
),
closed AS (
    DELETE FROM app.webhook_circuits c USING enabled e WHERE c.destination_id = e.id
)
SELECT FROM enabled",
    types: &[Type::INT8],
};

static RECORD_AUDIT: Sql = Sql {
    text: "
INSERT INTO app.webhook_destination_audit (destination_id, action, actor, at, reason)
VALUES ($1, $2, $3, app.webhook_now(), $4)",
    types: &[Type::INT8, Type::TEXT, Type::TEXT, Type::TEXT],
};

static TOUCH: Sql = Sql {
    text: "UPDATE app.webhook_endpoints e SET updated_at = app.webhook_now() WHERE e.destination_id = $1",
    types: &[Type::INT8],
};

/// Marks an endpoint as deleted: it gets no message and no request any more, and its operations stop.
static DELETE: Sql = Sql {
    text: "
WITH deleted AS (
    UPDATE app.webhook_endpoints e SET deleted_at = app.webhook_now() WHERE e.destination_id = $1 AND e.deleted_at IS NULL
    RETURNING e.destination_id AS id
),
destination AS (
    UPDATE app.webhook_destinations d
    SET disabled_at = coalesce(d.disabled_at, app.webhook_now()), disabled_reason = coalesce(d.disabled_reason, $2),
        paused_until = 'infinity'
    FROM deleted x
    WHERE d.id = x.id
),
subscriptions AS (
    DELETE FROM app.webhook_subscriptions s USING deleted x WHERE s.destination_id = x.id
),
operations AS (
    UPDATE app.webhook_operations o
    SET state = $3, updated_at = app.webhook_now()
    FROM deleted x
    WHERE o.destination_id = x.id AND o.state = 'running'
)
SELECT id FROM deleted",
    types: &[Type::INT8, Type::TEXT, Type::TEXT],
};

/// Reads the organisation of an application.
static ORGANISATION: Sql =
    Sql { text: "SELECT a.org FROM app.webhook_applications a WHERE a.id = $1", types: &[Type::INT8] };

/// Reads and locks the destination of an endpoint.
static LOCK: Sql = Sql {
    text: "SELECT d.id FROM app.webhook_destinations d WHERE d.id = $1 FOR UPDATE",
    types: &[Type::INT8],
};

/// Refuses a uid that another endpoint of the application has.
async fn check_uid(
    session: &Session,
    app: ApplicationId,
    own: Option<DestinationId>,
    uid: Option<&Uid>,
) -> Call<()> {
    let Some(uid) = uid else { return Ok(()) };
    match find_endpoint(session, app, &EndpointRef::Uid(uid.clone())).await {
        Ok(id) if own != Some(id) => Err(StoreError::UidTaken { uid: uid.to_string() }.into()),
        Ok(_) | Err(CallError::Refused(_)) => Ok(()),
        Err(failed) => Err(failed),
    }
}

/// Refuses event types that the organisation of the application has not registered.
async fn check_event_types(
    session: &Session,
    app: ApplicationId,
    names: Option<&BTreeSet<EventTypeName>>,
) -> Call<()> {
    let Some(names) = names else { return Ok(()) };
    let rows = session.query(&ORGANISATION, &[&app.0]).await?;
    let org: &str = rows.first().expect("the application is locked").try_get(0)?;
    let names = event_type::unknown(session, org, names).await?;
    if names.is_empty() { Ok(()) } else { Err(StoreError::UnknownEventTypes { names }.into()) }
}

fn types_to_store(subscription: &Subscription) -> Option<Vec<&str>> {
    let types = subscription.event_types.as_ref()?;
    Some(types.iter().map(EventTypeName::as_str).collect())
}

fn channels_to_store(subscription: &Subscription) -> Option<Vec<&str>> {
    let channels = subscription.channels.as_ref()?;
    Some(channels.iter().map(Channel::as_str).collect())
}

async fn replace_subscriptions(
    session: &Session,
    id: DestinationId,
    app: ApplicationId,
    subscription: &Subscription,
) -> Call<()> {
    let (types, channels): (Vec<&str>, Vec<&str>) = subscription.index_entries().into_iter().unzip();
    session.query(&REPLACE_SUBSCRIPTIONS, &[&id.0, &app.0, &types, &channels]).await?;
    Ok(())
}

/// Creates an endpoint of an application, which the caller has locked.
pub(super) async fn create(
    session: &Session,
    app: ApplicationId,
    new: &NewEndpoint,
    secrets: &NewSecrets,
) -> Call<Endpoint> {
    check_uid(session, app, None, new.uid.as_ref()).await?;
    check_event_types(session, app, new.subscription.event_types.as_ref()).await?;
    let (is_fifo, throttle) = (new.order == DeliveryOrder::Fifo, throttle_to_store(new.throttle));
    let rows = session
        .query(&INSERT_DESTINATION, &[&app.0, &new.url.as_str(), &is_fifo, &throttle, &new.is_disabled])
        .await?;
    let id = DestinationId(rows.first().expect("the application is locked").try_get(0)?);
    let uid = new.uid.as_ref().map(Uid::as_str);
    let metadata = metadata_to_store(&new.metadata);
    session
        .query(
            &INSERT_ENDPOINT,
            &[
                &app.0,
                &id.0,
                &uid,
                &new.description.as_str(),
                &types_to_store(&new.subscription),
                &channels_to_store(&new.subscription),
                &metadata,
            ],
        )
        .await
        .map_err(|error| CallError::of_uid(error, uid))?;
    replace_subscriptions(session, id, app, &new.subscription).await?;
    keys::add_first(session, id, secrets).await?;
    select(session, id).await
}

/// Creates an endpoint, or replaces every field of an existing one.
pub(super) async fn put(
    session: &Session,
    app: ApplicationId,
    endpoint: &EndpointRef,
    new: &NewEndpoint,
    secrets: &NewSecrets,
    actor: &str,
) -> Call<Created<Endpoint>> {
    match find_endpoint(session, app, endpoint).await {
        Ok(id) => {
            let value = update(session, app, id, &EndpointChange::from(new.clone()), actor).await?;
            Ok(Created { value, is_new: false })
        }
        Err(CallError::Refused(not_found)) => {
            let Some(uid) = endpoint.uid() else { return Err(not_found.into()) };
            let new = NewEndpoint { uid: new.uid.clone().or(Some(uid.clone())), ..new.clone() };
            Ok(Created { value: create(session, app, &new, secrets).await?, is_new: true })
        }
        Err(failed) => Err(failed),
    }
}

/// Changes fields of an endpoint of an application, which the caller has locked.
pub(super) async fn update(
    session: &Session,
    app: ApplicationId,
    id: DestinationId,
    change: &EndpointChange,
    actor: &str,
) -> Call<Endpoint> {
    check_uid(session, app, Some(id), change.uid.as_ref().and_then(Option::as_ref)).await?;
    check_event_types(session, app, change.event_types.as_ref().and_then(Option::as_ref)).await?;
    session.query(&LOCK, &[&id.0]).await?;
    let before = select(session, id).await?;
    let EndpointChange { url, uid, description, event_types, channels, throttle, order, metadata, .. } =
        change.clone();
    let subscription = Subscription {
        event_types: event_types.unwrap_or_else(|| before.subscription.event_types.clone()),
        channels: channels.unwrap_or_else(|| before.subscription.channels.clone()),
    };
    let (uid, order) = (uid.unwrap_or(before.uid), order.unwrap_or(before.order));
    let (url, throttle) = (url.unwrap_or(before.url), throttle.unwrap_or(before.throttle));
    let description = description.unwrap_or(before.description);
    let metadata = metadata_to_store(&metadata.unwrap_or(before.metadata));
    let (uid, is_fifo) = (uid.as_ref().map(Uid::as_str), order == DeliveryOrder::Fifo);
    let (types, channels) = (types_to_store(&subscription), channels_to_store(&subscription));
    session
        .query(&UPDATE_ENDPOINT, &[&id.0, &uid, &description.as_str(), &types, &channels, &metadata])
        .await
        .map_err(|error| CallError::of_uid(error, uid))?;
    session
        .query(&UPDATE_DESTINATION, &[&id.0, &url.as_str(), &is_fifo, &throttle_to_store(throttle)])
        .await?;
    if subscription != before.subscription {
        replace_subscriptions(session, id, app, &subscription).await?;
    }
    if order != before.order {
        change_order(session, app, id, is_fifo).await?;
    }
    match change.is_disabled {
        Some(true) => disable(session, id, actor).await?,
        Some(false) => enable(session, id, actor).await?,
        None => {}
    }
    select(session, id).await
}

/// Changes the order of an endpoint's events. Transactions that publish at the moment would add events in the old order.
async fn change_order(session: &Session, app: ApplicationId, id: DestinationId, is_fifo: bool) -> Call<()> {
    let locked = session.query(&TRY_LOCK_PUBLISHERS, &[&app.0]).await?;
    if !locked.first().expect("the statement returns one row").try_get::<_, bool>(0)? {
        let reason =
            "a message is being published to the application, so the order of an endpoint cannot change";
        return Err(StoreError::Busy { reason }.into());
    }
    session.query(&CHANGE_ORDER, &[&id.0, &is_fifo]).await?;
    Ok(())
}

async fn disable(session: &Session, id: DestinationId, actor: &str) -> Call<()> {
    let reason = DisableReason::Manual.as_str();
    if !session.query(&DISABLE, &[&id.0, &reason]).await?.is_empty() {
        record_audit(session, id, DestinationAction::Disable, actor, Some(reason)).await?;
    }
    Ok(())
}

async fn enable(session: &Session, id: DestinationId, actor: &str) -> Call<()> {
    if !session.query(&ENABLE, &[&id.0]).await?.is_empty() {
        session.query(&TOUCH, &[&id.0]).await?;
        record_audit(session, id, DestinationAction::Enable, actor, None).await?;
    }
    Ok(())
}

/// Deletes an endpoint and cancels the first of its pending events.
pub(super) async fn delete(session: &Session, id: DestinationId, actor: &str) -> Call<()> {
    let (reason, stopped) = (DisableReason::Manual.as_str(), OperationState::Stopped.as_str());
    session.query(&LOCK, &[&id.0]).await?;
    session.query(&DELETE, &[&id.0, &reason, &stopped]).await?;
    record_audit(session, id, DestinationAction::Delete, actor, None).await?;
    let cancels_max = i64::try_from(DELETE_CANCELS_MAX).unwrap_or(i64::MAX);
    cancel::cancel_of_endpoint(session, id, actor, cancels_max).await?;
    Ok(())
}

/// Records an action on a destination in its audit log.
pub(super) async fn record_audit(
    session: &Session,
    id: DestinationId,
    action: DestinationAction,
    actor: &str,
    reason: Option<&str>,
) -> Call<()> {
    session.query(&RECORD_AUDIT, &[&id.0, &action.as_str(), &actor, &reason]).await?;
    Ok(())
}
