//! What a receiver may do in place of a TLS handshake, within it and above it, and how the attempt must end.

use crate::stage::behaviours_http1::{CHUNKED, ENDLESS, OK, STATUS};
use crate::stage::certificates::Handshake::{self, *};
use crate::stage::script::Step::{
    Close, Cut, Freeze, Read, ReadSome, Reset, Serve, Silence, WriteBeneathTls,
};
use crate::stage::script::{
    BROKEN, CERTIFICATE, CONNECT, Case, DELIVERED, Ending, RESET, Step, TIMEOUT, TLS, Transport, case, drip,
    flood, write,
};

/// The beginning of a full record of 16 KiB, and in it that of a server's hello of 60000 bytes.
const RECORD: &[u8] = b"\x16\x03\x03\x40\x00\x02\x00\xea\x60";
const RECORD_REST_BYTES: usize = 0x4000 - 4;

pub(crate) fn all() -> Vec<Case> {
    [in_place_of_handshakes(), certificates(), handshakes(), above_tls()].into_iter().flatten().collect()
}

fn instead<const N: usize>(name: &'static str, steps: [Step; N], ends: Ending) -> Case {
    case(name, Transport::InPlaceOfTls, steps, ends).unread()
}

fn over<const N: usize>(handshake: Handshake, name: &'static str, steps: [Step; N], ends: Ending) -> Case {
    case(name, Transport::Tls(handshake), steps, ends)
}

fn in_place_of_handshakes() -> Vec<Case> {
    let alert = b"\x15\x03\x03\x00\x02\x02\x28";
    vec![
        instead("stalls after the client's hello", [Silence], TIMEOUT),
        instead("does not read the client's hello", [Freeze], TIMEOUT),
        instead("drips a handshake", [drip(RECORD), Silence], TIMEOUT),
        instead("stalls within a record", [write(RECORD), Silence], TIMEOUT),
        instead("garbage for a handshake", [write(b"\xde\xad\xbe\xef".repeat(64)), Silence], TLS),
        instead("plain HTTP on a TLS port", [write("HTTP/1.1 400 Bad Request\r\n\r\n"), Close], TLS),
        instead("a TLS alert", [write(alert), Close], TLS),
        instead("TLS alerts without end", [flood(b"\x15\x03\x03\x00\x02\x01\x5a")], TLS),
        instead("cipher changes without end", [flood(b"\x14\x03\x03\x00\x01\x01")], TLS),
        instead("empty records without end", [flood(b"\x16\x03\x03\x00\x00")], TLS),
        instead("hellos without end", [flood([RECORD, &[0; RECORD_REST_BYTES]].concat())], TLS),
        instead("resets on accept", [Reset], Ending::Either(&CONNECT, &TLS)),
        instead("resets within the client's hello", [ReadSome, Reset], TLS),
        instead("closes on accept", [Close], TLS),
        instead("closes within a record", [write(RECORD), Close], TLS),
    ]
}

fn certificates() -> Vec<Case> {
    vec![
        over(Expired, "an expired certificate", [Serve], CERTIFICATE).unread(),
        over(NotYetValid, "a certificate that is not valid yet", [Serve], CERTIFICATE).unread(),
        over(OtherName, "a certificate for another name", [Serve], CERTIFICATE).unread(),
        over(SelfSigned, "a certificate signed by itself", [Serve], CERTIFICATE).unread(),
        over(UnknownAuthority, "a certificate by an unknown authority", [Serve], CERTIFICATE).unread(),
    ]
}

fn handshakes() -> Vec<Case> {
    vec![
        over(Http1, "HTTP/1.1 as it should be", [Serve], DELIVERED),
        over(WithoutAlpn, "no ALPN", [Serve], DELIVERED),
        over(ForeignAlpn, "ALPN without a protocol of ours", [Serve], TLS).unread(),
        over(Tls12Only, "TLS 1.2 and no other", [Serve], DELIVERED),
        over(AsksForClientCertificate, "asks for our certificate", [Serve], Ending::Either(&TLS, &RESET))
            .unread(),
    ]
}

/// The ways of HTTP/1.1 that look different through TLS.
fn above_tls() -> Vec<Case> {
    let body = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf";
    vec![
        over(Http1, "reads the request and says nothing", [Read, Silence], TIMEOUT),
        over(Http1, "drips its head", [Read, drip(OK)], TIMEOUT),
        over(Http1, "closes after the request", [Read, Close], RESET),
        over(Http1, "cuts after the request", [Read, Cut], RESET),
        over(Http1, "resets after the request", [Read, Reset], RESET),
        over(Http1, "cuts within the head", [Read, write(STATUS), Cut], RESET),
        over(Http1, "cuts after the answer", [Read, write(OK), Cut], DELIVERED),
        over(Http1, "cuts within the body", [Read, write(body), Cut], DELIVERED),
        over(Http1, "resets within the body", [Read, write(body), Reset], DELIVERED),
        over(Http1, "cuts a body until close", [Read, write(STATUS), write("\r\nbye"), Cut], DELIVERED),
        over(Http1, "headers without end", [Read, write(STATUS), flood("x-more: and more\r\n")], BROKEN),
        over(Http1, "a body of a terabyte", [Read, write(ENDLESS), flood("more")], DELIVERED),
        over(Http1, "chunks without end", [Read, write(CHUNKED), flood("4\r\nmore\r\n")], DELIVERED),
        over(Http1, "garbage beneath TLS", [Read, WriteBeneathTls(vec![0xa5; 64]), Silence], TLS),
    ]
}
