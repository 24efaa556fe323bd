//! A small HTTP server with responses that a test chooses.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// The head of a browser's request.
pub(crate) struct Request {
    lines: Vec<String>,
}

impl Request {
    fn read(client: &TcpStream) -> io::Result<Self> {
        let lines = BufReader::new(client.try_clone()?).lines().map_while(Result::ok);
        Ok(Self { lines: lines.take_while(|line| !line.is_empty()).collect() })
    }

    /// Returns the path with its query.
    pub(crate) fn path(&self) -> &str {
        self.lines.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default()
    }

    /// Returns the value of a header, whose name is in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let headers = self.lines.iter().skip(1).filter_map(|line| line.split_once(": "));
        headers.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// A response that a test chooses.
pub(crate) struct Response {
    status: u16,
    content_type: &'static str,
    body: Vec<u8>,
}

impl Response {
    pub(crate) fn json(status: u16, body: &str) -> Self {
        Self::new(status, "application/json", body)
    }

    pub(crate) fn new(status: u16, content_type: &'static str, body: &str) -> Self {
        Self { status, content_type, body: body.as_bytes().to_vec() }
    }

    /// Returns a file of the page, or a 404 in the API's envelope.
    pub(crate) fn asset(path: &str) -> Self {
        match posthaste_dashboard::asset(path) {
            Some(asset) => {
                Self { status: 200, content_type: asset.content_type, body: asset.bytes.into_owned() }
            }
            None => Self::json(404, r#"{"error":{"code":"not_found","message":"none"}}"#),
        }
    }
}

/// Serves responses and returns the server's URL. With None, the connection closes without a response.
pub(crate) fn serve(respond: impl Fn(&Request) -> Option<Response> + Send + Sync + 'static) -> String {
    accept(move |mut client| {
        let Some(response) = respond(&Request::read(&client)?) else { return Ok(()) };
        let Response { status, content_type, body } = response;
        let head =
            format!("HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n");
        client.write_all(&[head.as_bytes(), &body].concat())
    })
}

fn accept(handle: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let handle = Arc::new(handle);
    thread::spawn(move || {
        for client in listener.incoming() {
            let handle = Arc::clone(&handle);
            // Errors are ignored: the browser may disconnect at any time.
            thread::spawn(move || client.and_then(|client| handle(client)));
        }
    });
    url
}
