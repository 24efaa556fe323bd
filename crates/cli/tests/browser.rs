//! The dashboard in a real browser, with its content security policy, on the real API.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

#[path = "browser/page_server.rs"]
mod page_server;
mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use page_server::Response;
use support::{TestServer, posthaste, run_within};

/// The limit of each command and of each start of the browser.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Sends an event to an address that refuses connections, and waits until it is dead-lettered.
fn create_dead_letter(server: &TestServer, event_id: &str) {
    create_dead_letter_with_key(server, event_id, &[]);
}

fn create_dead_letter_with_key(server: &TestServer, event_id: &str, key: &[&str]) {
    let mut send =
        posthaste(&["send", "--server", &server.url, "--event-id", event_id, "--type", "order.created"]);
    send.args(["--url", "http://127.0.0.1:1/<b>hook</b>", "--data", "{}", "--wait"]).args(key);
    let sent = run_within(TIMEOUT, &mut send);
    assert_eq!(sent.status.code(), Some(1), "{}", String::from_utf8_lossy(&sent.stderr));
}

/// Returns the DOM of a page after its scripts have run. On a busy machine, a browser may dump the page before its data
/// has arrived: the page is loaded up to five times until it is `complete`.
fn render_page(url: &str, profile: &Path, complete: impl Fn(&str) -> bool) -> String {
    let render = || {
        let mut browser = Command::new(find_chromium());
        browser
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .arg(format!("--user-data-dir={}", profile.join("browser").display()))
            .args(["--virtual-time-budget=5000", "--dump-dom", url])
            .stderr(Stdio::null());
        String::from_utf8_lossy(&run_within(TIMEOUT, &mut browser).stdout).into_owned()
    };
    let mut page = render();
    for _ in 0..4 {
        if complete(&page) {
            break;
        }
        page = render();
    }
    assert!(complete(&page), "{page}");
    page
}

fn find_chromium() -> &'static str {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let is_installed = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    names.into_iter().find(is_installed).expect("Chromium is missing: `make need-packages` installs it")
}

#[test]
fn the_page_shows_counts_and_dead_letters_and_escapes_markup_in_them() {
    // Without retries, the first failed attempt dead-letters an event.
    let server = TestServer::start(&["serve"], &[("POSTHASTE_MAX_RETRY_ATTEMPTS", "0")]);
    create_dead_letter(&server, "order-17-created");
    let page = render_page(&server.url, server.directory(), |page| page.contains("order-17-created"));
    assert!(page.contains("exhausted"), "{page}");
    assert!(page.contains("order.created"), "{page}");
    assert!(!page.contains("<b>hook</b>"), "text of a producer became markup: {page}");
    assert!(page.contains("%3Cb%3Ehook%3C/b%3E"), "{page}");
}

#[test]
fn the_page_shows_the_actions_of_operators_as_text() {
    let server = TestServer::start(&["serve"], &[("POSTHASTE_MAX_RETRY_ATTEMPTS", "0")]);
    create_dead_letter(&server, "order-17-created");
    let mut cancel = posthaste(&["events", "cancel", "order-17-created", "--server", &server.url]);
    let cancelled = run_within(TIMEOUT, cancel.args(["--reason", "<i>refunded</i>"]));
    assert!(cancelled.status.success(), "{}", String::from_utf8_lossy(&cancelled.stderr));
    let address = format!("{}#event=order-17-created", server.url);
    let page = render_page(&address, server.directory(), |page| page.contains("<b>cancel</b> by local, "));
    assert!(!page.contains("<i>refunded"), "text of a producer became markup: {page}");
    assert!(page.contains("&lt;i&gt;refunded&lt;/i&gt;"), "{page}");
}

#[test]
fn cancelled_events_are_not_among_the_dead_letters_that_the_page_shows_first() {
    let server = TestServer::start(&["serve"], &[("POSTHASTE_MAX_RETRY_ATTEMPTS", "0")]);
    for event_id in ["order-17-created", "order-18-created"] {
        create_dead_letter(&server, event_id);
    }
    let cancelled = run_within(
        TIMEOUT,
        &mut posthaste(&["events", "cancel", "order-18-created", "--server", &server.url]),
    );
    assert!(cancelled.status.success(), "{}", String::from_utf8_lossy(&cancelled.stderr));
    let is_complete = |page: &str| page.contains("order-17-created") && page.contains("1 of 1");
    let page = render_page(&server.url, server.directory(), is_complete);
    assert!(!page.contains("order-18-created"), "{page}");
    assert!(page.contains(r#"<span id="cancelled" class="muted">1</span>"#), "{page}");
}

#[test]
fn destinations_that_hold_events_are_shown_with_their_reason_as_text() {
    let server = TestServer::start(&["serve"], &[]);
    let run = |arguments: &[&str]| {
        let output = run_within(TIMEOUT, posthaste(arguments).args(["--server", &server.url]));
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["send", "--type", "order.created", "--url", "http://127.0.0.1:1/hook", "--data", "{}"]);
    run(&["destinations", "pause", "1", "--reason", "<i>new disks</i>"]);
    let page = render_page(&server.url, server.directory(), |page| page.contains("1 event waits"));
    assert!(page.contains("&lt;i&gt;new disks&lt;/i&gt;") && !page.contains("<i>new disks"), "{page}");
    assert!(page.contains(">Resume</button>"), "{page}");
    run(&["destinations", "resume", "1"]);
    let is_hidden = |page: &str| page.contains(r#"aria-labelledby="held-title" hidden=""#);
    render_page(&server.url, server.directory(), is_hidden);
}

const VIEWER_KEY: &str = "viewer-key-0123456789";
const OPERATOR_KEY: &str = "operator-key-0123456789";

#[test]
fn a_viewer_is_offered_no_actions_and_an_operator_all() {
    let keys = format!("eyes:viewer:{VIEWER_KEY},ops:operator:{OPERATOR_KEY}");
    let server = TestServer::start(
        &["serve"],
        &[
            ("POSTHASTE_API_KEYS", &keys),
            ("POSTHASTE_ALLOW_PRIVATE_NETWORKS", "true"),
            ("POSTHASTE_MAX_RETRY_ATTEMPTS", "0"),
        ],
    );
    let key = ["--key", OPERATOR_KEY];
    create_dead_letter_with_key(&server, "order-17-created", &key);
    let mut pause = posthaste(&["destinations", "pause", "1", "--server", &server.url]);
    assert!(run_within(TIMEOUT, pause.args(key)).status.success());
    let mut send = posthaste(&["send", "--server", &server.url, "--type", "order.created", "--data", "{}"]);
    send.args(["--url", "http://127.0.0.1:1/<b>hook</b>"]).args(key);
    assert!(run_within(TIMEOUT, &mut send).status.success());
    let page_of = |key: &str, caller: &str| {
        let url = format!("{}#event=order-17-created", page_server::forward_with_key(&server.url, key));
        render_page(&url, server.directory(), |page| {
            let shows_event = page.contains(r#"<div id="event-body">"#) && page.contains("1 event waits");
            page.contains(caller) && page.contains("data-event-id") && shows_event
        })
    };
    let actions = [
        r#"aria-label="Requeue order-17-created""#,
        r#"aria-label="Cancel order-17-created""#,
        r#"id="event-requeue" type="button">"#,
        r#"id="event-cancel" type="button" class="danger">"#,
        r#"id="event-discard" type="button" class="danger">"#,
        ">Resume</button>",
    ];
    let of_operator = page_of(OPERATOR_KEY, "ops (operator)");
    let of_viewer = page_of(VIEWER_KEY, "eyes (viewer)");
    for action in actions {
        assert!(of_operator.contains(action), "{action}: {of_operator}");
        assert!(!of_viewer.contains(action), "{action}: {of_viewer}");
    }
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

/// Clicks on Requeue, then on the button of the dialog until the page confirms the action.
const CLICKS: &str = r##"
setInterval(() => {
  if (document.querySelector("#toast").textContent) return;
  if (document.querySelector("#confirm").open) return document.querySelector("#confirm-submit").click();
  document.querySelector("#dlq-rows button")?.click();
}, 100);
"##;

#[test]
fn an_action_that_is_repeated_after_a_lost_response_has_the_same_idempotency_key() {
    let keys = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&keys);
    let url = page_server::serve(move |request| {
        let path = request.path();
        Some(match path.rsplit('/').next().unwrap_or_default() {
            "" => {
                let clicks = r#"<script type="module" src="clicks.js"></script></head>"#;
                let page = posthaste_dashboard::asset("/").unwrap().bytes.into_owned();
                let page = String::from_utf8(page).unwrap().replace("</head>", clicks);
                Response::new(200, "text/html; charset=utf-8", &page)
            }
            "clicks.js" => Response::new(200, "text/javascript", CLICKS),
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
    let profile = tempfile::tempdir().unwrap();
    render_page(&url, profile.path(), |page| page.contains("order-17 is pending again."));
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
    let profile = tempfile::tempdir().unwrap();
    render_page(&url, profile.path(), |_| last_event_ids.lock().unwrap().iter().any(Option::is_some));
    let ids = last_event_ids.lock().unwrap();
    assert_eq!(ids[0], None, "{ids:?}");
    assert!(ids.iter().flatten().all(|id| id == "7:3"), "{ids:?}");
}
