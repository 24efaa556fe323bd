//! A client that asks once and closes.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::watched::PATIENCE;

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        serde_json::from_str(&self.body).unwrap()
    }

    /// An error with this status and this code.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> String {
        let error = self.json(status)["error"].clone();
        assert_eq!(error["code"], code, "{}", self.body);
        error["message"].as_str().unwrap().to_owned()
    }
}

/// An error means that the server did not answer to the end.
pub(crate) fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut request = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    request += &format!("content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let broken_off = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(broken_off)?;
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    if length.is_none_or(|length| length.parse() != Ok(body.len())) {
        return Err(broken_off());
    }
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(broken_off)?;
    Ok(Answer { status, body: body.to_owned() })
}
