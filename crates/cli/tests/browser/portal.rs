//! The customers' page, on both stores.

use posthaste_postgres_server::PostgresServer;
use serde_json::json;

use crate::page_server::{self, Response};
use crate::support::TestServer;
use crate::{drive, drive_at};

const TOKEN_SECRET: &str = "a secret for the tokens of portals";
const SQLITE: &str = "sqlite://portal.db";

/// Starts a server that makes tokens.
fn start_server(database_url: &str, more: &[(&str, &str)]) -> TestServer {
    let settings = [("POSTHASTE_DATABASE_URL", database_url), ("POSTHASTE_JWT_SECRET", TOKEN_SECRET)];
    TestServer::start(&["serve"], &[&settings[..], more].concat())
}

#[test]
fn a_customer_walks_through_the_portal_on_sqlite() {
    drive("portal", &start_server(SQLITE, &[]), json!({ "isPictured": true }));
}

#[test]
fn a_customer_walks_through_the_portal_on_postgres() {
    let postgres = PostgresServer::shared();
    let database_url = postgres.url(&postgres.create_database("portal").name);
    drive("portal", &start_server(&database_url, &[]), json!({}));
}

#[test]
fn a_link_permits_no_more_than_its_token() {
    drive("portal-access", &start_server(SQLITE, &[]), json!({ "secret": TOKEN_SECRET }));
}

#[test]
fn a_message_is_sent_again_to_the_chosen_endpoint() {
    drive("portal-messages", &start_server(SQLITE, &[]), json!({}));
}

#[test]
fn no_text_of_a_customer_or_producer_becomes_markup_or_runs() {
    drive("portal-hostile", &start_server(SQLITE, &[]), json!({}));
}

#[test]
fn axe_finds_no_barrier_in_the_portal() {
    drive("portal-accessible", &start_server(SQLITE, &[]), json!({}));
}

#[test]
fn only_configured_origins_may_frame_the_portal() {
    let host = || {
        page_server::serve(|_| Some(Response::new(200, "text/html", "<main id=view><p>A shop</p></main>")))
    };
    let (allowed, other) = (host(), host());
    let server = start_server(SQLITE, &[("POSTHASTE_PORTAL_FRAME_ORIGINS", allowed.trim_end_matches('/'))]);
    drive("portal-frame", &server, json!({ "allowed": allowed, "other": other }));
}

#[test]
fn what_failed_in_the_portal_is_asked_for_again_less_and_less_often() {
    drive("portal-recovers", &start_server(SQLITE, &[]), json!({}));
}

#[test]
fn a_portal_without_a_server_that_answers_says_so() {
    let url = page_server::serve(|request| Some(Response::asset(request.path())));
    let directory = tempfile::tempdir().unwrap();
    drive_at("portal-unreachable", &url, directory.path(), json!({}));
}
