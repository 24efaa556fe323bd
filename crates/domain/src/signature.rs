//! Standard Webhooks signatures: symmetric version 1 here, asymmetric version 1a in [`Ed25519Key`].
//!
//! A request carries one HMAC-SHA256 of `id.timestamp.body` per valid secret, newest secret first. A receiver accepts
//! the request if any signature matches. Verification refuses an old timestamp and compares signatures in constant
//! time.

mod ed25519;
mod endpoint_keys;

use std::fmt::{self, Write as _};
use std::time::Duration;

use base64::Engine as _;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::{EventId, Timestamp};

pub use ed25519::{Ed25519Key, Ed25519PublicKey};
pub use endpoint_keys::{DESTINATION_KEYS_MAX, EndpointKeys, EndpointSecret, KeyKind};

/// Largest difference between the timestamp of a request and the receiver's clock, by default.
pub const TOLERANCE_DEFAULT: Duration = Duration::from_secs(300);

/// Prefix of a secret in its text form.
const PREFIX: &str = "whsec_";
/// Accepted lengths of a secret.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// Accepted lengths of a secret of one endpoint.
const ENDPOINT_KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=75;
const SIGNATURE_BYTES: usize = 32;
/// Most secrets valid at once, and most signatures of one header that are checked.
const SIGNATURES_MAX: usize = 16;

/// A signing secret shared with receivers. `Debug` hides it, and its memory is wiped on drop.
#[derive(Clone)]
pub struct Secret {
    bytes: Zeroizing<Vec<u8>>,
    /// The state of the HMAC after the key. A request continues from a copy, which is also wiped on drop.
    keyed: Hmac<Sha256>,
}

/// Why a signing secret, or a list of secrets, was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSecret {
    #[error("a signing secret must start with {PREFIX:?}")]
    Prefix,
    #[error("a signing secret must be base64 after {PREFIX:?}")]
    Base64,
    #[error("a signing secret must hold 24 to 64 bytes, or 75 for an endpoint; this one holds {0}")]
    Length(usize),
    #[error("a private key must be the base64 of a seed of 32 bytes, which its public key may follow")]
    PrivateKey,
    #[error("a public key must be the base64 of 32 bytes")]
    PublicKey,
    #[error("1 to {SIGNATURES_MAX} signing secrets can be valid at once, got {0}")]
    Count(usize),
}

impl Secret {
    /// Parses the text form: `whsec_` and the base64 of 24 to 64 bytes.
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        Self::from_bytes(decode(text)?)
    }

    /// Parses the secret of an endpoint, which may hold up to 75 bytes.
    fn parse_of_endpoint(text: &str) -> Result<Self, InvalidSecret> {
        Self::with_length(decode(text)?, &ENDPOINT_KEY_BYTES)
    }

    /// Builds a secret from its raw bytes. Refuses a length outside 24 to 64 bytes.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, InvalidSecret> {
        Self::with_length(bytes, &KEY_BYTES)
    }

    fn with_length(bytes: Vec<u8>, lengths: &std::ops::RangeInclusive<usize>) -> Result<Self, InvalidSecret> {
        let bytes = Zeroizing::new(bytes);
        if !lengths.contains(&bytes.len()) {
            return Err(InvalidSecret::Length(bytes.len()));
        }
        let keyed = Hmac::new_from_slice(&bytes).expect("HMAC accepts a key of any length");
        Ok(Self { bytes, keyed })
    }

    /// Returns the secret in its text form, to configure a receiver.
    pub fn reveal(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{PREFIX}{}", BASE64.encode(&*self.bytes)))
    }

    /// Computes the HMAC of one request.
    fn mac(&self, id: &str, timestamp: i64, body: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let mut text = MacText(self.keyed.clone());
        write!(text, "{id}.{timestamp}.").expect("an HMAC accepts all text");
        let MacText(mut mac) = text;
        mac.update(body);
        mac.finalize().into_bytes().into()
    }
}

/// Decodes the base64 of a secret's text form.
fn decode(text: &str) -> Result<Vec<u8>, InvalidSecret> {
    let encoded = text.strip_prefix(PREFIX).ok_or(InvalidSecret::Prefix)?;
    BASE64.decode(encoded).map_err(|_| InvalidSecret::Base64)
}

/// An HMAC that formatted text is added to.
struct MacText(Hmac<Sha256>);

impl fmt::Write for MacText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

/// Compares in constant time, so that the duration does not reveal how much of two secrets agrees.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.bytes.ct_eq(&other.bytes).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The valid signing secrets, newest first. There is more than one during a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKeys(Vec<Secret>);

impl SigningKeys {
    /// Takes 1 to 16 secrets, newest first.
    pub fn new(secrets: Vec<Secret>) -> Result<Self, InvalidSecret> {
        match secrets.len() {
            1..=SIGNATURES_MAX => Ok(Self(secrets)),
            count => Err(InvalidSecret::Count(count)),
        }
    }

    /// The secrets, newest first.
    pub fn secrets(&self) -> &[Secret] {
        &self.0
    }

    /// Computes the value of `webhook-signature`: one `v1,…` per secret, separated by spaces.
    pub fn sign(&self, id: &EventId, at: Timestamp, body: &[u8]) -> String {
        self.signature(id, at, body).to_string()
    }

    /// Returns the value of `webhook-signature`, to be formatted into a buffer of the caller.
    pub fn signature<'a>(&'a self, id: &'a EventId, at: Timestamp, body: &'a [u8]) -> impl fmt::Display {
        fmt::from_fn(move |f| {
            for (index, secret) in self.0.iter().enumerate() {
                let mac = secret.mac(id.as_str(), at.as_secs(), body);
                let separator = if index == 0 { "" } else { " " };
                write!(f, "{separator}v1,{}", Base64Display::new(&mac, &BASE64))?;
            }
            Ok(())
        })
    }

    /// Verifies a request as a receiver does, from its three headers and its exact body.
    pub fn verify(
        &self,
        headers: SignedHeaders<'_>,
        body: &[u8],
        now: Timestamp,
        tolerance: Duration,
    ) -> Result<(), VerifyError> {
        let timestamp = check_timestamp(headers, now, tolerance)?;
        let signatures = parse_signatures(headers.signature);
        if signatures.is_empty() {
            return Err(VerifyError::NoSignature);
        }
        // No early exit: the duration must not reveal which secret or signature matched.
        let mut matched = subtle::Choice::from(0);
        for secret in &self.0 {
            let expected = secret.mac(headers.id, timestamp, body);
            for signature in &signatures {
                matched |= expected.ct_eq(signature);
            }
        }
        if bool::from(matched) { Ok(()) } else { Err(VerifyError::Mismatch) }
    }
}

/// The three signature headers of a request, not yet verified.
#[derive(Debug, Clone, Copy)]
pub struct SignedHeaders<'a> {
    pub id: &'a str,
    pub timestamp: &'a str,
    pub signature: &'a str,
}

/// Why a signed request was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    #[error("webhook-id is empty or contains a full stop, which makes the signed text ambiguous")]
    MalformedId,
    #[error("webhook-timestamp is not a whole number of seconds")]
    MalformedTimestamp,
    #[error("webhook-timestamp lies {skew:?} from this clock, outside the tolerance")]
    Timestamp { skew: Duration },
    #[error("webhook-signature holds no well-formed signature of this version")]
    NoSignature,
    #[error("no signature matches: wrong secret, or the body was changed on the way")]
    Mismatch,
}

/// Checks the id and the timestamp of a request. Returns the timestamp.
fn check_timestamp(
    headers: SignedHeaders<'_>,
    now: Timestamp,
    tolerance: Duration,
) -> Result<i64, VerifyError> {
    if headers.id.is_empty() || headers.id.contains('.') {
        return Err(VerifyError::MalformedId);
    }
    let timestamp = parse_timestamp(headers.timestamp)?;
    let skew = now.as_secs().abs_diff(timestamp);
    match skew > tolerance.as_secs() {
        true => Err(VerifyError::Timestamp { skew: Duration::from_secs(skew) }),
        false => Ok(timestamp),
    }
}

/// Parses the timestamp. Only the canonical digits are accepted, because the signature covers this text.
fn parse_timestamp(text: &str) -> Result<i64, VerifyError> {
    let canonical = text.bytes().all(|b| b.is_ascii_digit()) && !(text.len() > 1 && text.starts_with('0'));
    text.parse().ok().filter(|_| canonical).ok_or(VerifyError::MalformedTimestamp)
}

/// Parses the `v1` signatures of a header. It skips other versions, invalid base64 and other lengths.
fn parse_signatures(header: &str) -> Vec<[u8; SIGNATURE_BYTES]> {
    header
        .split(' ')
        .take(SIGNATURES_MAX)
        .filter_map(|part| part.strip_prefix("v1,"))
        .filter_map(|encoded| BASE64.decode(encoded).ok()?.try_into().ok())
        .collect()
}
