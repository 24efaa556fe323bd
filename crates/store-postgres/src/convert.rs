//! Conversions between PostgreSQL's column types and Rust's.

use std::error::Error;
use std::time::Duration;

use posthaste_domain::{FailureKind, Timestamp};
use tokio_postgres::types::{FromSql, Type};

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

/// A failure kind read from a `text` column. An unknown name is an error: a newer version of Posthaste wrote it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PgFailureKind(pub(crate) FailureKind);

impl<'a> FromSql<'a> for PgFailureKind {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let name = <&str>::from_sql(kind, raw)?;
        let unknown = || format!("this version of Posthaste does not know the failure kind {name:?}");
        Ok(Self(FailureKind::from_name(name).ok_or_else(unknown)?))
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
