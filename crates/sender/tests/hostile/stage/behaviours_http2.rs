//! What a receiver may do to a request over HTTP/2, and how the attempt must end.

use crate::stage::certificates::Handshake;
use crate::stage::frames::*;
use crate::stage::script::Step::{Close, Cut, Freeze, Read, ReadHead, Reset, Serve, Silence};
use crate::stage::script::{
    BROKEN, Case, DELIVERED, Ending, RESET, Step, TIMEOUT, Transport, case, drip, flood, write,
};

const WINDOW_MAX: u32 = 0x7fff_ffff;
/// More than the window that a receiver opens unasked.
const LARGE_PAYLOAD_BYTES: usize = 1 << 20;

pub(crate) fn all() -> Vec<Case> {
    [silences(), refusals(), bodies(), endless_frames(), interim_responses(), header_blocks(), violations()]
        .into_iter()
        .flatten()
        .collect()
}

fn over<const N: usize>(name: &'static str, steps: [Step; N], ends: Ending) -> Case {
    case(name, Transport::Tls(Handshake::Http2), steps, ends)
}

/// Greets, reads the request, answers it with these frames and goes on as it should.
fn answers(name: &'static str, frames: &[Vec<u8>], ends: Ending) -> Case {
    over(name, [hello(), Read, write(frames.concat()), Serve], ends)
}

/// As above, and then says no more.
fn stops_after(name: &'static str, frames: &[Vec<u8>], ends: Ending) -> Case {
    over(name, [hello(), Read, write(frames.concat()), Silence], ends)
}

/// As above, and then never ends.
fn floods(name: &'static str, frames: &[Vec<u8>], more: impl AsRef<[u8]>, ends: Ending) -> Case {
    over(name, [hello(), Read, write(frames.concat()), flood(more)], ends)
}

fn hello() -> Step {
    write(settings(&[]))
}

/// The head of an answer whose body is to come.
fn head() -> Vec<u8> {
    headers(0, FIRST, STATUS_200)
}

/// An answer without body.
fn answer() -> Vec<u8> {
    headers(END_STREAM, FIRST, STATUS_200)
}

fn data(bytes: &[u8]) -> Vec<u8> {
    frame(DATA, 0, FIRST, bytes)
}

fn silences() -> Vec<Case> {
    let without_window = write(settings(&[(INITIAL_WINDOW_SIZE, 0)]));
    let without_streams = write(settings(&[(MAX_CONCURRENT_STREAMS, 0)]));
    vec![
        over("answers as it should", [Serve], DELIVERED),
        over("no settings and no answer", [Read, Silence], TIMEOUT),
        stops_after("settings and no answer", &[], TIMEOUT),
        over("reads nothing", [hello(), Freeze], TIMEOUT).unread(),
        over("allows no streams", [without_streams, ReadHead, Silence], TIMEOUT).perhaps_read(),
        over("has no room for a body", [without_window, ReadHead, Silence], TIMEOUT).perhaps_read(),
        over("has no room for a large body", [hello(), ReadHead, Silence], TIMEOUT)
            .with_payload(LARGE_PAYLOAD_BYTES),
        over(
            "answers and leaves a large body unread",
            [hello(), ReadHead, write(answer()), Silence],
            DELIVERED,
        )
        .with_payload(LARGE_PAYLOAD_BYTES),
        over("drips its frames", [hello(), Read, drip([settings(&[]), answer()].concat())], TIMEOUT),
        stops_after("stalls before its body", &[head()], DELIVERED).until_the_deadline(),
        stops_after("stalls within its body", &[head(), data(b"half")], DELIVERED).until_the_deadline(),
    ]
}

fn refusals() -> Vec<Case> {
    let refused = || rst_stream(FIRST, REFUSED_STREAM);
    vec![
        stops_after("GOAWAY that leaves the request out", &[goaway(0, NO_ERROR)], RESET),
        over("GOAWAY, then close", [hello(), Read, write(goaway(FIRST, NO_ERROR)), Close], RESET),
        over(
            "GOAWAY with an error, then close",
            [hello(), Read, write(goaway(0, INTERNAL_ERROR)), Close],
            RESET,
        ),
        answers("RST_STREAM, refused", &[refused()], RESET),
        answers("RST_STREAM, no error", &[rst_stream(FIRST, NO_ERROR)], RESET),
        answers("RST_STREAM, internal error", &[rst_stream(FIRST, INTERNAL_ERROR)], RESET),
        answers("RST_STREAM, wants HTTP/1.1", &[rst_stream(FIRST, HTTP_1_1_REQUIRED)], RESET),
        floods("RST_STREAM without end", &[], refused(), Ending::Either(&RESET, &BROKEN)),
        over("closes on the handshake", [Close], RESET).unread(),
        over("closes after the request", [hello(), Read, Close], RESET),
        over("cuts after the request", [hello(), Read, Cut], RESET),
        over("resets after the request", [hello(), Read, Reset], RESET),
    ]
}

fn bodies() -> Vec<Case> {
    let padding = frame(DATA, PADDED, FIRST, &[&[255][..], &[0; 255]].concat());
    let trailer = literal("x-a", "b");
    let trailers = frame(HEADERS, END_STREAM, FIRST, &trailer);
    vec![
        answers(
            "RST_STREAM within the body",
            &[head(), data(b"half"), rst_stream(FIRST, INTERNAL_ERROR)],
            DELIVERED,
        ),
        over(
            "resets within the body",
            [hello(), Read, write([head(), data(b"half")].concat()), Reset],
            DELIVERED,
        ),
        stops_after("GOAWAY before the answer", &[goaway(FIRST, NO_ERROR), answer()], DELIVERED),
        stops_after("GOAWAY behind the answer", &[answer(), goaway(FIRST, NO_ERROR)], DELIVERED),
        over("closes after the answer", [hello(), Read, write(answer()), Close], DELIVERED),
        floods("a body without end", &[head()], data(&[b'a'; 8_192]), DELIVERED),
        floods("tiny DATA without end", &[head()], data(b"a"), DELIVERED),
        floods("empty DATA without end", &[head()], data(b""), DELIVERED),
        floods("padding without end", &[head()], padding, DELIVERED),
        floods(
            "trailers without end",
            &[head(), trailers],
            frame(CONTINUATION, 0, FIRST, &trailer),
            DELIVERED,
        ),
    ]
}

fn endless_frames() -> Vec<Case> {
    let ping = frame(PING, 0, 0, &[0; 8]);
    vec![
        answers("a hundred pings, then 200", &[ping.repeat(100), answer()], DELIVERED),
        floods("pings without end", &[], ping.clone(), BROKEN),
        floods("pongs without end", &[], frame(PING, ACK, 0, &[0; 8]), BROKEN),
        floods("settings without end", &[], settings(&[]), BROKEN),
        floods(
            "settings that change, without end",
            &[],
            settings(&[(HEADER_TABLE_SIZE, 0), (HEADER_TABLE_SIZE, 4_096)]),
            BROKEN,
        ),
        floods("window updates without end", &[], window_update(0, 1), BROKEN),
        floods("priorities without end", &[], frame(PRIORITY, 0, FIRST, &[0; 5]), BROKEN),
        floods("unknown frames without end", &[], frame(0xfa, 0, 0, &[0; 64]), BROKEN),
        floods("GOAWAY without end", &[], goaway(FIRST, NO_ERROR), BROKEN),
        floods("pings without end behind the answer", &[answer()], ping, DELIVERED),
    ]
}

/// Each is a message of its own, and HPACK says much in few bytes.
fn interim_responses() -> Vec<Case> {
    let hints = headers(0, FIRST, STATUS_103);
    let first = headers(0, FIRST, INDEXED_STATUS_103);
    let shortest = headers(0, FIRST, &[NEWEST_ENTRY]);
    let first_header = headers(0, FIRST, &[STATUS_103, &indexed_literal("x", "")].concat());
    let fullest = headers(0, FIRST, &[STATUS_103, &[NEWEST_ENTRY; 900]].concat());
    vec![
        answers("103 ten times, then 200", &[hints.repeat(10), answer()], DELIVERED),
        floods("103 without end", &[], hints, BROKEN),
        floods("103 in ten bytes, without end", &[first], shortest, BROKEN),
        floods("103 with 900 headers, without end", &[first_header], fullest, BROKEN),
    ]
}

fn header_blocks() -> Vec<Case> {
    let more = frame(CONTINUATION, 0, FIRST, &literal("x-more", "and more"));
    let begun = || frame(HEADERS, END_STREAM, FIRST, STATUS_200);
    let block = |lines: &[Vec<u8>]| headers(END_STREAM, FIRST, &[STATUS_200, &lines.concat()].concat());
    let half = |flags: u8| frame(CONTINUATION, flags, FIRST, &literal("x-a", &"b".repeat(90)).repeat(160));
    // 4000 headers of 4 KiB each, in less than 8 KiB.
    let bomb = [indexed_literal("x-a", &"b".repeat(4_000)), vec![NEWEST_ENTRY; 4_000]];
    let long = |bytes: usize| {
        headers(END_STREAM, FIRST, &[STATUS_200, &literal("x-a", &"b".repeat(bytes))].concat())
    };
    vec![
        answers("a header of 8 KiB", &[long(8 << 10)], DELIVERED),
        floods("CONTINUATION without end", &[begun()], more, BROKEN),
        floods("empty CONTINUATION without end", &[begun()], frame(CONTINUATION, 0, FIRST, b""), BROKEN),
        stops_after("a header block that does not end", &[begun()], TIMEOUT),
        stops_after("a header list of 40 KiB", &[begun(), half(0), half(END_HEADERS)], BROKEN),
        stops_after("a header bomb of 16 MiB", &[block(&bomb)], BROKEN),
        stops_after("a header block that is no HPACK", &[headers(END_STREAM, FIRST, &[0xff; 16])], BROKEN),
        stops_after("a header in capital letters", &[block(&[literal("X-A", "b")])], BROKEN),
        stops_after(
            "a header that belongs to a connection",
            &[block(&[literal("connection", "close")])],
            BROKEN,
        ),
        stops_after("an answer without status", &[headers(END_STREAM, FIRST, &literal("x-a", "b"))], BROKEN),
        answers("status 600", &[headers(END_STREAM, FIRST, b"\x08\x03600")], BROKEN),
        stops_after("status abc", &[headers(END_STREAM, FIRST, b"\x08\x03abc")], BROKEN),
        stops_after("status 101", &[headers(END_STREAM, FIRST, b"\x08\x03101")], BROKEN),
    ]
}

fn violations() -> Vec<Case> {
    let promise = frame(PUSH_PROMISE, END_HEADERS, FIRST, &[&[0, 0, 0, 2][..], STATUS_200].concat());
    let overflow = |stream: u32| window_update(stream, WINDOW_MAX).repeat(2);
    vec![
        stops_after("DATA before HEADERS", &[data(b"body")], BROKEN),
        stops_after("a push", &[promise], BROKEN),
        stops_after(
            "an answer on a stream that was never opened",
            &[headers(END_STREAM, 3, STATUS_200)],
            BROKEN,
        ),
        stops_after("an answer on a stream of its own", &[headers(END_STREAM, 2, STATUS_200)], BROKEN),
        stops_after("an answer on stream 0", &[headers(END_STREAM, 0, STATUS_200)], BROKEN),
        stops_after("a window of the connection that overflows", &[overflow(0)], BROKEN),
        over(
            "a window of the request that overflows",
            [hello(), ReadHead, write(overflow(FIRST)), Silence],
            BROKEN,
        )
        .with_payload(LARGE_PAYLOAD_BYTES),
        stops_after("a window that grows by nothing", &[window_update(0, 0)], BROKEN),
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
            &[frame(CONTINUATION, END_HEADERS, FIRST, STATUS_200)],
            BROKEN,
        ),
        stops_after("garbage for frames", &[vec![0xa5; 64]], BROKEN),
        over(
            "HTTP/1.1 for a greeting",
            [write("HTTP/1.1 400 Bad Request\r\n\r\n"), Silence],
            Ending::Either(&BROKEN, &RESET),
        )
        .unread(),
        over("HTTP/1.1 for an answer", [hello(), Read, write("HTTP/1.1 200 OK\r\n\r\n"), Silence], BROKEN),
    ]
}
