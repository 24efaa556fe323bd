//! The dashboard in a real browser, with its content security policy, on the real API. The scenarios are the modules of `browser/`.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

#[path = "browser/page_server.rs"]
mod page_server;
#[path = "browser/portal.rs"]
mod portal;
mod support;

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use page_server::Response;
use posthaste_postgres_server::PostgresServer;
use serde_json::{Value, json};
use support::{TestServer, posthaste, run_within};

/// The limit of each command.
const TIMEOUT: Duration = Duration::from_secs(240);
/// The limit of each scenario. A wait inside a scenario has a shorter one, and says what was missing.
const SCENARIO_TIMEOUT: Duration = Duration::from_secs(900);
const REFUSING: &str = "http://127.0.0.1:1/<b>hook</b>";

/// Held by every scenario that runs: shared, or exclusively by the one that measures how fast the page is.
static RUNNING_SCENARIOS: RwLock<()> = RwLock::new(());

/// Runs a scenario of `browser/` in Chromium. Its screenshots are in a directory of `target/screenshots` with the name of the test.
#[track_caller]
fn drive(scenario: &str, server: &TestServer, options: Value) {
    drive_at(scenario, &server.url, server.directory(), options);
}

#[track_caller]
fn drive_at(scenario: &str, url: &str, directory: &Path, options: Value) {
    let _shared = RUNNING_SCENARIOS.read().unwrap_or_else(PoisonError::into_inner);
    run_scenario(scenario, url, directory, options);
}

/// Runs a scenario while no other one runs.
#[track_caller]
fn drive_alone(scenario: &str, server: &TestServer, options: Value) {
    let _exclusive = RUNNING_SCENARIOS.write().unwrap_or_else(PoisonError::into_inner);
    run_scenario(scenario, &server.url, server.directory(), options);
}

#[track_caller]
fn run_scenario(scenario: &str, url: &str, directory: &Path, mut options: Value) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let scripts = root.join("tests/browser");
    let target = root.join("../../target");
    // Each test has a directory of its own, so that the two stores do not overwrite each other's pictures.
    let test = std::thread::current().name().unwrap_or("test").replace("::", "-");
    options["screenshots"] = json!(target.join("screenshots").join(test));
    options["axe"] = json!(target.join("tools/axe-core/node_modules/axe-core/axe.min.js"));
    let mut node = Command::new("node");
    node.arg(scripts.join("drive.mjs")).arg(scripts.join(scenario).with_extension("mjs"));
    node.arg(find_chromium()).arg(directory.join("browser")).arg(url).arg(options.to_string());
    let output = run_within(SCENARIO_TIMEOUT, node.stderr(std::process::Stdio::piped()));
    assert!(output.status.success(), "{scenario}: {}", String::from_utf8_lossy(&output.stderr));
}

fn find_chromium() -> &'static str {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let is_installed = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    names.into_iter().find(is_installed).expect("Chromium is missing: `make need-packages` installs it")
}

/// The store of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoreKind {
    Sqlite,
    Postgres,
}

impl StoreKind {
    /// Starts a server on a new database.
    fn start(self, settings: &[(&str, &str)]) -> TestServer {
        if self == Self::Sqlite {
            return TestServer::start(&["serve"], settings);
        }
        let postgres = PostgresServer::shared();
        let database_url = postgres.url(&postgres.create_database("page").name);
        TestServer::start(&["serve"], &[&[("POSTHASTE_DATABASE_URL", &*database_url)], settings].concat())
    }

    /// Starts a server without retries: the first failed attempt dead-letters an event.
    fn start_without_retries(self, more: &[(&str, &str)]) -> TestServer {
        self.start(&[&[("POSTHASTE_MAX_RETRY_ATTEMPTS", "0")], more].concat())
    }
}

/// Starts a server on SQLite, without retries.
fn start_server() -> TestServer {
    StoreKind::Sqlite.start_without_retries(&[])
}

/// Declares the two tests of a function that takes the kind of the store.
macro_rules! on_both_stores {
    ($($run:ident: $on_sqlite:ident, $on_postgres:ident;)+) => {
        $(
            #[test]
            fn $on_sqlite() {
                $run(StoreKind::Sqlite);
            }

            #[test]
            fn $on_postgres() {
                $run(StoreKind::Postgres);
            }
        )+
    };
}

on_both_stores! {
    look_at_overview: the_overview_shows_whether_webhooks_flow_and_its_first_load_is_small,
        the_overview_shows_whether_webhooks_flow_on_postgres;
    look_at_events: events_are_filtered_by_the_url_and_one_is_shown_with_its_life_on_sqlite,
        events_are_filtered_by_the_url_and_one_is_shown_with_its_life_on_postgres;
    follow_live: the_live_tail_is_paused_and_filtered_on_sqlite, the_live_tail_is_paused_and_filtered_on_postgres;
    send_test_events: a_test_event_is_sent_and_followed_on_sqlite, a_test_event_is_sent_and_followed_on_postgres;
    filter_events: events_are_filtered_on_the_server_on_sqlite, events_are_filtered_on_the_server_on_postgres;
    look_at_content: the_content_of_an_event_is_shown_on_a_click_and_it_is_replayed,
        the_content_of_an_event_is_shown_and_it_is_replayed_on_postgres;
    take_pictures: every_view_is_pictured_without_data_with_much_and_with_everything_failing,
        every_view_is_pictured_on_postgres;
    steer_destinations: destinations_are_paused_and_resumed, destinations_are_paused_and_resumed_on_postgres;
    probe: a_destination_is_probed_at_once, a_destination_is_probed_at_once_on_postgres;
    use_keyboard: the_page_is_usable_with_the_keyboard_alone, the_page_is_usable_with_the_keyboard_alone_on_postgres;
    repair_in_bulk: dead_letters_are_counted_cancelled_in_bulk_and_stopped_on_sqlite,
        dead_letters_are_counted_cancelled_in_bulk_and_stopped_on_postgres;
    steer_endpoints: endpoints_are_enabled_recovered_and_explained_on_sqlite,
        endpoints_are_enabled_recovered_and_explained_on_postgres;
    check_accessibility: axe_finds_no_barrier_on_any_view, axe_finds_no_barrier_on_any_view_on_postgres;
    check_access: the_page_asks_for_a_key_and_offers_what_its_role_may_do, the_page_asks_for_a_key_on_postgres;
}

#[track_caller]
fn run(server: &TestServer, arguments: &[&str], expected_code: i32) {
    let output = run_within(TIMEOUT, posthaste(arguments).args(["--server", &server.url]));
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(expected_code), "{arguments:?}: {error}");
}

/// Sends an event to an address that refuses connections, and waits until it is dead-lettered.
fn create_dead_letter(server: &TestServer, event_id: &str, more: &[&str]) {
    let send = [
        "send",
        "--event-id",
        event_id,
        "--type",
        "order.created",
        "--url",
        REFUSING,
        "--data",
        "{}",
        "--wait",
    ];
    run(server, &[&send, more].concat(), 1);
}

fn look_at_overview(store: StoreKind) {
    let server = store.start_without_retries(&[]);
    create_dead_letter(&server, "order-17-created", &[]);
    let mut ranges = vec!["1h"];
    if store == StoreKind::Sqlite {
        write_ten_days_of_history(&server);
        ranges.extend(["7d", "30d"]);
    }
    drive("overview", &server, json!({ "version": env!("CARGO_PKG_VERSION"), "ranges": ranges }));
}

/// Writes what a worker would have reported in the ten days before now.
fn write_ten_days_of_history(server: &TestServer) {
    let db = rusqlite::Connection::open(server.directory().join("posthaste.db")).unwrap();
    db.busy_timeout(TIMEOUT).unwrap();
    let written = db.execute(
        "WITH RECURSIVE step(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM step WHERE number < 480)
         INSERT INTO webhook_activity
             (step_seconds, at, delivered_count, retried_count, failed_count, latency_counts, pending_count,
              dead_letter_count)
         SELECT 1800, (unixepoch() / 1800 - number) * 1800 * 1000000, 600, 60, 30, '[0, 690]', 40, 7 FROM step",
        [],
    );
    assert_eq!(written.unwrap(), 480);
}

fn look_at_events(store: StoreKind) {
    let server = store.start_without_retries(&[]);
    create_dead_letter(&server, "order-17-created", &[]);
    let receiver = page_server::serve(|_| Some(Response::json(200, "{}")));
    let send =
        ["send", "--event-id", "order-18-delivered", "--type", "order.created", "--data", "{}", "--wait"];
    run(&server, &[&send[..], &["--url", &receiver]].concat(), 0);
    drive("events", &server, json!({}));
}

fn follow_live(store: StoreKind) {
    drive("live", &store.start_without_retries(&[]), json!({}));
}

fn send_test_events(store: StoreKind) {
    drive("send", &store.start_without_retries(&[]), json!({}));
}

fn filter_events(store: StoreKind) {
    drive("filters", &store.start_without_retries(&[]), json!({}));
}

#[test]
fn a_flood_of_notices_loses_none_and_does_not_move_under_the_pointer() {
    drive("live-flood", &start_server(), json!({}));
}

#[test]
fn charts_are_drawn_and_a_part_that_fails_says_so() {
    drive("charts", &start_server(), json!({}));
}

#[test]
fn long_lists_keep_their_rows_and_follow_the_applied_conditions() {
    drive("lists", &start_server(), json!({}));
}

#[test]
fn nothing_jumps_while_a_view_loads_and_is_refreshed() {
    let server = start_server();
    create_dead_letter(&server, "order-17-created", &[]);
    drive("stable", &server, json!({}));
}

#[test]
fn the_page_recovers_from_a_stream_that_ends_and_from_a_rewound_log() {
    drive("recovers", &start_server(), json!({}));
}

#[test]
fn the_page_says_what_is_wrong_and_what_to_do() {
    drive("advice", &start_server(), json!({}));
}

#[test]
fn a_late_response_belongs_to_its_own_dialog_and_view() {
    drive("late", &start_server(), json!({}));
}

#[test]
fn a_request_without_a_response_is_given_up_and_repeated() {
    drive("timeout", &start_server(), json!({}));
}

#[test]
fn axe_finds_no_barrier_without_data_in_errors_and_in_what_actions_show() {
    drive("accessible-states", &start_server(), json!({}));
}

#[test]
fn a_slow_count_replaces_no_dialog_and_follows_the_number_of_dead_letters() {
    drive("bulk-count", &start_server(), json!({}));
}

#[test]
fn a_hidden_tab_holds_no_connection_and_goes_on_when_it_is_shown() {
    drive("hidden", &start_server(), json!({}));
}

#[test]
fn loaded_rows_stay_on_a_busy_server_and_a_search_ends_with_its_view() {
    drive("list-gap", &start_server(), json!({}));
}

#[test]
fn payloads_are_shown_and_sent_unaltered() {
    let server = StoreKind::Sqlite
        .start_without_retries(&[("POSTHASTE_JWT_SECRET", "a secret for the tokens of portals")]);
    drive("unaltered", &server, json!({}));
}

#[test]
fn an_event_leads_to_its_destination_its_endpoint_and_the_event_it_repeats() {
    drive("event-links", &start_server(), json!({}));
}

#[test]
fn the_overview_claims_nothing_that_it_does_not_know() {
    drive("unknown", &start_server(), json!({}));
}

#[test]
fn back_returns_to_the_row_and_the_focus_is_never_lost() {
    drive("back", &start_server(), json!({}));
}

#[test]
fn a_search_says_how_far_back_it_has_come() {
    drive("searched", &start_server(), json!({}));
}

fn look_at_content(store: StoreKind) {
    drive("content", &store.start_without_retries(&[]), json!({}));
}

#[test]
fn ten_thousand_rows_and_a_hundred_notices_a_second_do_not_block_the_page() {
    drive_alone("smooth", &start_server(), json!({}));
}

fn take_pictures(store: StoreKind) {
    for (state, count) in [("none", 0), ("much", 2_000), ("failing", 400)] {
        let server =
            store.start_without_retries(&[("POSTHASTE_JWT_SECRET", "a secret for the tokens of portals")]);
        drive("pictures", &server, json!({ "state": state, "count": count }));
    }
}

#[test]
fn texts_of_operators_are_shown_as_text_and_cancelled_events_are_not_shown_first() {
    let server = start_server();
    create_dead_letter(&server, "order-17-created", &[]);
    create_dead_letter(&server, "order-19-created", &[]);
    run(&server, &["events", "cancel", "order-17-created", "--reason", "<i>refunded</i>"], 0);
    drive("operator-text", &server, json!({}));
}

#[test]
fn no_text_of_the_api_becomes_markup_or_runs() {
    let server = start_server();
    drive("hostile", &server, json!({}));
}

fn steer_destinations(store: StoreKind) {
    let server = store.start(&[]);
    run(&server, &["send", "--type", "order.created", "--url", REFUSING, "--data", "{}"], 0);
    drive("destinations", &server, json!({}));
}

fn probe(store: StoreKind) {
    drive("probe", &store.start(&[]), json!({}));
}

fn use_keyboard(store: StoreKind) {
    let server = store.start_without_retries(&[]);
    create_dead_letter(&server, "order-17-created", &[]);
    create_dead_letter(&server, "order-18-created", &[]);
    drive("keyboard", &server, json!({}));
}

/// Ten failures would open a circuit, and hold the next events back.
const NO_CIRCUITS: (&str, &str) = ("POSTHASTE_CIRCUIT_BREAKER", "off");

fn repair_in_bulk(store: StoreKind) {
    drive("bulk", &store.start_without_retries(&[NO_CIRCUITS]), json!({}));
}

/// Recoveries that send one event a second, so that a test can stop them.
const SLOW_RECOVERIES: (&str, &str) = ("POSTHASTE_OPERATION_RATE_PER_SECOND", "1");

fn steer_endpoints(store: StoreKind) {
    drive("endpoints", &store.start_without_retries(&[SLOW_RECOVERIES]), json!({}));
}

fn check_accessibility(store: StoreKind) {
    let server = store.start_without_retries(&[]);
    create_dead_letter(&server, "order-17-created", &[]);
    drive("accessible", &server, json!({}));
}

const VIEWER_KEY: &str = "viewer-key-0123456789";
const OPERATOR_KEY: &str = "operator-key-0123456789";

fn check_access(store: StoreKind) {
    let keys = format!("eyes:viewer:{VIEWER_KEY},ops:operator:{OPERATOR_KEY}");
    let server = store.start_without_retries(&[
        ("POSTHASTE_API_KEYS", &keys),
        ("POSTHASTE_ALLOW_PRIVATE_NETWORKS", "true"),
        NO_CIRCUITS,
    ]);
    let key = ["--key", OPERATOR_KEY];
    create_dead_letter(&server, "order-17-created", &key);
    let receiver = page_server::serve(|_| Some(Response::json(200, "{}")));
    let send =
        ["send", "--event-id", "order-18-delivered", "--type", "order.created", "--data", "{}", "--wait"];
    run(&server, &[&send[..], &["--url", &receiver], &key].concat(), 0);
    let callers = json!([
        { "key": VIEWER_KEY, "caller": "eyes (viewer)", "mayOperate": false },
        { "key": OPERATOR_KEY, "caller": "ops (operator)", "mayOperate": true },
    ]);
    drive("access", &server, json!({ "callers": callers }));
}

#[test]
fn a_viewer_who_acts_on_the_command_line_learns_which_role_is_needed() {
    let keys = format!("eyes:viewer:{VIEWER_KEY}");
    let server = TestServer::start(&["serve"], &[("POSTHASTE_API_KEYS", &keys)]);
    let mut requeue = posthaste(&["dlq", "requeue", "order-17", "--server", &server.url]);
    let refused = run_within(TIMEOUT, requeue.args(["--key", VIEWER_KEY]));
    assert_eq!(refused.status.code(), Some(1));
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    for part in ["\"eyes\"", "role viewer", "role operator", "--key"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn an_action_that_is_repeated_after_a_lost_response_has_the_same_idempotency_key() {
    let keys = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&keys);
    let url = page_server::serve(move |request| {
        let path = request.path();
        Some(match path.rsplit('/').next().unwrap_or_default() {
            "whoami" => Response::json(200, r#"{"name":"local","role":null,"permissions":["operate"]}"#),
            "overview" => Response::json(200, r#"{"failed_count":1,"cancelled_count":0,"held_count":0}"#),
            list if list.starts_with("dlq?") => Response::json(
                200,
                r#"{"events":[{"event_id":"order-17","event_type":"t","destination_url":"http://a.example/"}]}"#,
            ),
            "requeue" => {
                let mut recorded = recorded.lock().unwrap();
                recorded.push(request.header("idempotency-key").map(str::to_owned));
                if recorded.len() == 1 {
                    return None;
                }
                Response::json(200, r#"{"event_id":"order-17","delivery_status":"pending"}"#)
            }
            _ => Response::asset(path),
        })
    });
    let directory = tempfile::tempdir().unwrap();
    drive_at("lost-response", &url, directory.path(), json!({}));
    let keys = keys.lock().unwrap();
    assert!(keys.len() >= 2 && keys[0] == keys[1], "{keys:?}");
    assert!(keys[0].as_ref().is_some_and(|key| key.len() >= 16), "{keys:?}");
}

/// Serves the page, and a stream that sends its position and then disconnects. Returns the URL, and the `last-event-id` of
/// each request for the stream.
fn serve_disconnecting_stream() -> (String, Arc<Mutex<Vec<Option<String>>>>) {
    let last_event_ids = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&last_event_ids);
    let url = page_server::serve(move |request| {
        if !request.path().ends_with("/stream") {
            return Some(Response::asset(request.path()));
        }
        recorded.lock().unwrap().push(request.header("last-event-id").map(str::to_owned));
        Some(Response::new(200, "text/event-stream", "retry: 1000\nid: 7:3\n: gateway:webhooks\n\n"))
    });
    (url, last_event_ids)
}

#[test]
fn a_stream_that_disconnects_before_its_first_notice_is_resumed_from_its_start_position() {
    let (url, last_event_ids) = serve_disconnecting_stream();
    let directory = tempfile::tempdir().unwrap();
    drive_at("resume-stream", &url, directory.path(), json!({}));
    let ids = last_event_ids.lock().unwrap();
    assert_eq!(ids[0], None, "{ids:?}");
    assert!(ids.iter().flatten().all(|id| id == "7:3"), "{ids:?}");
}
