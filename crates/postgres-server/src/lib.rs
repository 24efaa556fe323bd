//! A PostgreSQL server of one's own.
#![forbid(unsafe_code)]
