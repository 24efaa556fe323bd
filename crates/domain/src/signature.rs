//! Standard Webhooks signatures, symmetric version 1.
//!
//! A request is signed as `id.timestamp.body` with HMAC-SHA256 under every secret that is valid now, newest first;
//! a receiver accepts it if any of them matches. Old signatures are refused by their timestamp, wrong ones by a
//! comparison whose time does not depend on where they differ.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::{EventId, Timestamp};

/// How far a receiver lets a request's timestamp lie from its own clock.
pub const TOLERANCE_DEFAULT: Duration = Duration::from_secs(300);

const PREFIX: &str = "whsec_";
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
const SIGNATURE_BYTES: usize = 32;
/// Secrets valid at once, and signatures of one header that are looked at.
const SIGNATURES_MAX: usize = 16;

/// A key shared with receivers. Shown by nothing, wiped when dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSecret {
    #[error("a signing secret must start with {PREFIX:?}")]
    Prefix,
    #[error("a signing secret must be base64 after {PREFIX:?}")]
    Base64,
    #[error("a signing secret must hold 24 to 64 bytes, this one holds {0}")]
    Length(usize),
    #[error("1 to {SIGNATURES_MAX} signing secrets can be valid at once, got {0}")]
    Count(usize),
}

impl Secret {
    /// Reads `whsec_` and the base64 of 24 to 64 bytes.
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        let encoded = text.strip_prefix(PREFIX).ok_or(InvalidSecret::Prefix)?;
        Self::from_bytes(BASE64.decode(encoded).map_err(|_| InvalidSecret::Base64)?)
    }

    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, InvalidSecret> {
        let bytes = Zeroizing::new(bytes);
        if KEY_BYTES.contains(&bytes.len()) {
            Ok(Self(bytes))
        } else {
            Err(InvalidSecret::Length(bytes.len()))
        }
    }

    /// The text a receiver is given.
    pub fn reveal(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{PREFIX}{}", BASE64.encode(&*self.0)))
    }

    fn mac(&self, id: &str, timestamp: i64, body: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        mac.update(id.as_bytes());
        mac.update(b".");
        mac.update(timestamp.to_string().as_bytes());
        mac.update(b".");
        mac.update(body);
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The secrets that are valid now, newest first. More than one while they are being rotated.
#[derive(Debug, Clone)]
pub struct SigningKeys(Vec<Secret>);

impl SigningKeys {
    pub fn new(secrets: Vec<Secret>) -> Result<Self, InvalidSecret> {
        match secrets.len() {
            1..=SIGNATURES_MAX => Ok(Self(secrets)),
            count => Err(InvalidSecret::Count(count)),
        }
    }

    /// Newest first.
    pub fn secrets(&self) -> &[Secret] {
        &self.0
    }

    /// The value of `webhook-signature`: one `v1,…` per secret, separated by spaces.
    pub fn sign(&self, id: &EventId, at: Timestamp, body: &[u8]) -> String {
        let signature =
            |secret: &Secret| format!("v1,{}", BASE64.encode(secret.mac(id.as_str(), at.as_secs(), body)));
        self.0.iter().map(signature).collect::<Vec<_>>().join(" ")
    }

    /// Checks a request as a receiver would, from its three headers and its exact body.
    pub fn verify(
        &self,
        headers: SignedHeaders<'_>,
        body: &[u8],
        now: Timestamp,
        tolerance: Duration,
    ) -> Result<(), VerifyError> {
        if headers.id.is_empty() || headers.id.contains('.') {
            return Err(VerifyError::MalformedId);
        }
        let timestamp = parse_timestamp(headers.timestamp)?;
        let skew = now.as_secs().abs_diff(timestamp);
        if skew > tolerance.as_secs() {
            return Err(VerifyError::Timestamp { skew: Duration::from_secs(skew) });
        }
        let offered = signatures(headers.signature);
        if offered.is_empty() {
            return Err(VerifyError::NoSignature);
        }
        // No early exit: which secret or signature matched shows in nobody's clock.
        let mut matched = subtle::Choice::from(0);
        for secret in &self.0 {
            let expected = secret.mac(headers.id, timestamp, body);
            for signature in &offered {
                matched |= expected.ct_eq(signature);
            }
        }
        if bool::from(matched) { Ok(()) } else { Err(VerifyError::Mismatch) }
    }
}

/// What a request claims about itself.
#[derive(Debug, Clone, Copy)]
pub struct SignedHeaders<'a> {
    pub id: &'a str,
    pub timestamp: &'a str,
    pub signature: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    #[error("webhook-id is empty or holds a full stop, so what was signed under it is ambiguous")]
    MalformedId,
    #[error("webhook-timestamp is not a whole number of seconds")]
    MalformedTimestamp,
    #[error("webhook-timestamp lies {skew:?} from this clock, outside the tolerance")]
    Timestamp { skew: Duration },
    #[error("webhook-signature holds no well-formed v1 signature")]
    NoSignature,
    #[error("no signature matches: wrong secret, or the body was changed on the way")]
    Mismatch,
}

/// Digits only: what was signed is this very text, so no other spelling of the number may pass.
fn parse_timestamp(text: &str) -> Result<i64, VerifyError> {
    let canonical = text.bytes().all(|b| b.is_ascii_digit()) && !(text.len() > 1 && text.starts_with('0'));
    text.parse().ok().filter(|_| canonical).ok_or(VerifyError::MalformedTimestamp)
}

/// The well-formed `v1` signatures of a header. Other versions, bad base64 and other lengths are passed over.
fn signatures(header: &str) -> Vec<[u8; SIGNATURE_BYTES]> {
    header
        .split(' ')
        .take(SIGNATURES_MAX)
        .filter_map(|part| part.strip_prefix("v1,"))
        .filter_map(|encoded| BASE64.decode(encoded).ok()?.try_into().ok())
        .collect()
}
