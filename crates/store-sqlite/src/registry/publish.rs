//! Publishing: a message, and an event for each endpoint that subscribes to it. The trigger of the view `webhook_publish` does
//! it for the service and for SQL clients alike, so that the two cannot differ.

use posthaste_domain::{ApplicationId, Channel, MessageId, NewMessage, Timestamp, Uid};
use posthaste_store::{AppScope, Publication, PublishRequest, StoreError};
use rand::RngExt as _;

use super::{MESSAGE_BY_UID, MessageKey, application, endpoint, find_app, message, to_json, uid_taken};
use crate::command::WriteContext;
use crate::error::CallError;
use crate::totals;

const SECONDS_PER_DAY: u64 = 86_400;

/// Publishes a message. The service has validated it, so the checks of the view pass; only the uid and the endpoint depend on
/// stored rows, and are checked here to name the error.
pub(super) fn publish(
    context: &mut WriteContext<'_>,
    request: &PublishRequest,
) -> Result<Publication, CallError> {
    let db = context.db;
    let app = find_or_create_app(context, request)?;
    if let Some(only) = &request.only_endpoint {
        endpoint::find_enabled(db, app, only)?;
    }
    if let Some(uid) = &request.message.uid
        && db.prepare_cached(MESSAGE_BY_UID)?.exists((app.0, uid.as_str()))?
    {
        return Err(uid_taken(uid));
    }
    let id = MessageId::v7(context.now, context.random.random());
    insert(context, app, id, request)?;
    let key = MessageKey(totals::last_event_key(db)?);
    let message = message::read_by_id(db, app, id, true)?;
    let event_count = u64::try_from(key.0 - message.key.0).unwrap_or_default();
    *context.has_due_events |= event_count > 0;
    Ok(Publication { message: message.view, event_count })
}

/// Finds the application, or creates the one that the request brings along. A request for a new application cannot fail later,
/// unless it names an endpoint.
fn find_or_create_app(
    context: &WriteContext<'_>,
    request: &PublishRequest,
) -> Result<ApplicationId, CallError> {
    let found = find_app(context.db, AppScope { org: &request.org, app: &request.app });
    match (found, &request.create_app) {
        (Err(CallError::Refused(_)), Some(new))
            if new.uid.is_some() && request.app.uid() == new.uid.as_ref() =>
        {
            if let Some(endpoint) = &request.only_endpoint {
                return Err(StoreError::EndpointNotFound { endpoint: endpoint.to_string() }.into());
            }
            Ok(application::add(context.db, context.now, &request.org, new)?)
        }
        (found, _) => found,
    }
}

fn insert(
    context: &WriteContext<'_>,
    app: ApplicationId,
    id: MessageId,
    request: &PublishRequest,
) -> rusqlite::Result<()> {
    let NewMessage { channels, tags, .. } = &request.message;
    let message = &request.message;
    let channels = channels.iter().map(Channel::as_str);
    let tags = tags.iter().map(String::as_str);
    context
        .db
        .prepare_cached(
            "INSERT INTO webhook_publish
                 (app, event_type, payload, uid, channels, tags, deliver_at, payload_retention_days, org,
                  payment_request_id, session_id, traceparent, content_type, max_attempts, endpoint, stored_by,
                  created_at, message_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
        )?
        .execute(rusqlite::params![
            app.to_string(),
            message.event_type.as_str(),
            message.payload.as_ref(),
            message.uid.as_ref().map(Uid::as_str),
            (!message.channels.is_empty()).then(|| to_json(channels)),
            (!message.tags.is_empty()).then(|| to_json(tags)),
            (!message.deliver_in.is_zero()).then(|| context.now.after(message.deliver_in).as_micros()),
            i64::try_from(message.payload_retention.as_secs() / SECONDS_PER_DAY).unwrap_or(i64::MAX),
            request.org.as_str(),
            message.payment_request_id,
            message.session_id,
            message.traceparent,
            message.content_type,
            message.max_attempts,
            request.only_endpoint.as_ref().map(ToString::to_string),
            request.stored_by,
            context.now.as_micros(),
            id.as_uuid().into_bytes(),
        ])?;
    Ok(())
}

/// When the first attempt of an added event of a message is due: as its producer asked for, but not before now.
pub(super) fn due_at(deliver_at: Option<Timestamp>, now: Timestamp) -> Timestamp {
    deliver_at.map_or(now, |at| at.max(now))
}
