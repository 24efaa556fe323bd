//! Behaviours over HTTP/1.1 up to the end of the response head.

use crate::harness::script::Step::{Close, Freeze, Read, ReadHead, ReadSome, Reset, Serve, Silence};
use crate::harness::script::{
    BROKEN, CONNECT, Case, DELIVERED, ExpectedOutcome, RESET, Step, TIMEOUT, Transport, case, drip, flood,
    write,
};

pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
pub(crate) const STATUS: &str = "HTTP/1.1 200 OK\r\n";
pub(crate) const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
/// A response head that announces a body of a terabyte.
pub(crate) const ENDLESS: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n";

/// More than the send and receive buffers of a connection hold.
pub(crate) const HUGE_PAYLOAD_BYTES: usize = 16 << 20;
pub(crate) const LARGE_PAYLOAD_BYTES: usize = 1 << 20;

pub(crate) fn all() -> Vec<Case> {
    [stalls(), closes(), status_lines(), headers(), lengths(), interim_responses()]
        .into_iter()
        .flatten()
        .collect()
}

/// Creates a case over plain HTTP/1.1.
pub(crate) fn plain<const N: usize>(name: &'static str, steps: [Step; N], expected: ExpectedOutcome) -> Case {
    case(name, Transport::Plain, steps, expected)
}

/// Reads the request, responds with these bytes, and serves further requests.
pub(crate) fn responds(name: &'static str, response: impl AsRef<[u8]>, expected: ExpectedOutcome) -> Case {
    plain(name, [Read, write(response), Serve], expected)
}

/// Responds with bytes that are not a valid response.
fn breaks(name: &'static str, response: impl AsRef<[u8]>) -> Case {
    plain(name, [Read, write(response), Silence], BROKEN)
}

fn stalls() -> Vec<Case> {
    let headers = "x-a: b\r\nx-c: d\r\n\r\n";
    let chunks = "1\r\na\r\n1\r\nb\r\n1\r\nc\r\n";
    vec![
        plain("responds correctly", [Serve], DELIVERED),
        plain("accepts and sends nothing", [Silence], TIMEOUT).unread(),
        plain("reads the request and sends nothing", [Read, Silence], TIMEOUT),
        plain("does not even read a huge request", [Freeze], TIMEOUT)
            .unread()
            .with_payload(HUGE_PAYLOAD_BYTES),
        plain("stops reading in the middle of a huge request", [ReadHead, Freeze], TIMEOUT)
            .with_payload(HUGE_PAYLOAD_BYTES),
        plain("drips its status line", [Read, drip(OK)], TIMEOUT),
        plain("drips its headers", [Read, write(STATUS), drip(headers)], TIMEOUT),
        plain("stalls within its headers", [Read, write(STATUS), write("x-a: b\r\n"), Silence], TIMEOUT),
        plain("stalls before its body", [Read, write(ENDLESS), Silence], DELIVERED).until_deadline(),
        plain("drips its body", [Read, write(ENDLESS), drip("a slow body, byte by byte")], DELIVERED)
            .until_deadline(),
        plain("drips its chunks", [Read, write(CHUNKED), drip(chunks)], DELIVERED).until_deadline(),
    ]
}

fn closes() -> Vec<Case> {
    let status = "HTTP/1.1 20";
    let headers = "HTTP/1.1 200 OK\r\ncontent-le";
    let body = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf";
    let chunk = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\na\r\nhalf";
    vec![
        plain("resets on accept", [Reset], ExpectedOutcome::Either(&CONNECT, &RESET)).unread(),
        plain("resets at the first byte", [ReadSome, Reset], RESET).unread(),
        plain("resets within a large request", [ReadHead, Reset], RESET).with_payload(LARGE_PAYLOAD_BYTES),
        plain("resets after the request", [Read, Reset], RESET),
        plain("resets within the status line", [Read, write(status), Reset], RESET),
        plain("resets within the headers", [Read, write(headers), Reset], RESET),
        plain("resets after the head", [Read, write(ENDLESS), Reset], DELIVERED),
        plain("resets within the body", [Read, write(body), Reset], DELIVERED),
        plain("closes on accept", [Close], RESET).unread(),
        plain("closes within a large request", [ReadHead, Close], RESET).with_payload(LARGE_PAYLOAD_BYTES),
        plain("closes after the request", [Read, Close], RESET),
        plain("closes within the status line", [Read, write(status), Close], RESET),
        plain("closes within the headers", [Read, write(headers), Close], RESET),
        plain("closes after the head", [Read, write(ENDLESS), Close], DELIVERED),
        plain("closes within the body", [Read, write(body), Close], DELIVERED),
        plain("closes within a chunk", [Read, write(chunk), Close], DELIVERED),
    ]
}

fn status_lines() -> Vec<Case> {
    vec![
        breaks("status abc", "HTTP/1.1 abc\r\n\r\n"),
        breaks("status 99", "HTTP/1.1 99 Low\r\n\r\n"),
        breaks("status 099", "HTTP/1.1 099 Low\r\n\r\n"),
        breaks("status 000", "HTTP/1.1 000 Nothing\r\n\r\n"),
        breaks("status -200", "HTTP/1.1 -200 Minus\r\n\r\n"),
        breaks("status 1000", "HTTP/1.1 1000 High\r\n\r\n"),
        responds("status 600", "HTTP/1.1 600 High\r\ncontent-length: 0\r\n\r\n", BROKEN),
        responds("status 999", "HTTP/1.1 999 High\r\ncontent-length: 0\r\n\r\n", BROKEN),
        breaks("version 3.7", "HTTP/3.7 200 OK\r\n\r\n"),
        breaks("version 2.0 in letters", "HTTP/2.0 200 OK\r\n\r\n"),
        breaks("HTTP/2 frames without TLS", b"\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0"),
        breaks("http in small letters", "http/1.1 200 OK\r\n\r\n"),
        breaks("ICY in place of HTTP", "ICY 200 OK\r\n\r\n"),
        breaks("HTTP/0.9, a body without head", "<html>hello</html>\r\n"),
        breaks("another protocol's greeting", "SSH-2.0-OpenSSH_9.9\r\n"),
        breaks("a TLS alert without TLS", b"\x15\x03\x03\0\x02\x02\x46"),
        breaks("binary", b"\xff\xfe\0\x01\x02\x80\r\n\r\n"),
        breaks("a bare CR in the status line", "HTTP/1.1 200 OK\rx: y\r\n\r\n"),
        plain("an empty line, then nothing", [Read, write("\r\n\r\n"), Silence], TIMEOUT),
        plain("endless empty lines", [Read, flood("\r\n")], BROKEN),
        plain("endless reason", [Read, write("HTTP/1.1 200 "), flood("because ")], BROKEN),
        plain("endless status", [Read, write("HTTP/1.1 2"), flood("0")], BROKEN),
        responds("no reason", "HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", DELIVERED),
        responds("lines that end without CR", "HTTP/1.1 200 OK\ncontent-length: 0\n\n", DELIVERED),
    ]
}

fn headers() -> Vec<Case> {
    let many = |count: usize| response_with(&"x-a: b\r\n".repeat(count - 1));
    let long = |bytes: usize| response_with(&format!("x-a: {}\r\n", "b".repeat(bytes)));
    vec![
        responds("100 headers", many(100), DELIVERED),
        breaks("101 headers", many(101)),
        breaks("5000 headers", many(5_000)),
        plain("endless headers", [Read, write(STATUS), flood("x-more: and more\r\n")], BROKEN),
        plain("endless header name", [Read, write(STATUS), flood("x-more")], BROKEN),
        plain("endless header value", [Read, write(STATUS), write("x: "), flood("more")], BROKEN),
        responds("a header of 24 KiB", long(24 << 10), DELIVERED),
        breaks("a header of 40 KiB", long(40 << 10)),
        breaks("a header of 1 MiB", long(1 << 20)),
        responds(
            "a header value in Latin-1",
            [STATUS.as_bytes(), b"x: \xe9\r\n", NO_BODY].concat(),
            DELIVERED,
        ),
        breaks("a folded header", response_with("x-a: b\r\n c\r\n")),
        breaks("NUL in a header name", response_with("x-\0: b\r\n")),
        breaks("NUL in a header value", response_with("x-a: b\0c\r\n")),
        breaks("CR in a header value", response_with("x-a: b\rc\r\n")),
        breaks("a header without colon", response_with("x-a\r\n")),
        breaks("a header without name", response_with(": b\r\n")),
        breaks("a space before the colon", response_with("x-a : b\r\n")),
    ]
}

const NO_BODY: &[u8] = b"content-length: 0\r\n\r\n";

/// A response without body that has these additional header lines.
fn response_with(lines: &str) -> String {
    format!("{STATUS}{lines}content-length: 0\r\n\r\n")
}

fn lengths() -> Vec<Case> {
    let length = |value: &str| format!("{STATUS}content-length: {value}\r\n\r\n");
    vec![
        breaks("two lengths that differ", response_with("content-length: 5\r\n")),
        breaks("two lengths that differ, in one header", length("2, 5")),
        breaks("a negative length", length("-5")),
        breaks("a length with a sign", length("+5")),
        breaks("a length beyond 64 bits", length("99999999999999999999")),
        breaks("a length that is no number", length("many")),
        breaks("an empty length", length("")),
        responds("the same length twice", response_with("content-length: 0\r\n"), DELIVERED),
    ]
}

fn interim_responses() -> Vec<Case> {
    let interim_100 = "HTTP/1.1 100 Continue\r\n\r\n";
    let hints = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    let upgrade = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    vec![
        responds("100 twenty times, then 200", interim_100.repeat(20) + OK, DELIVERED),
        responds("102 and 103, then 200", format!("HTTP/1.1 102 Processing\r\n\r\n{hints}{OK}"), DELIVERED),
        plain("endless 100", [Read, flood(interim_100)], BROKEN),
        plain("endless 103", [Read, flood(hints)], BROKEN),
        plain("100, then nothing", [Read, write(interim_100), Silence], TIMEOUT),
        plain("100, then close", [Read, write(interim_100), Close], RESET),
        plain("103 dripped", [Read, drip(hints)], TIMEOUT),
        breaks("101 to another protocol", upgrade),
    ]
}
