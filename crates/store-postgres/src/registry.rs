//! The registry of the store: applications, endpoints, event types, messages and operations.
//!
//! A call that changes something is one transaction, which locks the application first, then the destination. Its answer is kept
//! in the same transaction.

mod answer;
mod application;
mod attempt;
mod cancel;
mod endpoint;
mod endpoint_change;
mod event_type;
mod keys;
mod list;
mod message;
mod operation;
mod operation_step;
mod publish;
mod resend;

use posthaste_domain::{ApplicationId, ApplicationRef, DestinationId, EndpointRef, MessageId, MessageRef};
use posthaste_store::{AppScope, StoreError};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use crate::session::{BEGIN, Session, SessionPool, Sql};

pub(crate) use answer::DELETE_EXPIRED_ANSWERS;
pub(crate) use application::REMOVE_DELETED;
pub(crate) use cancel::cancel_of_deleted;
pub(crate) use keys::REMOVE_RETIRED;
pub(crate) use list::{ListSql, PageQuery, list_by_number};
pub(crate) use operation::DELETE_OLD as DELETE_OLD_OPERATIONS;
pub(crate) use resend::{Extra, add_replay, free_run, reopen};

/// Why a call of the registry ended early.
pub(crate) enum CallError {
    /// The call is refused. The session is intact.
    Refused(StoreError),
    Failed(tokio_postgres::Error),
}

impl From<tokio_postgres::Error> for CallError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for CallError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl CallError {
    /// Converts the error of a statement that writes a uid: another transaction may have taken it meanwhile.
    fn of_uid(error: tokio_postgres::Error, uid: Option<&str>) -> Self {
        match (error.code(), uid) {
            (Some(code), Some(uid)) if *code == SqlState::UNIQUE_VIOLATION => {
                Self::Refused(StoreError::UidTaken { uid: uid.to_owned() })
            }
            _ => Self::Failed(error),
        }
    }
}

/// The result of a call of the registry.
pub(crate) type Call<T> = Result<T, CallError>;

/// Runs `work` in a transaction, which is committed unless the work fails or refuses the call.
pub(crate) async fn change<T, W>(pool: &SessionPool, work: W) -> Result<T, StoreError>
where
    W: AsyncFnOnce(&Session) -> Call<T>,
{
    let changed = pool.with(async |session| {
        session.begin(&BEGIN).await?;
        match work(session).await {
            Ok(value) => {
                session.client().batch_execute("COMMIT").await?;
                Ok(Ok(value))
            }
            Err(CallError::Refused(refusal)) => {
                session.client().batch_execute("ROLLBACK").await?;
                Ok(Err(refusal))
            }
            Err(CallError::Failed(error)) => Err(error),
        }
    });
    changed.await?
}

/// Runs `work`, which only reads.
pub(crate) async fn read<T, W>(pool: &SessionPool, work: W) -> Result<T, StoreError>
where
    W: AsyncFnOnce(&Session) -> Call<T>,
{
    let found = pool.with(async |session| match work(session).await {
        Ok(value) => Ok(Ok(value)),
        Err(CallError::Refused(refusal)) => Ok(Err(refusal)),
        Err(CallError::Failed(error)) => Err(error),
    });
    found.await?
}

/// Finds an application by its id $2 or its uid $3. Uses indexes webhook_applications_id and webhook_applications_uid.
static FIND_APPLICATION: Sql = Sql {
    text: "
SELECT a.id FROM app.webhook_applications a WHERE a.id = $2 AND a.org = $1 AND a.deleted_at IS NULL
UNION ALL
SELECT a.id FROM app.webhook_applications a WHERE a.org = $1 AND a.uid = $3 AND a.deleted_at IS NULL",
    types: &[Type::TEXT, Type::INT8, Type::TEXT],
};

/// Locks an application, so that neither its throttle changes nor the application is deleted.
static SHARE_APPLICATION: Sql = Sql {
    text: "SELECT a.id FROM app.webhook_applications a WHERE a.id = $1 AND a.deleted_at IS NULL FOR SHARE",
    types: &[Type::INT8],
};

/// Finds an endpoint of the application $1 by its id $2 or its uid $3. Uses indexes webhook_endpoints_destination and
/// webhook_endpoints_uid.
static FIND_ENDPOINT: Sql = Sql {
    text: "
SELECT e.destination_id
FROM app.webhook_endpoints e WHERE e.destination_id = $2 AND e.app_id = $1 AND e.deleted_at IS NULL
UNION ALL
SELECT e.destination_id
FROM app.webhook_endpoints e WHERE e.app_id = $1 AND e.uid = $3 AND e.deleted_at IS NULL",
    types: &[Type::INT8, Type::INT8, Type::TEXT],
};

/// Tells whether an endpoint is disabled. Uses index webhook_destinations_id.
static IS_DISABLED: Sql = Sql {
    text: "SELECT d.disabled_at IS NOT NULL FROM app.webhook_destinations d WHERE d.id = $1",
    types: &[Type::INT8],
};

/// Finds a message of the application $1 by its id $2 or its uid $3. Uses indexes webhook_messages_id and webhook_messages_uid.
static FIND_MESSAGE: Sql = Sql {
    text: "
SELECT m.key, m.id FROM app.webhook_messages m WHERE m.id = $2 AND m.app_id = $1
UNION ALL
SELECT m.key, m.id FROM app.webhook_messages m WHERE m.app_id = $1 AND m.uid = $3",
    types: &[Type::INT8, Type::UUID, Type::TEXT],
};

/// A message by its key in the table and its public id.
#[derive(Debug, Clone, Copy)]
struct FoundMessage {
    key: i64,
    id: MessageId,
}

/// Finds an application of an organisation.
async fn find_app(session: &Session, scope: AppScope<'_>) -> Call<ApplicationId> {
    let id = match scope.app {
        ApplicationRef::Id(id) => Some(id.0),
        ApplicationRef::Uid(_) => None,
    };
    let uid = scope.app.uid().map(posthaste_domain::Uid::as_str);
    let rows = session.query(&FIND_APPLICATION, &[&scope.org.as_str(), &id, &uid]).await?;
    let row = rows.first().ok_or_else(|| app_not_found(scope.app))?;
    Ok(ApplicationId(row.try_get(0)?))
}

/// Finds an application, and keeps it from being changed until the transaction ends.
async fn share_app(session: &Session, scope: AppScope<'_>) -> Call<ApplicationId> {
    let id = find_app(session, scope).await?;
    let shared = session.query(&SHARE_APPLICATION, &[&id.0]).await?;
    if shared.is_empty() {
        return Err(app_not_found(scope.app).into());
    }
    Ok(id)
}

fn app_not_found(app: &ApplicationRef) -> StoreError {
    StoreError::ApplicationNotFound { app: app.to_string() }
}

/// Finds an endpoint of an application.
async fn find_endpoint(session: &Session, app: ApplicationId, endpoint: &EndpointRef) -> Call<DestinationId> {
    let id = match endpoint {
        EndpointRef::Id(id) => Some(id.0.0),
        EndpointRef::Uid(_) => None,
    };
    let uid = endpoint.uid().map(posthaste_domain::Uid::as_str);
    let rows = session.query(&FIND_ENDPOINT, &[&app.0, &id, &uid]).await?;
    let not_found = || StoreError::EndpointNotFound { endpoint: endpoint.to_string() };
    Ok(DestinationId(rows.first().ok_or_else(not_found)?.try_get(0)?))
}

/// Finds an endpoint, and refuses a disabled one.
async fn find_enabled(session: &Session, app: ApplicationId, endpoint: &EndpointRef) -> Call<DestinationId> {
    let id = find_endpoint(session, app, endpoint).await?;
    let rows = session.query(&IS_DISABLED, &[&id.0]).await?;
    match rows.first().map_or(Ok(true), |row| row.try_get(0))? {
        true => Err(StoreError::EndpointDisabled { endpoint: endpoint.to_string() }.into()),
        false => Ok(id),
    }
}

/// Finds a message of an application.
async fn find_message(session: &Session, app: ApplicationId, message: &MessageRef) -> Call<FoundMessage> {
    let id = match message {
        MessageRef::Id(id) => Some(id.as_uuid()),
        MessageRef::Uid(_) => None,
    };
    let uid = message.uid().map(posthaste_domain::Uid::as_str);
    let rows = session.query(&FIND_MESSAGE, &[&app.0, &id, &uid]).await?;
    let not_found = || StoreError::MessageNotFound { message: message.to_string() };
    let row = rows.first().ok_or_else(not_found)?;
    Ok(FoundMessage { key: row.try_get(0)?, id: MessageId::from_uuid(row.try_get(1)?) })
}
