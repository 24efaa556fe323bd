//! A receiver on loopback. It records every request before it responds.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use super::wait::{RealInstant, SharedState, TIMEOUT};

/// A request that a receiver has read completely.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    /// Request line, as in `POST /hook HTTP/1.1`.
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
    pub(crate) received_at: RealInstant,
}

impl ReceivedRequest {
    /// Returns the value of a header. Panics if the request has the header twice.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values =
            self.headers.iter().filter(|(header, _)| header == name).map(|(_, value)| value.as_str());
        let (value, second) = (values.next(), values.next());
        assert_eq!(second, None, "the request has the header {name} twice");
        value
    }

    pub(crate) fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    pub(crate) fn event_id(&self) -> &str {
        self.header("webhook-id").unwrap()
    }
}

/// How a receiver responds to a request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// A response with this status and an empty body.
    Status(u16),
    /// A response with this status, one header line and a body.
    Full(u16, &'static str, &'static str),
    /// A response with this status, sent after [`Receiver::release`] or after [`TIMEOUT`].
    Blocked(u16),
}

#[derive(Default)]
struct ReceiverState {
    requests: Vec<ReceivedRequest>,
    /// Number of requests without a response.
    in_flight: usize,
    in_flight_max: usize,
    released: bool,
}

type Script = dyn Fn(&ReceivedRequest, usize) -> Reply + Send + Sync;

/// An HTTP server that counts and scripts its responses. Its threads run until the test process ends.
pub(crate) struct Receiver {
    address: SocketAddr,
    state: Arc<SharedState<ReceiverState>>,
}

impl Receiver {
    /// Starts a receiver that responds to every request with this status.
    pub(crate) fn responding(status: u16) -> Self {
        Self::scripted(move |_, _| Reply::Status(status))
    }

    /// Starts a receiver that responds to no request until [`Self::release`].
    pub(crate) fn blocking(status: u16) -> Self {
        Self::scripted(move |_, _| Reply::Blocked(status))
    }

    /// Starts a receiver with a script. The script gets a request and the number of earlier requests.
    pub(crate) fn scripted(
        script: impl Fn(&ReceivedRequest, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(SharedState::<ReceiverState>::default());
        let script: Arc<Script> = Arc::new(script);
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (state, script) = (Arc::clone(&shared), Arc::clone(&script));
                // Ignores I/O errors: in some tests the sender is killed and breaks its connections.
                std::thread::spawn(move || drop(serve_connection(stream, &state, &*script)));
            }
        });
        Self { address, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Returns all requests so far, in the order of their arrival.
    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.state.read(|state| state.requests.clone())
    }

    pub(crate) fn count_requests_of(&self, event_id: &str) -> usize {
        self.requests().iter().filter(|request| request.event_id() == event_id).count()
    }

    /// Waits until there are at least `count` requests, and returns all.
    #[track_caller]
    pub(crate) fn wait_for_requests(&self, count: usize) -> Vec<ReceivedRequest> {
        let requests =
            self.state.wait_for(|state| (state.requests.len() >= count).then(|| state.requests.clone()));
        requests.unwrap_or_else(|| {
            panic!("{} of {count} requests arrived within {TIMEOUT:?}", self.requests().len())
        })
    }

    /// Returns the largest number of requests that were in flight at the same time.
    pub(crate) fn in_flight_max(&self) -> usize {
        self.state.read(|state| state.in_flight_max)
    }

    /// Sends all blocked responses, and blocks no later one.
    pub(crate) fn release(&self) {
        self.state.update(|state| state.released = true);
    }
}

/// Responds to the requests of one connection.
fn serve_connection(
    stream: TcpStream,
    state: &SharedState<ReceiverState>,
    script: &Script,
) -> std::io::Result<()> {
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader)? {
        let earlier = state.update(|state| {
            state.requests.push(request.clone());
            state.in_flight += 1;
            state.in_flight_max = state.in_flight_max.max(state.in_flight);
            state.requests.len() - 1
        });
        let (status, header, body) = match script(&request, earlier) {
            Reply::Status(status) => (status, "", ""),
            Reply::Full(status, header, body) => (status, header, body),
            Reply::Blocked(status) => {
                state.wait_for(|state| state.released.then_some(()));
                (status, "", "")
            }
        };
        state.update(|state| state.in_flight -= 1);
        let header = if header.is_empty() { String::new() } else { format!("{header}\r\n") };
        let response =
            format!("HTTP/1.1 {status} reason\r\n{header}content-length: {}\r\n\r\n{body}", body.len());
        writer.write_all(response.as_bytes())?;
        if request.header("connection") == Some("close") {
            break;
        }
    }
    Ok(())
}

/// Reads the next request; None when the sender has closed the connection.
fn read_request(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<ReceivedRequest>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut headers = vec![];
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8(body).unwrap();
    let line = line.trim_end().to_owned();
    Ok(Some(ReceivedRequest { line, headers, body, received_at: RealInstant::now() }))
}
