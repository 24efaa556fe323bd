//! The list of cases that every store must pass, on PostgreSQL.

mod support;

use support::PostgresHarness;

posthaste_store_conformance::conformance_suite!(PostgresHarness::start().await);
