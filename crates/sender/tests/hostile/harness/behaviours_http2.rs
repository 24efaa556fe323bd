//! Behaviours over HTTP/2.

use crate::harness::certificates::Handshake;
use crate::harness::frames::*;
use crate::harness::script::Step::{Close, CloseTcp, Freeze, Read, ReadHead, Reset, Serve, Silence};
use crate::harness::script::{
    BROKEN, Case, DELIVERED, ExpectedOutcome, RESET, Step, TIMEOUT, Transport, case, drip, flood, write,
};

/// The largest flow-control window.
const WINDOW_MAX: u32 = 0x7fff_ffff;
/// More than the initial flow-control window of a receiver.
const LARGE_PAYLOAD_BYTES: usize = 1 << 20;

pub(crate) fn all() -> Vec<Case> {
    [stalls(), refusals(), bodies(), endless_frames(), interim_responses(), header_blocks(), violations()]
        .into_iter()
        .flatten()
        .collect()
}

/// Creates a case over HTTP/2.
fn over<const N: usize>(name: &'static str, steps: [Step; N], expected: ExpectedOutcome) -> Case {
    case(name, Transport::Tls(Handshake::Http2), steps, expected)
}

/// Sends settings, reads the request, responds with these frames and serves further requests.
fn responds(name: &'static str, frames: &[Vec<u8>], expected: ExpectedOutcome) -> Case {
    over(name, [send_settings(), Read, write(frames.concat()), Serve], expected)
}

/// Sends settings, reads the request, responds with these frames and sends nothing more.
fn stops_after(name: &'static str, frames: &[Vec<u8>], expected: ExpectedOutcome) -> Case {
    over(name, [send_settings(), Read, write(frames.concat()), Silence], expected)
}

/// Sends settings, reads the request, responds with these frames and then floods the sender.
fn floods(name: &'static str, frames: &[Vec<u8>], more: impl AsRef<[u8]>, expected: ExpectedOutcome) -> Case {
    over(name, [send_settings(), Read, write(frames.concat()), flood(more)], expected)
}

fn send_settings() -> Step {
    write(settings(&[]))
}

/// The head of a response whose body follows.
fn head() -> Vec<u8> {
    headers(0, FIRST_STREAM, STATUS_200)
}

/// A response without body.
fn response() -> Vec<u8> {
    headers(END_STREAM, FIRST_STREAM, STATUS_200)
}

fn data(bytes: &[u8]) -> Vec<u8> {
    frame(DATA, 0, FIRST_STREAM, bytes)
}

fn stalls() -> Vec<Case> {
    let without_window = write(settings(&[(INITIAL_WINDOW_SIZE, 0)]));
    let without_streams = write(settings(&[(MAX_CONCURRENT_STREAMS, 0)]));
    vec![
        over("responds correctly", [Serve], DELIVERED),
        over("no settings and no response", [Read, Silence], TIMEOUT),
        stops_after("settings and no response", &[], TIMEOUT),
        over("reads nothing", [send_settings(), Freeze], TIMEOUT).unread(),
        over("allows no streams", [without_streams, ReadHead, Silence], TIMEOUT).maybe_read(),
        over("has no window for a body", [without_window, ReadHead, Silence], TIMEOUT).maybe_read(),
        over("has no window for a large body", [send_settings(), ReadHead, Silence], TIMEOUT)
            .with_payload(LARGE_PAYLOAD_BYTES),
        over(
            "responds and leaves a large request body unread",
            [send_settings(), ReadHead, write(response()), Silence],
            DELIVERED,
        )
        .with_payload(LARGE_PAYLOAD_BYTES),
        over(
            "drips its frames",
            [send_settings(), Read, drip([settings(&[]), response()].concat())],
            TIMEOUT,
        ),
        stops_after("stalls before its body", &[head()], DELIVERED).until_deadline(),
        stops_after("stalls within its body", &[head(), data(b"half")], DELIVERED).until_deadline(),
    ]
}

fn refusals() -> Vec<Case> {
    let refused = || rst_stream(FIRST_STREAM, REFUSED_STREAM);
    vec![
        stops_after("GOAWAY that excludes the request", &[goaway(0, NO_ERROR)], RESET),
        over(
            "GOAWAY, then close",
            [send_settings(), Read, write(goaway(FIRST_STREAM, NO_ERROR)), Close],
            RESET,
        ),
        over(
            "GOAWAY with an error, then close",
            [send_settings(), Read, write(goaway(0, INTERNAL_ERROR)), Close],
            RESET,
        ),
        responds("RST_STREAM, refused", &[refused()], RESET),
        responds("RST_STREAM, no error", &[rst_stream(FIRST_STREAM, NO_ERROR)], RESET),
        responds("RST_STREAM, internal error", &[rst_stream(FIRST_STREAM, INTERNAL_ERROR)], RESET),
        responds("RST_STREAM, wants HTTP/1.1", &[rst_stream(FIRST_STREAM, HTTP_1_1_REQUIRED)], RESET),
        floods("endless RST_STREAM", &[], refused(), ExpectedOutcome::Either(&RESET, &BROKEN)),
        over("closes on the handshake", [Close], RESET).unread(),
        over("closes after the request", [send_settings(), Read, Close], RESET),
        over("closes TCP after the request", [send_settings(), Read, CloseTcp], RESET),
        over("resets after the request", [send_settings(), Read, Reset], RESET),
    ]
}

fn bodies() -> Vec<Case> {
    let padding = frame(DATA, PADDED, FIRST_STREAM, &[&[255][..], &[0; 255]].concat());
    let trailer = literal("x-a", "b");
    let trailers = frame(HEADERS, END_STREAM, FIRST_STREAM, &trailer);
    vec![
        responds(
            "RST_STREAM within the body",
            &[head(), data(b"half"), rst_stream(FIRST_STREAM, INTERNAL_ERROR)],
            DELIVERED,
        ),
        over(
            "resets within the body",
            [send_settings(), Read, write([head(), data(b"half")].concat()), Reset],
            DELIVERED,
        ),
        stops_after("GOAWAY before the response", &[goaway(FIRST_STREAM, NO_ERROR), response()], DELIVERED),
        stops_after("GOAWAY after the response", &[response(), goaway(FIRST_STREAM, NO_ERROR)], DELIVERED),
        over("closes after the response", [send_settings(), Read, write(response()), Close], DELIVERED),
        floods("endless body", &[head()], data(&[b'a'; 8_192]), DELIVERED),
        floods("endless tiny DATA", &[head()], data(b"a"), DELIVERED),
        floods("endless empty DATA", &[head()], data(b""), DELIVERED),
        floods("endless padding", &[head()], padding, DELIVERED),
        floods(
            "endless trailers",
            &[head(), trailers],
            frame(CONTINUATION, 0, FIRST_STREAM, &trailer),
            DELIVERED,
        ),
    ]
}

fn endless_frames() -> Vec<Case> {
    let ping = frame(PING, 0, 0, &[0; 8]);
    vec![
        responds("a hundred pings, then 200", &[ping.repeat(100), response()], DELIVERED),
        floods("endless pings", &[], ping.clone(), BROKEN),
        floods("endless pongs", &[], frame(PING, ACK, 0, &[0; 8]), BROKEN),
        floods("endless settings", &[], settings(&[]), BROKEN),
        floods(
            "endless settings that change",
            &[],
            settings(&[(HEADER_TABLE_SIZE, 0), (HEADER_TABLE_SIZE, 4_096)]),
            BROKEN,
        ),
        floods("endless window updates", &[], window_update(0, 1), BROKEN),
        floods("endless priorities", &[], frame(PRIORITY, 0, FIRST_STREAM, &[0; 5]), BROKEN),
        floods("endless unknown frames", &[], frame(0xfa, 0, 0, &[0; 64]), BROKEN),
        floods("endless GOAWAY", &[], goaway(FIRST_STREAM, NO_ERROR), BROKEN),
        floods("endless pings after the response", &[response()], ping, DELIVERED),
    ]
}

/// Interim responses. Each is a complete message, and HPACK encodes it in few bytes.
fn interim_responses() -> Vec<Case> {
    let hints = headers(0, FIRST_STREAM, STATUS_103);
    let first = headers(0, FIRST_STREAM, INDEXED_STATUS_103);
    let shortest = headers(0, FIRST_STREAM, &[NEWEST_ENTRY]);
    let first_header = headers(0, FIRST_STREAM, &[STATUS_103, &indexed_literal("x", "")].concat());
    let fullest = headers(0, FIRST_STREAM, &[STATUS_103, &[NEWEST_ENTRY; 900]].concat());
    vec![
        responds("103 ten times, then 200", &[hints.repeat(10), response()], DELIVERED),
        floods("endless 103", &[], hints, BROKEN),
        floods("endless 103 in ten bytes", &[first], shortest, BROKEN),
        floods("endless 103 with 900 headers", &[first_header], fullest, BROKEN),
    ]
}

fn header_blocks() -> Vec<Case> {
    let more = frame(CONTINUATION, 0, FIRST_STREAM, &literal("x-more", "and more"));
    let begun = || frame(HEADERS, END_STREAM, FIRST_STREAM, STATUS_200);
    let block =
        |lines: &[Vec<u8>]| headers(END_STREAM, FIRST_STREAM, &[STATUS_200, &lines.concat()].concat());
    let half =
        |flags: u8| frame(CONTINUATION, flags, FIRST_STREAM, &literal("x-a", &"b".repeat(90)).repeat(160));
    // 4000 headers of 4 KiB each, encoded in less than 8 KiB.
    let bomb = [indexed_literal("x-a", &"b".repeat(4_000)), vec![NEWEST_ENTRY; 4_000]];
    let long = |bytes: usize| {
        headers(END_STREAM, FIRST_STREAM, &[STATUS_200, &literal("x-a", &"b".repeat(bytes))].concat())
    };
    vec![
        responds("a header of 8 KiB", &[long(8 << 10)], DELIVERED),
        floods("endless CONTINUATION", &[begun()], more, BROKEN),
        floods("endless empty CONTINUATION", &[begun()], frame(CONTINUATION, 0, FIRST_STREAM, b""), BROKEN),
        stops_after("a header block that does not end", &[begun()], TIMEOUT),
        stops_after("a header list of 40 KiB", &[begun(), half(0), half(END_HEADERS)], BROKEN),
        stops_after("a header bomb of 16 MiB", &[block(&bomb)], BROKEN),
        stops_after(
            "a header block that is not HPACK",
            &[headers(END_STREAM, FIRST_STREAM, &[0xff; 16])],
            BROKEN,
        ),
        stops_after("a header in capital letters", &[block(&[literal("X-A", "b")])], BROKEN),
        stops_after(
            "a header that belongs to a connection",
            &[block(&[literal("connection", "close")])],
            BROKEN,
        ),
        stops_after(
            "a response without status",
            &[headers(END_STREAM, FIRST_STREAM, &literal("x-a", "b"))],
            BROKEN,
        ),
        responds("status 600", &[headers(END_STREAM, FIRST_STREAM, b"\x08\x03600")], BROKEN),
        stops_after("status abc", &[headers(END_STREAM, FIRST_STREAM, b"\x08\x03abc")], BROKEN),
        stops_after("status 101", &[headers(END_STREAM, FIRST_STREAM, b"\x08\x03101")], BROKEN),
    ]
}

fn violations() -> Vec<Case> {
    let promise = frame(PUSH_PROMISE, END_HEADERS, FIRST_STREAM, &[&[0, 0, 0, 2][..], STATUS_200].concat());
    let overflow = |stream: u32| window_update(stream, WINDOW_MAX).repeat(2);
    vec![
        stops_after("DATA before HEADERS", &[data(b"body")], BROKEN),
        stops_after("a push", &[promise], BROKEN),
        stops_after(
            "a response on a stream that was never opened",
            &[headers(END_STREAM, 3, STATUS_200)],
            BROKEN,
        ),
        stops_after("a response on a stream of the receiver", &[headers(END_STREAM, 2, STATUS_200)], BROKEN),
        stops_after("a response on stream 0", &[headers(END_STREAM, 0, STATUS_200)], BROKEN),
        stops_after("a connection window that overflows", &[overflow(0)], BROKEN),
        over(
            "a stream window that overflows",
            [send_settings(), ReadHead, write(overflow(FIRST_STREAM)), Silence],
            BROKEN,
        )
        .with_payload(LARGE_PAYLOAD_BYTES),
        stops_after("a window update of zero", &[window_update(0, 0)], BROKEN),
        stops_after(
            "settings with a window that is too large",
            &[settings(&[(INITIAL_WINDOW_SIZE, u32::MAX)])],
            BROKEN,
        ),
        stops_after("settings with frames that are too small", &[settings(&[(MAX_FRAME_SIZE, 1)])], BROKEN),
        stops_after("settings of a wrong length", &[frame(SETTINGS, 0, 0, &[0; 5])], BROKEN),
        stops_after("a ping of a wrong length", &[frame(PING, 0, 0, &[0; 3])], BROKEN),
        stops_after("a frame that is too long", &[frame(0xfa, 0, 0, &[0; 16_385])], BROKEN),
        stops_after("RST_STREAM for a stream that was never opened", &[rst_stream(3, NO_ERROR)], BROKEN),
        stops_after(
            "CONTINUATION without HEADERS",
            &[frame(CONTINUATION, END_HEADERS, FIRST_STREAM, STATUS_200)],
            BROKEN,
        ),
        stops_after("garbage instead of frames", &[vec![0xa5; 64]], BROKEN),
        over(
            "HTTP/1.1 instead of settings",
            [write("HTTP/1.1 400 Bad Request\r\n\r\n"), Silence],
            ExpectedOutcome::Either(&BROKEN, &RESET),
        )
        .unread(),
        over(
            "HTTP/1.1 instead of a response",
            [send_settings(), Read, write("HTTP/1.1 200 OK\r\n\r\n"), Silence],
            BROKEN,
        ),
    ]
}
