//! Behaviours over HTTP/1.1 after the status line: bodies, early responses, and bytes after the end of a response.
//!
//! The status line has decided the outcome. None of these behaviours changes it or affects the next request.

use crate::harness::behaviours_http1::{
    CHUNKED, ENDLESS, HUGE_PAYLOAD_BYTES, LARGE_PAYLOAD_BYTES, OK, STATUS, plain, responds,
};
use crate::harness::script::Step::{Close, Freeze, Read, ReadHead, Reset, Serve, Silence};
use crate::harness::script::{BROKEN, Case, DELIVERED, ExpectedOutcome, RESET, flood, write};

/// A response that belongs to no request.
const UNREQUESTED: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstray";
const TOO_LARGE: &str = "HTTP/1.1 413 Payload Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const REFUSED: ExpectedOutcome = ExpectedOutcome::Status(413);

/// The beginning of a gzip file, and 13 bytes that decompress to 2 KiB of the letter a each time they are repeated.
pub(crate) const GZIP_HEAD: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x4a\x1c";
pub(crate) const GZIP_MORE: &[u8] = b"\x05\xa3\x60\x14\x8c\x82\x51\x30\x0a\x46\xc1\x28\x18";

pub(crate) fn all() -> Vec<Case> {
    [bodies(), chunks(), early_responses(), extra_bytes(), closing_connections()]
        .into_iter()
        .flatten()
        .collect()
}

fn bodies() -> Vec<Case> {
    let gzip = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n";
    let unknown_coding = "HTTP/1.1 200 OK\r\ntransfer-encoding: rot13\r\n\r\n";
    vec![
        plain("a body of a terabyte", [Read, write(ENDLESS), flood("more")], DELIVERED),
        plain("an endless body until close", [Read, write(STATUS), write("\r\n"), flood("more")], DELIVERED),
        plain("a gzip bomb", [Read, write(gzip), write(GZIP_HEAD), flood(GZIP_MORE)], DELIVERED),
        plain("an unknown transfer coding", [Read, write(unknown_coding), flood("more")], DELIVERED),
        plain(
            "a body that is shorter than its length",
            [Read, write(ENDLESS), write("short"), Close],
            DELIVERED,
        ),
        plain("a body until close", [Read, write(STATUS), write("\r\nbye"), Close], DELIVERED),
    ]
}

fn chunks() -> Vec<Case> {
    let chunked = |bytes: &str| format!("{CHUNKED}{bytes}");
    let both =
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    vec![
        responds("valid chunks", chunked("2\r\nok\r\n0\r\n\r\n"), DELIVERED),
        plain("endless chunks", [Read, write(CHUNKED), flood("4\r\nmore\r\n")], DELIVERED),
        plain("endless tiny chunks", [Read, write(CHUNKED), flood("1\r\nm\r\n")], DELIVERED),
        plain(
            "a chunk's size beyond 64 bits",
            [Read, write(chunked("fffffffffffffffff\r\nx")), Silence],
            DELIVERED,
        ),
        plain("endless chunk's size", [Read, write(CHUNKED), flood("0")], DELIVERED),
        plain("a chunk's size that is no number", [Read, write(chunked("zz\r\nx")), Silence], DELIVERED),
        plain("a chunk longer than its size", [Read, write(chunked("2\r\nlonger\r\n")), Silence], DELIVERED),
        plain("endless chunk extension", [Read, write(chunked("4")), flood(";a=b")], DELIVERED),
        plain("endless chunk extensions", [Read, write(CHUNKED), flood("1;a=bcdefgh\r\nm\r\n")], DELIVERED),
        plain("endless trailers", [Read, write(chunked("0\r\n")), flood("x-a: b\r\n")], DELIVERED),
        plain("endless trailer", [Read, write(chunked("0\r\nx-a: ")), flood("b")], DELIVERED),
        plain("a trailer that is no header", [Read, write(chunked("0\r\n\0\0\r\n\r\n")), Silence], DELIVERED),
        responds("chunks and a length", both, DELIVERED),
    ]
}

fn early_responses() -> Vec<Case> {
    vec![
        plain(
            "responds before it reads the request",
            [write(OK), Serve],
            ExpectedOutcome::Either(&DELIVERED, &RESET),
        )
        .maybe_read(),
        plain(
            "sends a greeting, as another protocol does",
            [write("220 mail.example ESMTP\r\n"), Silence],
            ExpectedOutcome::Either(&BROKEN, &RESET),
        )
        .unread(),
        plain(
            "refuses a large request early, reads it, closes",
            [ReadHead, write(TOO_LARGE), Close],
            REFUSED,
        )
        .with_payload(LARGE_PAYLOAD_BYTES),
        plain(
            "refuses a huge request early and stops reading",
            [ReadHead, write(TOO_LARGE), Freeze],
            REFUSED,
        )
        .with_payload(HUGE_PAYLOAD_BYTES),
        plain(
            "refuses a huge request early and resets",
            [ReadHead, write(TOO_LARGE), Reset],
            ExpectedOutcome::Either(&REFUSED, &RESET),
        )
        .with_payload(HUGE_PAYLOAD_BYTES),
        plain("accepts a huge request early and stops reading", [ReadHead, write(OK), Freeze], DELIVERED)
            .with_payload(HUGE_PAYLOAD_BYTES),
    ]
}

/// Bytes after the end of a response. They must not become the response to the next request.
fn extra_bytes() -> Vec<Case> {
    let no_content = "HTTP/1.1 204 No Content\r\n\r\n";
    let not_modified = "HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n";
    vec![
        responds("a body that is longer than its length", format!("{OK}, and more"), DELIVERED),
        responds("a second response right after the first", format!("{OK}{UNREQUESTED}"), DELIVERED),
        responds("half a second response after the first", format!("{OK}HTTP/1.1 200 OK\r\nx-"), DELIVERED),
        responds("a hundred responses", OK.to_owned() + &UNREQUESTED.repeat(100), DELIVERED),
        plain(
            "endless bytes after the response",
            [Read, write(format!("{OK}more")), flood("more")],
            DELIVERED,
        ),
        plain("endless responses", [Read, flood(OK)], DELIVERED),
        responds(
            "an interim response after the response",
            format!("{OK}HTTP/1.1 100 Continue\r\n\r\n"),
            DELIVERED,
        ),
        responds(
            "a response after one without body",
            format!("{no_content}{UNREQUESTED}"),
            ExpectedOutcome::Status(204),
        ),
        responds(
            "a body after a response without body",
            format!("{not_modified}hello"),
            ExpectedOutcome::Status(304),
        ),
        responds("a response after a chunked one", format!("{CHUNKED}0\r\n\r\n{UNREQUESTED}"), DELIVERED),
        responds("a response after a broken chunk", format!("{CHUNKED}zz\r\n\r\n{UNREQUESTED}"), DELIVERED),
    ]
}

/// Connections that must not be reused, announced or not.
fn closing_connections() -> Vec<Case> {
    let last = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
    let old = "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok";
    let old_kept = "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok";
    vec![
        plain("announces close and stays open", [Read, write(last), Silence], DELIVERED),
        plain("announces close and closes", [Read, write(last), Close], DELIVERED),
        plain("closes unannounced", [Read, write(OK), Close], DELIVERED),
        plain("resets unannounced", [Read, write(OK), Reset], DELIVERED),
        plain("HTTP/1.0 that stays open", [Read, write(old), Silence], DELIVERED),
        plain("HTTP/1.0 that closes", [Read, write(old), Close], DELIVERED),
        responds("HTTP/1.0 with keep-alive", old_kept, DELIVERED),
    ]
}
