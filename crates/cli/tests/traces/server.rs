//! A server on loopback that sends a fixed response and records its requests: a receiver or a collector.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Limit of every wait in these tests.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A request that a server received.
#[derive(Debug)]
pub(crate) struct ReceivedRequest {
    /// Method and path: `POST /v1/traces`.
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl ReceivedRequest {
    /// Returns the value of a header, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// A running server. Its threads run until the test process ends.
pub(crate) struct Server {
    pub(crate) url: String,
    requests: Receiver<ReceivedRequest>,
}

impl Server {
    /// Starts a server that responds to every request with this status.
    pub(crate) fn responding(status: u16) -> Self {
        Self::start("http://127.0.0.1", Some(status), |stream| stream)
    }

    /// Starts a server that reads every request and never responds.
    pub(crate) fn silent() -> Self {
        Self::start("http://127.0.0.1", None, |stream| stream)
    }

    /// Starts a server with TLS and a self-signed certificate. Returns the certificate, too.
    pub(crate) fn with_tls() -> (Self, String) {
        let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(identity.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![identity.cert.der().clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let wrap =
            move |stream| StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
        (Self::start("https://localhost", Some(200), wrap), identity.cert.pem())
    }

    fn start<S: Read + Write + Send + 'static>(
        host: &str,
        status: Option<u16>,
        wrap: impl Fn(TcpStream) -> S + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{host}:{}", listener.local_addr().unwrap().port());
        let (record, requests) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, record) = (wrap(stream.unwrap()), record.clone());
                thread::spawn(move || serve(stream, status, &record));
            }
        });
        Self { url, requests }
    }

    /// Waits for the next request.
    #[track_caller]
    pub(crate) fn next_request(&self) -> ReceivedRequest {
        let request = self.requests.recv_timeout(TIMEOUT);
        request.unwrap_or_else(|_| panic!("{} got no request within {TIMEOUT:?}", self.url))
    }

    /// Returns the requests that have arrived.
    pub(crate) fn received_requests(&self) -> Vec<ReceivedRequest> {
        self.requests.try_iter().collect()
    }
}

fn serve(stream: impl Read + Write, status: Option<u16>, record: &Sender<ReceivedRequest>) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream) {
        // Before the response: a client that has its response can rely on the record.
        let _ = record.send(request);
        if let Some(status) = status {
            let response = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
            stream.get_mut().write_all(response.as_bytes()).unwrap();
            stream.get_mut().flush().unwrap();
        }
    }
}

/// Reads one request. Returns none if the client has closed the connection.
fn read_request(reader: &mut impl BufRead) -> Option<ReceivedRequest> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let header = |line: &String| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_ascii_lowercase(), value.to_owned())
    };
    let line = lines[0].trim_end_matches(" HTTP/1.1").to_owned();
    let headers = lines[1..].iter().map(header).collect();
    let mut request = ReceivedRequest { line, headers, body: Vec::new() };
    let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    request.body = vec![0; length];
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}
