//! Runs the store conformance suite on PostgreSQL.

mod support;

use support::PostgresHarness;

posthaste_store_conformance::conformance_suite!(PostgresHarness::start().await);
