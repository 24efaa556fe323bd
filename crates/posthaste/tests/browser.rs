//! The operator's page in a real browser, under the policy that it is served with, on the real API.
#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails it")]

mod support;

use std::process::{Command, Stdio};

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

/// The page as it stands when its scripts have run.
fn page(service: &Service) -> String {
    let rendered = Command::new(chromium())
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", service.directory().join("browser").display()))
        .args(["--virtual-time-budget=5000", "--dump-dom", &service.url])
        .stderr(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&rendered.stdout).into_owned()
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
    // A browser on a busy machine may draw the page before its data has come.
    let mut drawn = std::iter::repeat_with(|| page(&service)).take(5);
    let page = drawn.find(|page| page.contains("order-17-created")).expect("the page shows the dead letter");
    assert!(page.contains("exhausted"), "{page}");
    assert!(page.contains("order.created"), "{page}");
    assert!(!page.contains("<b>hook</b>"), "markup from outside became markup: {page}");
    assert!(page.contains("%3Cb%3Ehook%3C/b%3E"), "{page}");
}
