//! The instance's signing secrets.

use posthaste_domain::signature::Secret;
use posthaste_store::StoreError;
use tokio_postgres::types::Type;

use crate::Shared;
use crate::session::Sql;

/// The first one has the number 0, which no later one can have: of several who come first at once, one is kept.
/// Index: webhook_secrets_id.
static KEEP_FIRST: Sql = Sql {
    text: "
INSERT INTO app.webhook_secrets (id, secret)
OVERRIDING SYSTEM VALUE
SELECT 0, $1 WHERE NOT EXISTS (SELECT FROM app.webhook_secrets)
ON CONFLICT (id) DO NOTHING",
    types: &[Type::TEXT],
};

/// There is a handful of them at most; no index is needed.
static VALID: Sql = Sql {
    text: "
SELECT secret
FROM app.webhook_secrets
WHERE retired_at IS NULL OR retired_at > app.webhook_now()
ORDER BY created_at DESC, id DESC",
    types: &[],
};

pub(crate) async fn valid(store: &Shared, first: &Secret) -> Result<Vec<Secret>, StoreError> {
    let text = first.reveal();
    let rows = store.sessions.produce.with(async |session| {
        session.transact(&KEEP_FIRST, &[&text.as_str()]).await?;
        session.query(&VALID, &[]).await
    });
    let unreadable = |error| StoreError::Rejected { reason: format!("a row of webhook_secrets: {error}") };
    rows.await?.iter().map(|row| Secret::parse(row.get(0)).map_err(unreadable)).collect()
}
