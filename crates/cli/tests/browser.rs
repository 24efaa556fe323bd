//! The operator's page in a real browser, under the policy that it is served with, on the real API.
#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails it")]

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use support::{Service, posthaste};

/// Waits until an event has ended as a dead letter.
fn dead_letter(service: &Service, event_id: &str) {
    let sent =
        posthaste(&["send", "--server", &service.url, "--event-id", event_id, "--type", "order.created"])
            .args(["--url", "http://127.0.0.1:1/<b>hook</b>", "--data", "{}", "--wait"])
            .output()
            .unwrap();
    assert_eq!(sent.status.code(), Some(1), "{}", String::from_utf8_lossy(&sent.stderr));
}

/// The page at an address as it stands when its scripts have run. A browser on a busy machine may draw it before its data
/// has come: it is drawn again until it is as wanted.
fn page(url: &str, profile: &Path, wanted: impl Fn(&str) -> bool) -> String {
    let draw = || {
        let rendered = Command::new(chromium())
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .arg(format!("--user-data-dir={}", profile.join("browser").display()))
            .args(["--virtual-time-budget=5000", "--dump-dom", url])
            .stderr(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8_lossy(&rendered.stdout).into_owned()
    };
    let mut drawn = draw();
    for _ in 0..4 {
        if wanted(&drawn) {
            break;
        }
        drawn = draw();
    }
    assert!(wanted(&drawn), "{drawn}");
    drawn
}

fn chromium() -> &'static str {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    names.into_iter().find(there).expect("a Chromium is missing: `make need-packages` installs it")
}

#[test]
fn the_page_shows_counts_and_dead_letters_and_takes_what_receivers_say_as_text() {
    // One whose events fail at their first attempt.
    let service = Service::start(&["serve"], &[("POSTHASTE_MAX_RETRY_ATTEMPTS", "0")]);
    dead_letter(&service, "order-17-created");
    let page = page(&service.url, service.directory(), |page| page.contains("order-17-created"));
    assert!(page.contains("exhausted"), "{page}");
    assert!(page.contains("order.created"), "{page}");
    assert!(!page.contains("<b>hook</b>"), "markup from outside became markup: {page}");
    assert!(page.contains("%3Cb%3Ehook%3C/b%3E"), "{page}");
}

#[test]
fn the_page_shows_what_was_done_by_hand_and_by_whom_as_text() {
    let service = Service::start(&["serve"], &[("POSTHASTE_MAX_RETRY_ATTEMPTS", "0")]);
    dead_letter(&service, "order-17-created");
    let cancelled = posthaste(&["events", "cancel", "order-17-created", "--server", &service.url])
        .args(["--reason", "<i>refunded</i>"])
        .output()
        .unwrap();
    assert!(cancelled.status.success(), "{}", String::from_utf8_lossy(&cancelled.stderr));
    let address = format!("{}#event=order-17-created", service.url);
    let page = page(&address, service.directory(), |page| page.contains("<b>cancel</b> by local, "));
    assert!(!page.contains("<i>refunded"), "markup from outside became markup: {page}");
    assert!(page.contains("&lt;i&gt;refunded&lt;/i&gt;"), "{page}");
}

/// Serves the page, and a stream that says where it is and breaks off. Returns its address, and where each stream was
/// asked to go on from.
fn breaking_off() -> (String, Arc<Mutex<Vec<Option<String>>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let resumed = Arc::new(Mutex::new(Vec::new()));
    let remembered = Arc::clone(&resumed);
    thread::spawn(move || {
        for client in listener.incoming() {
            let remembered = Arc::clone(&remembered);
            // A browser that leaves is its own business.
            thread::spawn(move || client.and_then(|client| answer(client, &remembered)));
        }
    });
    (url, resumed)
}

fn answer(mut client: TcpStream, resumed: &Mutex<Vec<Option<String>>>) -> std::io::Result<()> {
    let head = BufReader::new(client.try_clone()?).lines().map_while(Result::ok);
    let head: Vec<String> = head.take_while(|line| !line.is_empty()).collect();
    let Some(path) = head.first().and_then(|line| line.split(' ').nth(1)) else { return Ok(()) };
    let (status, content_type, body) = match posthaste_dashboard::asset(path) {
        Some(asset) => (200, asset.content_type, asset.bytes.into_owned()),
        None if path.ends_with("/stream") => {
            let last = head.iter().find_map(|line| line.strip_prefix("last-event-id: ")).map(str::to_owned);
            resumed.lock().unwrap().push(last);
            (200, "text/event-stream", b"retry: 1000\nid: 7:3\n: gateway:webhooks\n\n".to_vec())
        }
        None => (404, "application/json", br#"{"error":{"code":"not_found","message":"none"}}"#.to_vec()),
    };
    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n");
    client.write_all(&[head.as_bytes(), &body].concat())
}

#[test]
fn a_stream_that_breaks_off_before_its_first_notice_is_resumed_from_where_it_began() {
    let (url, resumed) = breaking_off();
    let profile = tempfile::tempdir().unwrap();
    page(&url, profile.path(), |_| resumed.lock().unwrap().iter().any(Option::is_some));
    let resumed = resumed.lock().unwrap();
    assert_eq!(resumed[0], None, "{resumed:?}");
    assert!(resumed.iter().flatten().all(|id| id == "7:3"), "{resumed:?}");
}
