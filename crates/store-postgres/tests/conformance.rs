//! Runs the store conformance suite on PostgreSQL.

mod support;

use support::PostgresHarness;

posthaste_store_conformance::conformance_suite!(PostgresHarness::start().await);

/// The same suite in a schema whose name is a keyword, in a database without a schema `app`.
mod in_another_schema {
    use super::*;

    posthaste_store_conformance::conformance_suite!(
        PostgresHarness::start_in("order".parse().expect("the name is valid")).await
    );
}
