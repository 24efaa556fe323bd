//! Reads of large payloads, in pieces.
//!
//! On a slow link, each statement of this process waits for the bytes that were requested before it. So one piece of one
//! payload is in flight at a time, and it is as large as the link transfers in a few milliseconds. Payloads that are read at
//! the same time take turns, piece by piece. A piece that fails is requested once more; those before it are kept.

mod piece_size;

use bytes::{Bytes, BytesMut};
use posthaste_store::{LeaseRef, StoreError};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_postgres::types::Type;

use crate::StoreState;
use crate::convert::lease_claim;
use crate::error::store_error;
use crate::session::Sql;
use piece_size::PieceSize;

/// How often a piece is requested at most.
const TRIES: usize = 2;

/// Reads up to $4 bytes of the payload of the event $1 from the position $3 on, and the size of the payload, fenced by the
/// claim $2 that holds the lease. Finds the rows by key. A large payload is stored in chunks of its own, uncompressed:
/// PostgreSQL reads those that the piece covers.
static READ_PIECE: Sql = Sql {
    text: "
SELECT octet_length(coalesce(e.payload, m.payload)), substring(coalesce(e.payload, m.payload) FROM $3 FOR $4)
FROM app.webhook_queue q
JOIN app.webhook_events e ON e.id = q.id
LEFT JOIN app.webhook_messages m ON m.key = e.message_key
WHERE q.id = $1 AND q.lease_claim = $2",
    types: &[Type::INT8, Type::UUID, Type::INT4, Type::INT4],
};

/// The reads of large payloads of one process.
#[derive(Default)]
pub(crate) struct PayloadReads {
    /// The size of the next piece. Its holder reads a piece.
    size: Mutex<PieceSize>,
}

/// A piece of a payload, with the size of the payload.
struct Piece {
    payload_bytes: usize,
    bytes: Bytes,
}

/// Reads the payload of a leased event, or returns none if the lease was lost.
pub(crate) async fn read_payload(store: &StoreState, lease: LeaseRef) -> Result<Option<Bytes>, StoreError> {
    let mut payload = BytesMut::new();
    loop {
        let Some(piece) = read_next_piece(store, lease, payload.len()).await? else { return Ok(None) };
        if payload.is_empty() {
            if piece.bytes.len() >= piece.payload_bytes {
                return Ok(Some(piece.bytes));
            }
            payload.reserve(piece.payload_bytes);
        }
        payload.extend_from_slice(&piece.bytes);
        // A payload that was removed in between has no more bytes.
        if payload.len() >= piece.payload_bytes || piece.bytes.is_empty() {
            return Ok(Some(payload.freeze()));
        }
    }
}

/// Waits for its turn, and reads the piece after the first `from` bytes.
async fn read_next_piece(
    store: &StoreState,
    lease: LeaseRef,
    from: usize,
) -> Result<Option<Piece>, StoreError> {
    let mut size = store.payload_reads.size.lock().await;
    let mut result = read_piece(store, lease, from, &mut size).await;
    for _ in 1..TRIES {
        if result.as_ref().is_err_and(StoreError::is_transient) {
            result = read_piece(store, lease, from, &mut size).await;
        }
    }
    result
}

async fn read_piece(
    store: &StoreState,
    lease: LeaseRef,
    from: usize,
    size: &mut PieceSize,
) -> Result<Option<Piece>, StoreError> {
    let claim = lease_claim(lease.token, lease.key);
    let bytes_max = size.bytes(from == 0);
    let position = i32::try_from(from + 1).expect("PostgreSQL stores no value of 2 GiB");
    let count = i32::try_from(bytes_max).expect("a piece is small");
    let requested_at = now();
    let answer = store.sessions.payloads.query(&READ_PIECE, &[&lease.key.0, &claim, &position, &count]).await;
    let rows = answer.inspect_err(|_| size.record_failure())?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (payload_bytes, bytes) = (row.try_get::<_, Option<i32>>(0), row.try_get::<_, Option<&[u8]>>(1));
    let payload_bytes = payload_bytes.map_err(|error| store_error(&error))?.unwrap_or_default();
    let bytes = bytes.map_err(|error| store_error(&error))?.unwrap_or_default();
    if bytes.len() == bytes_max {
        size.record(bytes_max, now() - requested_at);
    }
    let payload_bytes = usize::try_from(payload_bytes).unwrap_or_default();
    Ok(Some(Piece { payload_bytes, bytes: Bytes::copy_from_slice(bytes) }))
}

#[expect(clippy::disallowed_methods, reason = "measures the link; nothing is scheduled by it")]
fn now() -> Instant {
    Instant::now()
}
