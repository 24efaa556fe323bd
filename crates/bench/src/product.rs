//! The measured product: the binary `posthaste` as a child process, with default settings, and a client of its API.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustix::process::{Pid, Signal, kill_process};

use crate::clock::{now, sleep};
use crate::process;

/// How long the product may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);

/// A running `posthaste serve`. It is killed when this value is dropped.
pub(crate) struct Product {
    process: Child,
    log: PathBuf,
    api: Api,
}

/// A client of the product's API. Clones share connections.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client<HttpConnector, Full<Bytes>>,
    origin: String,
}

impl Product {
    /// Starts `posthaste serve` and waits until it is ready. Only the addresses, the database and `settings` are set.
    pub(crate) async fn start(
        binary: &Path,
        database_url: &str,
        directory: &Path,
        settings: &[&str],
    ) -> Self {
        let mut product = Self::spawn(binary, database_url, directory, settings);
        product.wait_until_ready().await;
        product
    }

    /// Starts `posthaste serve` without waiting.
    pub(crate) fn spawn(binary: &Path, database_url: &str, directory: &Path, settings: &[&str]) -> Self {
        let port = posthaste_postgres_server::free_ports().next().expect("a port is free");
        let log = directory.join(format!("posthaste-{port}.log"));
        let output = File::create(&log).expect("the log can be created");
        let process = Command::new(binary)
            .env_clear()
            .args(["serve", "--database-url", database_url, "--listen", &format!("127.0.0.1:{port}")])
            .args(settings)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("the log can be shared"))
            .stderr(output)
            .spawn()
            .unwrap_or_else(|error| panic!("{} cannot be started: {error}", binary.display()));
        Self { process, log, api: Api::new(port) }
    }

    pub(crate) async fn wait_until_ready(&mut self) {
        let deadline = now() + PATIENCE;
        while !self.api.is_ready().await {
            let ended = self.process.try_wait().expect("the process is our child");
            let log = || fs::read_to_string(&self.log).unwrap_or_default();
            assert!(ended.is_none() && now() < deadline, "the product did not start:\n{}", log());
            sleep(POLL).await;
        }
    }

    pub(crate) fn api(&self) -> &Api {
        &self.api
    }

    pub(crate) fn cpu_time(&self) -> Duration {
        process::process_time(self.process.id()).unwrap_or_default()
    }

    /// Returns the processor time of each thread, with its name.
    pub(crate) fn thread_times(&self) -> Vec<(String, Duration)> {
        process::thread_times(self.process.id())
    }

    pub(crate) fn peak_memory_bytes(&self) -> u64 {
        process::peak_memory_bytes(self.process.id()).unwrap_or_default()
    }

    /// Stops the process as an operator would, and kills it if it does not stop.
    pub(crate) async fn stop(mut self, patience: Duration) {
        let id = Pid::from_child(&self.process);
        kill_process(id, Signal::TERM).expect("the process is our child");
        let deadline = now() + patience;
        while now() < deadline && self.process.try_wait().expect("the process is our child").is_none() {
            sleep(POLL).await;
        }
    }
}

impl Drop for Product {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Api {
    fn new(port: u16) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Self { client, origin: format!("http://{}:{port}", Ipv4Addr::LOCALHOST) }
    }

    async fn is_ready(&self) -> bool {
        self.call(Method::GET, "/readyz", String::new())
            .await
            .is_some_and(|(status, _)| status == StatusCode::OK)
    }

    /// Enqueues the events of a body, and returns the response.
    ///
    /// # Panics
    /// If the product does not accept the events.
    pub(crate) async fn enqueue(&self, body: String) -> Bytes {
        let response = self.call(Method::POST, "/v1/webhook-outbox/events", body).await;
        let (status, body) = response.expect("the product responds");
        assert_eq!(status, StatusCode::ACCEPTED, "{}", String::from_utf8_lossy(&body));
        body
    }

    /// Cancels an event.
    pub(crate) async fn cancel(&self, event_id: &str) {
        let path = format!("/v1/webhook-outbox/events/{event_id}/cancel");
        let (status, _) =
            self.call(Method::POST, &path, "{}".to_owned()).await.expect("the product responds");
        assert_eq!(status, StatusCode::OK, "the event can be cancelled");
    }

    /// Returns how many events were delivered.
    pub(crate) async fn delivered(&self) -> usize {
        let response = self.call(Method::GET, "/v1/webhook-outbox/overview", String::new()).await;
        let (_, body) = response.expect("the product responds");
        let overview: serde_json::Value = serde_json::from_slice(&body).expect("the overview is JSON");
        let delivered = overview["delivered_count"].as_u64().expect("the overview counts deliveries");
        usize::try_from(delivered).expect("the count fits")
    }

    /// Returns the response, or `None` if there is none.
    async fn call(&self, method: Method, path: &str, body: String) -> Option<(StatusCode, Bytes)> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.origin));
        let request = request.header("content-type", "application/json").body(Full::new(Bytes::from(body)));
        let response = self.client.request(request.expect("the request is valid")).await.ok()?;
        let status = response.status();
        Some((status, response.into_body().collect().await.ok()?.to_bytes()))
    }
}
