//! Waits with a limit: for a line of a child's output, for its end, for an HTTP response.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// The limit of each wait. It is long enough for a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Reads lines of output in the background. The channel closes at the end of the output.
pub(crate) fn read_lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// Waits for the end of a child. Kills it and fails the test after [`TIMEOUT`].
#[track_caller]
pub(crate) fn wait_for_exit(child: &mut Child) -> ExitStatus {
    for _ in 0..TIMEOUT.as_millis() / POLL_INTERVAL.as_millis() {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        #[expect(clippy::disallowed_methods, reason = "paces polls of another process")]
        thread::sleep(POLL_INTERVAL);
    }
    let _ = child.kill();
    panic!("process {} did not end within {TIMEOUT:?}", child.id());
}

/// Sends a raw HTTP request and returns the raw response. The request must ask the server to close the connection.
#[track_caller]
pub(crate) fn send_request(address: &str, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    let read = stream.read_to_end(&mut response);
    read.unwrap_or_else(|error| panic!("no complete response from {address} within {TIMEOUT:?}: {error}"));
    String::from_utf8_lossy(&response).into_owned()
}

/// Opens a connection whose reads and writes fail after [`TIMEOUT`].
#[track_caller]
pub(crate) fn connect(address: &str) -> TcpStream {
    let connected = TcpStream::connect_timeout(&address.parse().unwrap(), TIMEOUT);
    let stream = connected.unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"));
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Returns the status of a raw HTTP response.
#[track_caller]
pub(crate) fn status_of(response: &str) -> u16 {
    let status = response.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.unwrap_or_else(|| panic!("not an HTTP response: {response:?}"))
}
