//! Settings of the SQL function `app.enqueue_webhook`, which cannot read this program's configuration.

use posthaste_store::StoreError;
use tokio_postgres::types::Type;

use crate::StoreState;
use crate::session::{Params, Sql};

/// Defaults and limits that `app.enqueue_webhook` applies to events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnqueueFunctionDefaults {
    /// Maximum number of attempts of an event whose caller sets none.
    pub max_attempts: u32,
    /// Largest payload that the function accepts.
    pub payload_bytes_max: usize,
}

/// Updates the settings of `app.enqueue_webhook`. Skips equal values, so that processes with equal settings do not
/// wait for each other's row locks.
static UPDATE_SETTINGS: Sql = Sql {
    text: "
UPDATE app.webhook_settings s
SET value = w.value
FROM (VALUES ('max_attempts', $1::bigint), ('payload_bytes_max', $2::bigint)) AS w (name, value)
WHERE s.name = w.name AND s.value <> w.value",
    types: &[Type::INT8, Type::INT8],
};

/// Stores the settings of `app.enqueue_webhook` in the database.
pub(crate) async fn store_defaults(
    store: &StoreState,
    defaults: EnqueueFunctionDefaults,
) -> Result<(), StoreError> {
    let max_attempts = i64::from(defaults.max_attempts);
    let payload_bytes_max = i64::try_from(defaults.payload_bytes_max).unwrap_or(i64::MAX);
    let params: Params<'_> = &[&max_attempts, &payload_bytes_max];
    store
        .sessions
        .produce
        .with(async |session| session.transact(&UPDATE_SETTINGS, params).await)
        .await
        .map(drop)
}
