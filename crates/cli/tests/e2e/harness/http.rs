//! An HTTP client that opens one connection per request.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::wait::TIMEOUT;

#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl HttpResponse {
    /// Checks the status and parses the body.
    #[track_caller]
    pub(crate) fn expect_json(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        serde_json::from_str(&self.body).unwrap()
    }

    /// Checks that the response is an error with this status and this code. Returns its message.
    #[track_caller]
    pub(crate) fn expect_error(&self, status: u16, code: &str) -> String {
        let error = self.expect_json(status)["error"].clone();
        assert_eq!(error["code"], code, "{}", self.body);
        error["message"].as_str().unwrap().to_owned()
    }
}

/// Sends a request and reads the response. Returns an error if the server did not send a complete response in time.
pub(crate) fn send_request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> std::io::Result<HttpResponse> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut request = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    request += &format!("content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let incomplete = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(incomplete)?;
    let head = head.to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(incomplete)?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    // A response with status 204 has neither a body nor a length.
    if status != 204 && length.is_none_or(|length| length.parse() != Ok(body.len())) {
        return Err(incomplete());
    }
    Ok(HttpResponse { status, body: body.to_owned() })
}
