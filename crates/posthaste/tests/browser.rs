//! The operator's page in a real browser, under the policy that it is served with, on the real API.
#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails it")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

struct Service {
    process: Child,
    url: String,
    directory: tempfile::TempDir,
}

impl Service {
    /// One whose events fail at their first attempt.
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut process = posthaste(&["serve"])
            .current_dir(&directory)
            .env("POSTHASTE_LISTEN", "127.0.0.1:0")
            .env("POSTHASTE_LOG", "warn")
            .env("POSTHASTE_MAX_RETRY_ATTEMPTS", "0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().rsplit(' ').next().unwrap().to_owned();
        Self { process, url, directory }
    }

    /// Waits until it has ended as a dead letter.
    fn dead_letter(&self, event_id: &str) {
        let sent =
            posthaste(&["send", "--server", &self.url, "--event-id", event_id, "--type", "order.created"])
                .args(["--url", "http://127.0.0.1:1/<b>hook</b>", "--data", "{}", "--wait"])
                .output()
                .unwrap();
        assert_eq!(sent.status.code(), Some(1), "{}", String::from_utf8_lossy(&sent.stderr));
    }

    /// The page as it stands when its scripts have run.
    fn page(&self) -> String {
        let rendered = Command::new(chromium())
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .arg(format!("--user-data-dir={}", self.directory.path().join("browser").display()))
            .args(["--virtual-time-budget=5000", "--dump-dom", &self.url])
            .stderr(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8_lossy(&rendered.stdout).into_owned()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn posthaste(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(arguments);
    command
}

fn chromium() -> &'static str {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    names.into_iter().find(there).expect("a Chromium is missing: `make need-packages` installs it")
}

#[test]
fn the_page_shows_counts_and_dead_letters_and_takes_what_receivers_say_as_text() {
    let service = Service::start();
    service.dead_letter("order-17-created");
    let page = service.page();
    assert!(page.contains("order-17-created"), "{page}");
    assert!(page.contains("exhausted"), "{page}");
    assert!(page.contains("order.created"), "{page}");
    assert!(!page.contains("<b>hook</b>"), "markup from outside became markup: {page}");
    assert!(page.contains("%3Cb%3Ehook%3C/b%3E"), "{page}");
}
