//! Moments and spans of time as PostgreSQL has them.

use std::error::Error;
use std::time::Duration;

use posthaste_domain::Timestamp;
use tokio_postgres::types::{FromSql, Type};

/// The epoch of PostgreSQL, 2000-01-01, in microseconds of ours.
const POSTGRES_EPOCH: i64 = 946_684_800_000_000;

/// A `timestamptz`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment(pub(crate) Timestamp);

impl<'a> FromSql<'a> for Moment {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        Ok(Self(Timestamp::from_micros(micros.saturating_add(POSTGRES_EPOCH))))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::TIMESTAMPTZ
    }
}

/// A duration as a parameter, in microseconds; what no `timestamptz` could hold is cut to what it can.
pub(crate) fn micros(duration: Duration) -> i64 {
    const THOUSAND_YEARS: i64 = 1_000 * 365 * 86_400 * 1_000_000;
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX).min(THOUSAND_YEARS)
}
