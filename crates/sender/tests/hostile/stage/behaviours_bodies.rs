//! What a receiver may do over HTTP/1.1 once its status is known, and around the end of its answer.
//!
//! The status line has decided by then: nothing here changes the outcome, and nothing may leak into the next one.

use crate::stage::behaviours_http1::{
    CHUNKED, ENDLESS, HUGE_PAYLOAD_BYTES, LARGE_PAYLOAD_BYTES, OK, STATUS, answers, plain,
};
use crate::stage::script::Step::{Close, Freeze, Read, ReadHead, Reset, Serve, Silence};
use crate::stage::script::{BROKEN, Case, DELIVERED, Ending, RESET, flood, write};

/// An answer that belongs to no request.
const STRAY: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstray";
const TOO_LARGE: &str = "HTTP/1.1 413 Payload Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const REFUSED: Ending = Ending::Status(413);

/// The beginning of a gzip file, and 13 bytes of it that unpack to 2 KiB of the letter a, again and again.
pub(crate) const GZIP_HEAD: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x4a\x1c";
pub(crate) const GZIP_MORE: &[u8] = b"\x05\xa3\x60\x14\x8c\x82\x51\x30\x0a\x46\xc1\x28\x18";

pub(crate) fn all() -> Vec<Case> {
    [bodies(), chunks(), early_answers(), leftovers(), farewells()].into_iter().flatten().collect()
}

fn bodies() -> Vec<Case> {
    let gzip = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n";
    let unknown_coding = "HTTP/1.1 200 OK\r\ntransfer-encoding: rot13\r\n\r\n";
    vec![
        plain("a body of a terabyte", [Read, write(ENDLESS), flood("more")], DELIVERED),
        plain(
            "a body until close, without end",
            [Read, write(STATUS), write("\r\n"), flood("more")],
            DELIVERED,
        ),
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
        answers("chunks as they should be", chunked("2\r\nok\r\n0\r\n\r\n"), DELIVERED),
        plain("chunks without end", [Read, write(CHUNKED), flood("4\r\nmore\r\n")], DELIVERED),
        plain("tiny chunks without end", [Read, write(CHUNKED), flood("1\r\nm\r\n")], DELIVERED),
        plain(
            "a chunk's size beyond 64 bits",
            [Read, write(chunked("fffffffffffffffff\r\nx")), Silence],
            DELIVERED,
        ),
        plain("a chunk's size without end", [Read, write(CHUNKED), flood("0")], DELIVERED),
        plain("a chunk's size that is no number", [Read, write(chunked("zz\r\nx")), Silence], DELIVERED),
        plain("a chunk longer than its size", [Read, write(chunked("2\r\nlonger\r\n")), Silence], DELIVERED),
        plain("a chunk extension without end", [Read, write(chunked("4")), flood(";a=b")], DELIVERED),
        plain(
            "chunk extensions without end",
            [Read, write(CHUNKED), flood("1;a=bcdefgh\r\nm\r\n")],
            DELIVERED,
        ),
        plain("trailers without end", [Read, write(chunked("0\r\n")), flood("x-a: b\r\n")], DELIVERED),
        plain("a trailer without end", [Read, write(chunked("0\r\nx-a: ")), flood("b")], DELIVERED),
        plain("a trailer that is no header", [Read, write(chunked("0\r\n\0\0\r\n\r\n")), Silence], DELIVERED),
        answers("chunks and a length", both, DELIVERED),
    ]
}

fn early_answers() -> Vec<Case> {
    vec![
        plain("answers before it reads the request", [write(OK), Serve], Ending::Either(&DELIVERED, &RESET))
            .perhaps_read(),
        plain(
            "speaks first, as another protocol does",
            [write("220 mail.example ESMTP\r\n"), Silence],
            Ending::Either(&BROKEN, &RESET),
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
            Ending::Either(&REFUSED, &RESET),
        )
        .with_payload(HUGE_PAYLOAD_BYTES),
        plain("accepts a huge request early and stops reading", [ReadHead, write(OK), Freeze], DELIVERED)
            .with_payload(HUGE_PAYLOAD_BYTES),
    ]
}

/// More than one answer: what is left over must not become the answer to the next request.
fn leftovers() -> Vec<Case> {
    let no_content = "HTTP/1.1 204 No Content\r\n\r\n";
    let not_modified = "HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n";
    vec![
        answers("a body that is longer than its length", format!("{OK}, and more"), DELIVERED),
        answers("a second answer right behind the first", format!("{OK}{STRAY}"), DELIVERED),
        answers("half a second answer behind the first", format!("{OK}HTTP/1.1 200 OK\r\nx-"), DELIVERED),
        answers("a hundred answers", OK.to_owned() + &STRAY.repeat(100), DELIVERED),
        plain(
            "bytes without end behind the answer",
            [Read, write(format!("{OK}more")), flood("more")],
            DELIVERED,
        ),
        plain("answers without end", [Read, flood(OK)], DELIVERED),
        answers(
            "an interim response behind the answer",
            format!("{OK}HTTP/1.1 100 Continue\r\n\r\n"),
            DELIVERED,
        ),
        answers("an answer behind one without body", format!("{no_content}{STRAY}"), Ending::Status(204)),
        answers("a body behind one without body", format!("{not_modified}hello"), Ending::Status(304)),
        answers("an answer behind its chunks", format!("{CHUNKED}0\r\n\r\n{STRAY}"), DELIVERED),
        answers("an answer behind a broken chunk", format!("{CHUNKED}zz\r\n\r\n{STRAY}"), DELIVERED),
    ]
}

/// Connections that must not be used again, whether they say so or not.
fn farewells() -> Vec<Case> {
    let last = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
    let old = "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok";
    let old_kept = "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok";
    vec![
        plain("says close and stays open", [Read, write(last), Silence], DELIVERED),
        plain("says close and closes", [Read, write(last), Close], DELIVERED),
        plain("says nothing and closes", [Read, write(OK), Close], DELIVERED),
        plain("says nothing and resets", [Read, write(OK), Reset], DELIVERED),
        plain("HTTP/1.0 that stays open", [Read, write(old), Silence], DELIVERED),
        plain("HTTP/1.0 that closes", [Read, write(old), Close], DELIVERED),
        answers("HTTP/1.0 with keep-alive", old_kept, DELIVERED),
    ]
}
