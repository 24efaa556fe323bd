//! Reads the hosts of destinations with claimable rows, once per destination and process.

use posthaste_claimable::ClaimableIndex;
use posthaste_domain::{DestinationId, DestinationUrl};
use tokio_postgres::types::Type;

use crate::session::{Session, Sql};

/// Destinations that one statement reads.
const READ_MAX: usize = 5_000;

/// Reads destinations by id. Uses index webhook_destinations_id.
static RECEIVERS: Sql = Sql {
    text: "
SELECT d.id, d.url, d.failing_since IS NOT NULL
FROM unnest($1::bigint[]) AS k (id) JOIN app.webhook_destinations d ON d.id = k.id",
    types: &[Type::INT8_ARRAY],
};

/// Reads the hosts that the index does not know yet.
pub(super) async fn read_receivers(
    session: &Session,
    claimable: &mut ClaimableIndex,
) -> Result<(), tokio_postgres::Error> {
    claimable.trim_receivers();
    loop {
        let unread: Vec<i64> = claimable.receivers.unread(READ_MAX).into_iter().map(|id| id.0).collect();
        if unread.is_empty() {
            return Ok(());
        }
        for row in session.transact(&RECEIVERS, &[&unread]).await? {
            let url = DestinationUrl::from_stored(row.try_get(1)?);
            claimable.receivers.record(DestinationId(row.try_get(0)?), url.origin(), row.try_get(2)?);
        }
        // A destination that does not exist has no rows either: the claim finds none and drops its ranges.
        for missing in unread {
            claimable.receivers.forget_unread(DestinationId(missing));
        }
    }
}
