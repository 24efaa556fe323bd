//! Conversions between PostgreSQL's column types and Rust's.

use std::error::Error;
use std::time::Duration;

use posthaste_domain::{DisableReason, EventKey, FailureKind, LeaseToken, NoticeKind, Timestamp};
use tokio_postgres::types::{FromSql, Type};
use uuid::Uuid;

/// PostgreSQL's epoch, 2000-01-01, in microseconds since the Unix epoch.
const POSTGRES_EPOCH_US: i64 = 946_684_800_000_000;

/// A `timestamptz` column, read as a [`Timestamp`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct PgTimestamp(pub(crate) Timestamp);

impl<'a> FromSql<'a> for PgTimestamp {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        Ok(Self(Timestamp::from_micros(micros.saturating_add(POSTGRES_EPOCH_US))))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::TIMESTAMPTZ
    }
}

/// The prefix of the reason in the kind of a notice about a disabled endpoint.
const ENDPOINT_DISABLED: &str = "endpoint_disabled:";

/// The kind of a notice, read from a `text` column that holds the failure kind of an event, or why its result disabled the
/// endpoint. An unknown name is an error: a newer version of Posthaste wrote it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PgNoticeKind(pub(crate) NoticeKind);

impl<'a> FromSql<'a> for PgNoticeKind {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let name = <&str>::from_sql(kind, raw)?;
        let kind = match name.strip_prefix(ENDPOINT_DISABLED) {
            Some(reason) => DisableReason::from_name(reason).map(NoticeKind::EndpointDisabled),
            None => FailureKind::from_name(name).map(NoticeKind::DeadLettered),
        };
        let unknown = || format!("this version of Posthaste does not know the failure kind {name:?}");
        Ok(Self(kind.ok_or_else(unknown)?))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::TEXT
    }
}

/// Converts a duration to a parameter in microseconds, capped so that adding it to the current time never overflows a
/// `timestamptz`.
pub(crate) fn micros(duration: Duration) -> i64 {
    const THOUSAND_YEARS: i64 = 1_000 * 365 * 86_400 * 1_000_000;
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX).min(THOUSAND_YEARS)
}

/// Converts a number of bytes to a parameter.
pub(crate) fn bytes(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Converts a stored count, which is signed only because SQL has no unsigned integers. A negative one becomes zero.
pub(crate) fn unsigned(stored: i32) -> u32 {
    u32::try_from(stored).unwrap_or(0)
}

/// Returns the token of the lease that a claim holds on an event: the id of the claim, with the key in its upper half. A
/// claim draws one random id for all its leases, and every lease has a token that no other lease of any event has. SQL has
/// the same function, `app.webhook_lease_token`.
pub(crate) fn lease_token(claim: Uuid, key: EventKey) -> LeaseToken {
    LeaseToken::from_uuid(combine(claim, key))
}

/// Returns the id of the claim that granted a lease: the inverse of [`lease_token`].
pub(crate) fn lease_claim(token: LeaseToken, key: EventKey) -> Uuid {
    combine(token.as_uuid(), key)
}

fn combine(id: Uuid, EventKey(key): EventKey) -> Uuid {
    let (high, low) = id.as_u64_pair();
    Uuid::from_u64_pair(high ^ u64::from_ne_bytes(key.to_ne_bytes()), low)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_token_names_its_claim_and_differs_from_those_of_other_leases(
            claim in any::<u128>(), other in any::<u128>(), key in any::<i64>(), other_key in any::<i64>()
        ) {
            let (claim, other) = (Uuid::from_u128(claim), Uuid::from_u128(other));
            let token = lease_token(claim, EventKey(key));
            prop_assert_eq!(lease_claim(token, EventKey(key)), claim);
            if other_key != key {
                prop_assert_ne!(lease_token(claim, EventKey(other_key)), token);
            }
            if other != claim {
                prop_assert_ne!(lease_token(other, EventKey(key)), token);
            }
        }
    }
}
