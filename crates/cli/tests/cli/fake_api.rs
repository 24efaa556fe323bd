//! A fake API server that returns prepared responses and records its requests.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A request that the server received.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    /// Method and path: `GET /v1/webhook-outbox/overview`.
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl ReceivedRequest {
    /// Returns the value of a header, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// A server on loopback. Its threads run until the test process ends.
pub(crate) struct FakeApi {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

/// Returns status and body for a request. The number counts earlier requests with the same line. Status 0 closes the
/// connection without a response.
type Handler = dyn Fn(&ReceivedRequest, usize) -> (u16, String) + Send + Sync;

impl FakeApi {
    /// Starts a server that calls this handler for each request.
    pub(crate) fn start(
        handler: impl Fn(&ReceivedRequest, usize) -> (u16, String) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&requests);
        let handler: Arc<Handler> = Arc::new(handler);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (record, handler) = (Arc::clone(&record), Arc::clone(&handler));
                thread::spawn(move || serve(stream.unwrap(), &record, &*handler));
            }
        });
        Self { url, requests }
    }

    /// Starts a server that returns the same response to every request.
    pub(crate) fn responding(status: u16, body: &str) -> Self {
        let body = body.to_owned();
        Self::start(move |_, _| (status, body.clone()))
    }

    /// Returns the requests received so far.
    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns method and path of the requests received so far.
    pub(crate) fn request_lines(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.line).collect()
    }
}

fn serve(stream: TcpStream, requests: &Mutex<Vec<ReceivedRequest>>, handler: &Handler) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader) {
        let earlier = {
            let mut requests = requests.lock().unwrap();
            let earlier = requests.iter().filter(|other| other.line == request.line).count();
            requests.push(request.clone());
            earlier
        };
        let (status, body) = handler(&request, earlier);
        if status == 0 {
            return;
        }
        write_response(&mut writer, status, &body);
    }
}

pub(crate) fn write_response(stream: &mut impl Write, status: u16, body: &str) {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
}

/// Reads one request. Returns none if the client has closed the connection.
pub(crate) fn read_request(reader: &mut impl BufRead) -> Option<ReceivedRequest> {
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
    let mut request = ReceivedRequest { line, headers, body: String::new() };
    let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    request.body = String::from_utf8(body).unwrap();
    Some(request)
}

/// Returns an event as the API does. `more` continues the object, after a comma.
pub(crate) fn event(id: &str, status: &str, attempts: u32, more: &str) -> String {
    format!(
        r#"{{"event_id":"{id}","event_type":"invoice.paid","delivery_status":"{status}","destination_url":"https://shop.example/hooks","attempts":{attempts},"max_attempts":6,"created_at":"2026-01-31T16:31:02.123456Z","updated_at":"2026-01-31T16:32:02.123456Z"{more}}}"#
    )
}

/// Returns the body of an error response.
pub(crate) fn error(code: &str, message: &str) -> String {
    format!(r#"{{"error":{{"code":"{code}","message":"{message}"}}}}"#)
}
