//! The dashboard in a real browser, with its content security policy, on the real API.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use support::{TestServer, posthaste, run_within};

/// The limit of each command and of each start of the browser.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Sends an event to an address that refuses connections, and waits until it is dead-lettered.
fn create_dead_letter(server: &TestServer, event_id: &str) {
    let mut send =
        posthaste(&["send", "--server", &server.url, "--event-id", event_id, "--type", "order.created"]);
    send.args(["--url", "http://127.0.0.1:1/<b>hook</b>", "--data", "{}", "--wait"]);
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

/// Serves the page, and a stream that sends its position and then disconnects. Returns the URL, and the `last-event-id` of
/// each request for the stream.
fn serve_disconnecting_stream() -> (String, Arc<Mutex<Vec<Option<String>>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let last_event_ids = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&last_event_ids);
    thread::spawn(move || {
        for client in listener.incoming() {
            let recorded = Arc::clone(&recorded);
            // Errors are ignored: the browser may disconnect at any time.
            thread::spawn(move || client.and_then(|client| respond(client, &recorded)));
        }
    });
    (url, last_event_ids)
}

fn respond(mut client: TcpStream, last_event_ids: &Mutex<Vec<Option<String>>>) -> std::io::Result<()> {
    let head = BufReader::new(client.try_clone()?).lines().map_while(Result::ok);
    let head: Vec<String> = head.take_while(|line| !line.is_empty()).collect();
    let Some(path) = head.first().and_then(|line| line.split(' ').nth(1)) else { return Ok(()) };
    let (status, content_type, body) = match posthaste_dashboard::asset(path) {
        Some(asset) => (200, asset.content_type, asset.bytes.into_owned()),
        None if path.ends_with("/stream") => {
            let last = head.iter().find_map(|line| line.strip_prefix("last-event-id: ")).map(str::to_owned);
            last_event_ids.lock().unwrap().push(last);
            (200, "text/event-stream", b"retry: 1000\nid: 7:3\n: gateway:webhooks\n\n".to_vec())
        }
        None => (404, "application/json", br#"{"error":{"code":"not_found","message":"none"}}"#.to_vec()),
    };
    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n");
    client.write_all(&[head.as_bytes(), &body].concat())
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
