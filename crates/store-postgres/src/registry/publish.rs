//! Publishing: a message, and an event for each endpoint that subscribes to it, by the function `app.webhook_fan_out`, which also
//! serves producers of other languages.

use posthaste_domain::{
    ApplicationId, ApplicationRef, Channel, DestinationId, MessageId, NewMessage, Timestamp, Uid,
};
use posthaste_store::{AppScope, MessageContent, MessageView, Publication, PublishRequest, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::answer::change_answered;
use super::{Call, CallError, app_not_found, application, find_app, find_enabled, read};
use crate::StoreState;
use crate::convert::{PgTimestamp, micros};
use crate::enqueue::MessageIds;
use crate::session::{Session, Sql};

/// Publishes a message to the application with the id $1, or with the uid $17 in the organisation $18. Returns no row if there is
/// no such application, and a row without columns if the uid of the message is taken.
static PUBLISH: Sql = Sql {
    text: "
SELECT a.id, f.event_count, f.created_at
FROM (
    SELECT a.id FROM app.webhook_applications a WHERE a.id = $1 AND a.org = $18 AND a.deleted_at IS NULL
    UNION ALL
    SELECT a.id FROM app.webhook_applications a WHERE a.org = $18 AND a.uid = $17 AND a.deleted_at IS NULL
) a
LEFT JOIN LATERAL app.webhook_fan_out(
    a.id, $2, $3, $4, $5, $6, $7, app.webhook_now() + $8 * interval '1 microsecond', $9 * interval '1 microsecond', $10, $11,
    $12, $13, $14, $15, $16
) f ON true",
    types: &[
        Type::INT8,
        Type::UUID,
        Type::TEXT,
        Type::BYTEA,
        Type::TEXT,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8,
        Type::INT8,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::INT4,
        Type::TEXT,
        Type::INT8,
        Type::TEXT,
        Type::TEXT,
    ],
};

/// Publishes a message. A request that only publishes takes one round trip.
pub(super) async fn publish(store: &StoreState, request: &PublishRequest) -> Result<Publication, StoreError> {
    let id = MessageIds::from_system().next();
    let pool = &store.sessions.produce;
    let is_simple =
        request.answer.is_none() && request.create_app.is_none() && request.only_endpoint.is_none();
    let publication = if is_simple {
        read(pool, async |session| {
            let rows =
                session.transact(&PUBLISH, &Parameters::new(request, &request.app, id, None).list()).await?;
            parse(request, &request.app, id, &rows)
        })
        .await?
    } else {
        let answer = request.answer.as_ref();
        change_answered(pool, answer, async |session| publish_prepared(session, request, id).await).await?
    };
    if publication.event_count > 0 {
        store.wake_after_enqueue();
    }
    Ok(publication)
}

/// Finds or creates the application, finds the one endpoint if the request names it, and publishes.
async fn publish_prepared(session: &Session, request: &PublishRequest, id: MessageId) -> Call<Publication> {
    let app = find_or_create_app(session, request).await?;
    let only = match &request.only_endpoint {
        Some(endpoint) => Some(find_enabled(session, app, endpoint).await?),
        None => None,
    };
    let app = ApplicationRef::Id(app);
    let rows = session.query(&PUBLISH, &Parameters::new(request, &app, id, only).list()).await?;
    parse(request, &app, id, &rows)
}

async fn find_or_create_app(session: &Session, request: &PublishRequest) -> Call<ApplicationId> {
    let scope = AppScope { org: &request.org, app: &request.app };
    let not_found = match find_app(session, scope).await {
        Err(CallError::Refused(not_found)) => not_found,
        found => return found,
    };
    match (&request.create_app, request.app.uid()) {
        (Some(new), Some(uid)) if new.uid.as_ref() == Some(uid) => {
            match application::add(session, &request.org, new).await? {
                Some(application) => Ok(application.id),
                // Another transaction has just created it.
                None => find_app(session, scope).await,
            }
        }
        _ => Err(not_found.into()),
    }
}

/// The parameters of [`PUBLISH`].
struct Parameters<'a> {
    request: &'a PublishRequest,
    app_id: Option<i64>,
    app_uid: Option<&'a str>,
    org: &'a str,
    id: Uuid,
    event_type: &'a str,
    payload: &'a [u8],
    uid: Option<&'a str>,
    channels: Option<Vec<&'a str>>,
    tags: Option<Vec<&'a str>>,
    deliver_in: Option<i64>,
    payload_retention: i64,
    max_attempts: i32,
    only: Option<i64>,
}

impl<'a> Parameters<'a> {
    fn new(
        request: &'a PublishRequest,
        app: &'a ApplicationRef,
        id: MessageId,
        only: Option<DestinationId>,
    ) -> Self {
        let message = &request.message;
        let channels: Vec<&str> = message.channels.iter().map(Channel::as_str).collect();
        let tags: Vec<&str> = message.tags.iter().map(String::as_str).collect();
        Self {
            request,
            app_id: match app {
                ApplicationRef::Id(id) => Some(id.0),
                ApplicationRef::Uid(_) => None,
            },
            app_uid: app.uid().map(Uid::as_str),
            org: request.org.as_str(),
            id: id.as_uuid(),
            event_type: message.event_type.as_str(),
            payload: &message.payload,
            uid: message.uid.as_ref().map(Uid::as_str),
            channels: Some(channels).filter(|channels| !channels.is_empty()),
            tags: Some(tags).filter(|tags| !tags.is_empty()),
            deliver_in: Some(message.deliver_in).filter(|delay| !delay.is_zero()).map(micros),
            payload_retention: micros(message.payload_retention),
            max_attempts: i32::try_from(message.max_attempts).expect("accepted messages have few attempts"),
            only: only.map(|only| only.0),
        }
    }

    /// Returns the parameters in the statement's order.
    fn list(&self) -> [&(dyn ToSql + Sync); 18] {
        let message = &self.request.message;
        [
            &self.app_id,
            &self.id,
            &self.event_type,
            &self.payload,
            &self.uid,
            &self.channels,
            &self.tags,
            &self.deliver_in,
            &self.payload_retention,
            &message.payment_request_id,
            &message.session_id,
            &message.traceparent,
            &message.content_type,
            &self.max_attempts,
            &self.request.stored_by,
            &self.only,
            &self.app_uid,
            &self.org,
        ]
    }
}

/// Parses the row of [`PUBLISH`].
fn parse(request: &PublishRequest, app: &ApplicationRef, id: MessageId, rows: &[Row]) -> Call<Publication> {
    let message = &request.message;
    let row = rows.first().ok_or_else(|| app_not_found(app))?;
    let (Some(event_count), Some(PgTimestamp(created_at))) =
        (row.try_get::<_, Option<i64>>(1)?, row.try_get::<_, Option<PgTimestamp>>(2)?)
    else {
        let uid = message.uid.as_ref().map(ToString::to_string).unwrap_or_default();
        return Err(StoreError::UidTaken { uid }.into());
    };
    Ok(Publication {
        message: view(message, id, ApplicationId(row.try_get(0)?), created_at),
        event_count: u64::try_from(event_count).unwrap_or(0),
    })
}

/// The message as a reader would see it now.
fn view(message: &NewMessage, id: MessageId, app: ApplicationId, created_at: Timestamp) -> MessageView {
    let deliver_at = created_at.after(message.deliver_in);
    MessageView {
        id,
        app,
        uid: message.uid.clone(),
        event_type: message.event_type.clone(),
        channels: message.channels.clone(),
        tags: message.tags.clone(),
        content: MessageContent::Payload(message.payload.clone()),
        created_at,
        deliver_at: Some(deliver_at).filter(|at| *at > created_at),
    }
}
