//! Behaviours instead of a TLS handshake, within it, and over HTTP/1.1 above it.

use crate::harness::behaviours_http1::{CHUNKED, ENDLESS, OK, STATUS};
use crate::harness::certificates::Handshake::{self, *};
use crate::harness::script::Step::{
    Close, CloseTcp, Freeze, Read, ReadSome, Reset, Serve, Silence, WriteRaw,
};
use crate::harness::script::{
    BROKEN, CERTIFICATE, CONNECT, Case, DELIVERED, ExpectedOutcome, RESET, Step, TIMEOUT, TLS, Transport,
    case, drip, flood, write,
};

/// The beginning of a full TLS record of 16 KiB, which contains the beginning of a server hello of 60000 bytes.
const RECORD: &[u8] = b"\x16\x03\x03\x40\x00\x02\x00\xea\x60";
const RECORD_REST_BYTES: usize = 0x4000 - 4;

pub(crate) fn all() -> Vec<Case> {
    [instead_of_handshakes(), certificates(), handshakes(), above_tls()].into_iter().flatten().collect()
}

/// Creates a case in which the script replaces the TLS handshake.
fn instead<const N: usize>(name: &'static str, steps: [Step; N], expected: ExpectedOutcome) -> Case {
    case(name, Transport::InsteadOfTls, steps, expected).unread()
}

/// Creates a case over TLS with this handshake.
fn over<const N: usize>(
    handshake: Handshake,
    name: &'static str,
    steps: [Step; N],
    expected: ExpectedOutcome,
) -> Case {
    case(name, Transport::Tls(handshake), steps, expected)
}

fn instead_of_handshakes() -> Vec<Case> {
    let alert = b"\x15\x03\x03\x00\x02\x02\x28";
    vec![
        instead("stalls after the client's hello", [Silence], TIMEOUT),
        instead("does not read the client's hello", [Freeze], TIMEOUT),
        instead("drips a handshake", [drip(RECORD), Silence], TIMEOUT),
        instead("stalls within a record", [write(RECORD), Silence], TIMEOUT),
        instead("garbage instead of a handshake", [write(b"\xde\xad\xbe\xef".repeat(64)), Silence], TLS),
        instead("plain HTTP on a TLS port", [write("HTTP/1.1 400 Bad Request\r\n\r\n"), Close], TLS),
        instead("a TLS alert", [write(alert), Close], TLS),
        instead("endless TLS alerts", [flood(b"\x15\x03\x03\x00\x02\x01\x5a")], TLS),
        instead("endless cipher changes", [flood(b"\x14\x03\x03\x00\x01\x01")], TLS),
        instead("endless empty records", [flood(b"\x16\x03\x03\x00\x00")], TLS),
        instead("endless hellos", [flood([RECORD, &[0; RECORD_REST_BYTES]].concat())], TLS),
        instead("resets on accept", [Reset], ExpectedOutcome::Either(&CONNECT, &TLS)),
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
        over(SelfSigned, "a self-signed certificate", [Serve], CERTIFICATE).unread(),
        over(UnknownAuthority, "a certificate by an unknown authority", [Serve], CERTIFICATE).unread(),
    ]
}

fn handshakes() -> Vec<Case> {
    vec![
        over(Http1, "valid HTTP/1.1", [Serve], DELIVERED),
        over(WithoutAlpn, "no ALPN", [Serve], DELIVERED),
        over(ForeignAlpn, "ALPN without a supported protocol", [Serve], TLS).unread(),
        over(Tls12Only, "TLS 1.2 only", [Serve], DELIVERED),
        over(
            RequiresClientCertificate,
            "requires a client certificate",
            [Serve],
            ExpectedOutcome::Either(&TLS, &RESET),
        )
        .unread(),
    ]
}

/// Behaviours over HTTP/1.1 that differ above TLS.
fn above_tls() -> Vec<Case> {
    let body = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf";
    vec![
        over(Http1, "reads the request and sends nothing", [Read, Silence], TIMEOUT),
        over(Http1, "drips its head", [Read, drip(OK)], TIMEOUT),
        over(Http1, "closes after the request", [Read, Close], RESET),
        over(Http1, "closes TCP after the request", [Read, CloseTcp], RESET),
        over(Http1, "resets after the request", [Read, Reset], RESET),
        over(Http1, "closes TCP within the head", [Read, write(STATUS), CloseTcp], RESET),
        over(Http1, "closes TCP after the response", [Read, write(OK), CloseTcp], DELIVERED),
        over(Http1, "closes TCP within the body", [Read, write(body), CloseTcp], DELIVERED),
        over(Http1, "resets within the body", [Read, write(body), Reset], DELIVERED),
        over(
            Http1,
            "closes TCP at the end of a body until close",
            [Read, write(STATUS), write("\r\nbye"), CloseTcp],
            DELIVERED,
        ),
        over(Http1, "endless headers", [Read, write(STATUS), flood("x-more: and more\r\n")], BROKEN),
        over(Http1, "a body of a terabyte", [Read, write(ENDLESS), flood("more")], DELIVERED),
        over(Http1, "endless chunks", [Read, write(CHUNKED), flood("4\r\nmore\r\n")], DELIVERED),
        over(Http1, "garbage on the TCP socket", [Read, WriteRaw(vec![0xa5; 64]), Silence], TLS),
    ]
}
