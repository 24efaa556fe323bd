//! What the database's own function gives to events that ask for nothing: it cannot read our configuration.

use posthaste_store::StoreError;
use tokio_postgres::types::Type;

use crate::Shared;
use crate::session::Sql;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallerDefaults {
    pub max_attempts: u32,
    pub payload_bytes_max: usize,
}

/// Writes only what differs, so that many processes that start alike do not wait for one another.
static SET: Sql = Sql {
    text: "
UPDATE app.webhook_settings s
SET value = w.value
FROM (VALUES ('max_attempts', $1::bigint), ('payload_bytes_max', $2::bigint)) AS w (name, value)
WHERE s.name = w.name AND s.value <> w.value",
    types: &[Type::INT8, Type::INT8],
};

pub(crate) async fn set(store: &Shared, defaults: CallerDefaults) -> Result<(), StoreError> {
    let max_attempts = i64::from(defaults.max_attempts);
    let payload_bytes_max = i64::try_from(defaults.payload_bytes_max).unwrap_or(i64::MAX);
    let params: crate::session::Params<'_> = &[&max_attempts, &payload_bytes_max];
    store.sessions.produce.with(async |session| session.transact(&SET, params).await).await.map(drop)
}
