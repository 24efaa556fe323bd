//! HTTP/2 frames as bytes, valid or not.

/// The connection preface of a client.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const HEADER_BYTES: usize = 9;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 0x1;
/// Flag of a PING or SETTINGS frame.
pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
pub(crate) const PADDED: u8 = 0x8;

pub(crate) const HEADER_TABLE_SIZE: u16 = 1;
pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
pub(crate) const MAX_FRAME_SIZE: u16 = 5;

pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const INTERNAL_ERROR: u32 = 2;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const HTTP_1_1_REQUIRED: u32 = 13;

/// `:status: 200`, as an index into HPACK's static table.
pub(crate) const STATUS_200: &[u8] = &[0x88];
/// `:status: 103`, as a literal.
pub(crate) const STATUS_103: &[u8] = b"\x08\x03103";
/// `:status: 103`, as a literal that becomes the newest entry of HPACK's dynamic table.
pub(crate) const INDEXED_STATUS_103: &[u8] = b"\x48\x03103";

/// The stream of the first request on a connection.
pub(crate) const FIRST_STREAM: u32 = 1;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Builds a HEADERS frame that contains a whole header block.
pub(crate) fn headers(flags: u8, stream: u32, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, stream, block)
}

pub(crate) fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let value = |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(SETTINGS, 0, 0, &values.iter().flat_map(value).collect::<Vec<_>>())
}

pub(crate) fn goaway(last_stream: u32, error: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last_stream.to_be_bytes(), error.to_be_bytes()].concat())
}

pub(crate) fn rst_stream(stream: u32, error: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &error.to_be_bytes())
}

pub(crate) fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

/// Encodes a header as a literal that is not added to the dynamic table.
pub(crate) fn literal(name: &str, value: &str) -> Vec<u8> {
    [&[0x00][..], &encode_string(name), &encode_string(value)].concat()
}

/// Encodes a header as a literal that becomes the newest entry of the dynamic table.
pub(crate) fn indexed_literal(name: &str, value: &str) -> Vec<u8> {
    [&[0x40][..], &encode_string(name), &encode_string(value)].concat()
}

/// Index of the newest entry of the dynamic table: a whole header in one byte.
pub(crate) const NEWEST_ENTRY: u8 = 0x80 | 62;

/// Encodes an HPACK string: its length in groups of seven bits, then its bytes.
fn encode_string(text: &str) -> Vec<u8> {
    let low = |length: usize| u8::try_from(length & 0x7f).unwrap();
    let length = match text.len() {
        short @ 0..0x7f => vec![low(short)],
        long => {
            let rest = long - 0x7f;
            assert!(rest < 1 << 14, "the headers of these tests have lengths of at most two groups");
            vec![0x7f, 0x80 | low(rest), low(rest >> 7)]
        }
    };
    [&length[..], text.as_bytes()].concat()
}
