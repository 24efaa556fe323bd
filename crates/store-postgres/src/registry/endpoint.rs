//! Endpoints: registered destinations.

use async_trait::async_trait;
use posthaste_domain::seal::{SealedId, SealedValue};
use posthaste_domain::{
    ApplicationId, Channel, DeliveryOrder, Description, DestinationId, DestinationUrl, DisableReason,
    EndpointChange, EndpointId, EndpointRef, EventTypeName, NewEndpoint, Subscription, Timestamp, Uid,
};
use posthaste_store::{
    AnswerSlot, AppScope, Created, DestinationKey, DestinationProfile, DisabledEndpoint, Endpoint,
    EndpointStats, Endpoints, List, ListRequest, NewSecrets, Reseal, RotateKey, StoreError,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::answer::change_answered;
use super::application::{metadata_from_stored, throttle_from_stored};
use super::list::{PageQuery, list_by_number};
use super::{Call, change, endpoint_change, find_app, find_endpoint, keys, read, share_app};
use crate::PostgresStore;
use crate::convert::PgTimestamp;
use crate::session::{Session, Sql};

/// The columns of an endpoint `e` and its destination `d` that [`parse`] reads.
macro_rules! endpoint_columns {
    () => {
        "d.id, e.app_id, e.uid, d.url, e.description, e.event_types, e.channels, d.throttle_per_second, \
         coalesce(d.is_fifo, false), e.metadata, d.disabled_at, d.disabled_reason, e.created_at, e.updated_at"
    };
}

pub(super) use endpoint_columns;

/// Reads an endpoint that is not deleted. Uses indexes webhook_endpoints_destination and webhook_destinations_id.
static SELECT: Sql = Sql {
    text: concat!(
        "SELECT ",
        endpoint_columns!(),
        " FROM app.webhook_endpoints e JOIN app.webhook_destinations d ON d.id = e.destination_id
          WHERE e.destination_id = $1 AND e.deleted_at IS NULL"
    ),
    types: &[Type::INT8],
};

// Uses indexes webhook_endpoints_app and webhook_destinations_id.
list_by_number!(
    LIST,
    concat!(
        "SELECT ",
        endpoint_columns!(),
        " FROM app.webhook_endpoints e JOIN app.webhook_destinations d ON d.id = e.destination_id
          WHERE e.app_id = $1 AND e.deleted_at IS NULL"
    ),
    "e.destination_id",
    descending,
    &[Type::INT8, Type::INT8, Type::INT8]
);

/// Counts the events of the endpoint $1 that were created from $2 on and before $3, in microseconds since the epoch. Uses indexes
/// webhook_events_destination, webhook_queue_id and webhook_failures_id.
static STATS: Sql = Sql {
    text: "
SELECT count(*) FILTER (WHERE q.id IS NULL AND f.id IS NULL),
       count(*) FILTER (WHERE q.attempts = 0), count(*) FILTER (WHERE q.attempts > 0),
       count(*) FILTER (WHERE f.id IS NOT NULL)
FROM app.webhook_events e
LEFT JOIN app.webhook_queue q ON q.id = e.id
LEFT JOIN app.webhook_failures f ON f.id = e.id
WHERE e.destination_id = $1
      AND ($2::bigint IS NULL OR e.created_at >= timestamptz 'epoch' + $2 * interval '1 microsecond')
      AND ($3::bigint IS NULL OR e.created_at < timestamptz 'epoch' + $3 * interval '1 microsecond')",
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

/// Finds or adds the destination of a URL.
static URL_DESTINATION: Sql = Sql { text: "SELECT app.webhook_destination_id($1)", types: &[Type::TEXT] };

/// Parses a row of `endpoint_columns!`.
pub(super) fn parse(row: &Row) -> Result<Endpoint, tokio_postgres::Error> {
    let disabled_at = row.try_get::<_, Option<PgTimestamp>>(10)?;
    let reason = row.try_get::<_, Option<&str>>(11)?.and_then(DisableReason::from_name);
    let types = row.try_get::<_, Option<Vec<String>>>(5)?;
    let channels = row.try_get::<_, Option<Vec<String>>>(6)?;
    Ok(Endpoint {
        id: EndpointId(DestinationId(row.try_get(0)?)),
        app: ApplicationId(row.try_get(1)?),
        uid: row.try_get::<_, Option<String>>(2)?.map(Uid::from_stored),
        url: DestinationUrl::from_stored(row.try_get(3)?),
        description: Description::from_stored(row.try_get(4)?),
        subscription: Subscription {
            event_types: types.map(|types| types.into_iter().map(EventTypeName::from_stored).collect()),
            channels: channels.map(|channels| channels.into_iter().map(Channel::from_stored).collect()),
        },
        throttle: throttle_from_stored(row.try_get(7)?),
        order: if row.try_get(8)? { DeliveryOrder::Fifo } else { DeliveryOrder::Any },
        metadata: metadata_from_stored(row.try_get(9)?),
        disabled: disabled_at
            .map(|PgTimestamp(at)| DisabledEndpoint { at, reason: reason.unwrap_or(DisableReason::Manual) }),
        created_at: row.try_get::<_, PgTimestamp>(12)?.0,
        updated_at: row.try_get::<_, PgTimestamp>(13)?.0,
    })
}

/// Reads an endpoint.
pub(super) async fn select(session: &Session, id: DestinationId) -> Call<Endpoint> {
    let rows = session.query(&SELECT, &[&id.0]).await?;
    let not_found = || StoreError::EndpointNotFound { endpoint: EndpointId(id).to_string() };
    Ok(parse(rows.first().ok_or_else(not_found)?)?)
}

impl PostgresStore {
    /// Tells the workers that an endpoint has changed.
    fn wake_after_change(&self) {
        self.shared.blocked.release_all();
        self.shared.wake_all();
    }
}

#[async_trait]
impl Endpoints for PostgresStore {
    async fn create(
        &self,
        scope: AppScope<'_>,
        new: &NewEndpoint,
        secrets: &NewSecrets,
        answer: Option<&AnswerSlot<Endpoint>>,
    ) -> Result<Endpoint, StoreError> {
        change_answered(&self.shared.sessions.operate, answer, async |session| {
            let app = share_app(session, scope).await?;
            endpoint_change::create(session, app, new, secrets).await
        })
        .await
    }

    async fn put(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        new: &NewEndpoint,
        secrets: &NewSecrets,
        actor: &str,
    ) -> Result<Created<Endpoint>, StoreError> {
        let put = change(&self.shared.sessions.operate, async |session| {
            let app = share_app(session, scope).await?;
            endpoint_change::put(session, app, endpoint, new, secrets, actor).await
        });
        let put = put.await;
        self.wake_after_change();
        put
    }

    async fn get(&self, scope: AppScope<'_>, endpoint: &EndpointRef) -> Result<Endpoint, StoreError> {
        read(&self.shared.sessions.operate, async |session| {
            let app = find_app(session, scope).await?;
            let id = find_endpoint(session, app, endpoint).await?;
            select(session, id).await
        })
        .await
    }

    async fn update(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        change: &EndpointChange,
        actor: &str,
    ) -> Result<Endpoint, StoreError> {
        let updated = super::change(&self.shared.sessions.operate, async |session| {
            let app = share_app(session, scope).await?;
            let id = find_endpoint(session, app, endpoint).await?;
            endpoint_change::update(session, app, id, change, actor).await
        });
        let updated = updated.await;
        self.wake_after_change();
        updated
    }

    async fn delete(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        actor: &str,
    ) -> Result<(), StoreError> {
        let deleted = change(&self.shared.sessions.operate, async |session| {
            let app = share_app(session, scope).await?;
            let id = find_endpoint(session, app, endpoint).await?;
            endpoint_change::delete(session, id, actor).await
        });
        deleted.await?;
        self.shared.committed_notices.notify();
        Ok(())
    }

    async fn list(
        &self,
        scope: AppScope<'_>,
        request: &ListRequest<EndpointId>,
    ) -> Result<List<Endpoint>, StoreError> {
        let query = PageQuery::new(&LIST, request, EndpointId(DestinationId(i64::MAX)));
        let listed = read(&self.shared.sessions.operate, async |session| {
            let app = find_app(session, scope).await?;
            let rows = session.query(query.sql, &[&app.0, &query.bound.0.0, &query.rows_max]).await?;
            Ok(rows.iter().map(parse).collect::<Result<Vec<_>, _>>()?)
        });
        Ok(query.page(listed.await?))
    }

    async fn find(&self, id: EndpointId) -> Result<Endpoint, StoreError> {
        read(&self.shared.sessions.operate, async |session| select(session, id.0).await).await
    }

    async fn stats(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) -> Result<EndpointStats, StoreError> {
        let (since, until) = (since.map(Timestamp::as_micros), until.map(Timestamp::as_micros));
        read(&self.shared.sessions.operate, async |session| {
            let app = find_app(session, scope).await?;
            let id = find_endpoint(session, app, endpoint).await?;
            let rows = session.query(&STATS, &[&id.0, &since, &until]).await?;
            let row = rows.first().expect("the statement returns one row");
            let number = |index| -> Result<u64, tokio_postgres::Error> {
                Ok(u64::try_from(row.try_get::<_, i64>(index)?).unwrap_or(0))
            };
            Ok(EndpointStats {
                delivered: number(0)?,
                pending: number(1)?,
                retrying: number(2)?,
                failed: number(3)?,
            })
        })
        .await
    }

    async fn url_destination(&self, url: &DestinationUrl) -> Result<DestinationId, StoreError> {
        let found = self.shared.sessions.operate.with(async |session| {
            let rows = session.transact(&URL_DESTINATION, &[&url.as_str()]).await?;
            Ok(DestinationId(rows.first().expect("the function returns a row").try_get(0)?))
        });
        found.await
    }

    async fn keys(&self, destination: DestinationId) -> Result<Vec<DestinationKey>, StoreError> {
        read(&self.shared.sessions.operate, async |session| {
            keys::find_destination(session, destination).await?;
            keys::valid(session, destination).await
        })
        .await
    }

    async fn rotate_key(
        &self,
        destination: DestinationId,
        request: &RotateKey<'_>,
        answer: Option<&AnswerSlot<Vec<DestinationKey>>>,
    ) -> Result<Vec<DestinationKey>, StoreError> {
        change_answered(&self.shared.sessions.operate, answer, async |session| {
            keys::rotate(session, destination, request).await
        })
        .await
    }

    async fn headers(&self, destination: DestinationId) -> Result<Option<SealedValue>, StoreError> {
        read(&self.shared.sessions.operate, async |session| {
            keys::find_destination(session, destination).await?;
            keys::headers(session, destination).await
        })
        .await
    }

    async fn set_headers(
        &self,
        destination: DestinationId,
        expected: Option<SealedId>,
        headers: Option<&SealedValue>,
    ) -> Result<(), StoreError> {
        change(&self.shared.sessions.operate, async |session| {
            keys::set_headers(session, destination, expected, headers).await
        })
        .await
    }

    async fn profiles(&self, destinations: &[DestinationId]) -> Result<Vec<DestinationProfile>, StoreError> {
        keys::profiles(&self.shared, destinations).await
    }

    async fn sealed_values(
        &self,
        after: Option<SealedId>,
        limit: usize,
    ) -> Result<Vec<SealedValue>, StoreError> {
        keys::sealed_values(&self.shared, after, limit).await
    }

    async fn reseal(&self, values: &[Reseal]) -> Result<usize, StoreError> {
        keys::reseal(&self.shared, values).await
    }
}
