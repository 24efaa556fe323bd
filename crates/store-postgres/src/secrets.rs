//! The instance's signing secrets.

use posthaste_domain::signature::Secret;
use posthaste_store::StoreError;
use tokio_postgres::types::Type;

use crate::StoreState;
use crate::session::Sql;

/// Stores the first secret under id 0, which the identity column never generates. Of several processes that store a
/// first secret at the same time, one succeeds. Uses index webhook_secrets_id.
static INSERT_FIRST_SECRET: Sql = Sql {
    text: "
INSERT INTO app.webhook_secrets (id, secret)
OVERRIDING SYSTEM VALUE
SELECT 0, $1 WHERE NOT EXISTS (SELECT FROM app.webhook_secrets)
ON CONFLICT (id) DO NOTHING",
    types: &[Type::TEXT],
};

/// Reads the valid secrets, newest first. The table holds a handful of rows and needs no index for this.
static VALID_SECRETS: Sql = Sql {
    text: "
SELECT secret
FROM app.webhook_secrets
WHERE retired_at IS NULL OR retired_at > app.webhook_now()
ORDER BY created_at DESC, id DESC",
    types: &[],
};

/// Returns the valid secrets, newest first. Stores `first` if there has never been a secret.
pub(crate) async fn signing_secrets(store: &StoreState, first: &Secret) -> Result<Vec<Secret>, StoreError> {
    let text = first.reveal();
    let rows = store.sessions.produce.with(async |session| {
        session.transact(&INSERT_FIRST_SECRET, &[&text.as_str()]).await?;
        session.query(&VALID_SECRETS, &[]).await
    });
    let unreadable = |error| StoreError::Rejected { reason: format!("a row of webhook_secrets: {error}") };
    rows.await?.iter().map(|row| Secret::parse(row.get(0)).map_err(unreadable)).collect()
}
