//! A receiver on loopback: it records every request before it answers, and answers as it was told to.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use super::watched::{Moment, PATIENCE, Watched};

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
    pub(crate) at: Moment,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values =
            self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let (value, again) = (values.next(), values.next());
        assert_eq!(again, None, "{name} is sent once");
        value
    }

    pub(crate) fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    pub(crate) fn event_id(&self) -> &str {
        self.header("webhook-id").unwrap()
    }
}

/// What becomes of a request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Status(u16),
    /// With a header line and a body.
    With(u16, &'static str, &'static str),
    /// Answered with this status, once the receiver lets go of what it holds.
    Held(u16),
}

#[derive(Default)]
struct Seen {
    requests: Vec<Received>,
    /// Requests that have not been answered.
    in_flight: usize,
    in_flight_max: usize,
    let_go: bool,
}

type Script = dyn Fn(&Received, usize) -> Reply + Send + Sync;

/// It listens as long as the test process lives; what it is left with then, nobody waits for.
pub(crate) struct Receiver {
    address: SocketAddr,
    seen: Arc<Watched<Seen>>,
}

impl Receiver {
    pub(crate) fn answering(status: u16) -> Self {
        Self::scripted(move |_, _| Reply::Status(status))
    }

    /// Holds every request.
    pub(crate) fn holding(status: u16) -> Self {
        Self::scripted(move |_, _| Reply::Held(status))
    }

    /// The script sees the request, and how many came before it.
    pub(crate) fn scripted(script: impl Fn(&Received, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Watched::<Seen>::default());
        let script: Arc<Script> = Arc::new(script);
        let watched = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (seen, script) = (Arc::clone(&watched), Arc::clone(&script));
                // A sender that breaks off is what some tests are about.
                std::thread::spawn(move || drop(serve(stream, &seen, &*script)));
            }
        });
        Self { address, seen }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Received> {
        self.seen.look(|seen| seen.requests.clone())
    }

    /// How often an event has come.
    pub(crate) fn count_of(&self, event_id: &str) -> usize {
        self.requests().iter().filter(|request| request.event_id() == event_id).count()
    }

    /// All requests, once there are so many.
    #[track_caller]
    pub(crate) fn received(&self, count: usize) -> Vec<Received> {
        let received =
            self.seen.wait_for(|seen| (seen.requests.len() >= count).then(|| seen.requests.clone()));
        received.unwrap_or_else(|| {
            panic!("{} of {count} requests came within {PATIENCE:?}", self.requests().len())
        })
    }

    /// The most requests that it has had to answer at once.
    pub(crate) fn in_flight_max(&self) -> usize {
        self.seen.look(|seen| seen.in_flight_max)
    }

    /// Answers what is held, and holds nothing any more.
    pub(crate) fn let_go(&self) {
        self.seen.change(|seen| seen.let_go = true);
    }
}

/// One connection, request by request.
fn serve(stream: TcpStream, seen: &Watched<Seen>, script: &Script) -> std::io::Result<()> {
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader)? {
        let before = seen.change(|seen| {
            seen.requests.push(request.clone());
            seen.in_flight += 1;
            seen.in_flight_max = seen.in_flight_max.max(seen.in_flight);
            seen.requests.len() - 1
        });
        let (status, header, body) = match script(&request, before) {
            Reply::Status(status) => (status, "", ""),
            Reply::With(status, header, body) => (status, header, body),
            Reply::Held(status) => {
                seen.wait_for(|seen| seen.let_go.then_some(()));
                (status, "", "")
            }
        };
        seen.change(|seen| seen.in_flight -= 1);
        let header = if header.is_empty() { String::new() } else { format!("{header}\r\n") };
        let answer =
            format!("HTTP/1.1 {status} answer\r\n{header}content-length: {}\r\n\r\n{body}", body.len());
        writer.write_all(answer.as_bytes())?;
        if request.header("connection") == Some("close") {
            break;
        }
    }
    Ok(())
}

/// None where the connection has ended.
fn read_request(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Received>> {
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
    Ok(Some(Received { line: line.trim_end().to_owned(), headers, body, at: Moment::now() }))
}
