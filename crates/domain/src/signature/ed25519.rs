//! Standard Webhooks signatures, asymmetric version 1a: Ed25519.
//!
//! A receiver verifies with the public key and cannot sign with it, so it cannot forge requests to itself or to others.

use std::fmt;
use std::time::Duration;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::{InvalidSecret, SIGNATURES_MAX, SignedHeaders, VerifyError, check_timestamp};

/// Prefix of a private key in its text form.
pub(super) const PRIVATE_PREFIX: &str = "whsk_";
/// Prefix of a public key in its text form.
pub(super) const PUBLIC_PREFIX: &str = "whpk_";
const SEED_BYTES: usize = 32;
const PUBLIC_KEY_BYTES: usize = 32;
const SIGNATURE_BYTES: usize = 64;

/// A private Ed25519 key. `Debug` hides it, and its seed is wiped on drop.
pub struct Ed25519Key {
    seed: Zeroizing<[u8; SEED_BYTES]>,
    pair: Ed25519KeyPair,
}

impl Ed25519Key {
    /// Builds a key from its seed, which the caller draws.
    pub fn from_seed(seed: [u8; SEED_BYTES]) -> Self {
        let seed = Zeroizing::new(seed);
        let pair = Ed25519KeyPair::from_seed_unchecked(&*seed).expect("every seed of 32 bytes has a key");
        Self { seed, pair }
    }

    /// Parses the text form: `whsk_` and the base64 of the seed, which the public key may follow.
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        let encoded = text.strip_prefix(PRIVATE_PREFIX).ok_or(InvalidSecret::Prefix)?;
        let bytes = Zeroizing::new(BASE64.decode(encoded).map_err(|_| InvalidSecret::Base64)?);
        let (seed, public) = bytes.split_at_checked(SEED_BYTES).ok_or(InvalidSecret::PrivateKey)?;
        let key = Self::from_seed(seed.try_into().expect("the length is that of a seed"));
        let is_whole = public.is_empty() || public == key.pair.public_key().as_ref();
        if is_whole { Ok(key) } else { Err(InvalidSecret::PrivateKey) }
    }

    /// Returns the private key in its text form, with the public key as its second half.
    pub fn reveal(&self) -> Zeroizing<String> {
        let bytes = Zeroizing::new([&self.seed[..], self.pair.public_key().as_ref()].concat());
        Zeroizing::new(format!("{PRIVATE_PREFIX}{}", BASE64.encode(&*bytes)))
    }

    /// Returns the key with which a receiver verifies.
    pub fn public_key(&self) -> Ed25519PublicKey {
        let bytes = self.pair.public_key().as_ref();
        Ed25519PublicKey(bytes.try_into().expect("an Ed25519 public key has 32 bytes"))
    }

    /// Signs one request.
    pub(super) fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let signature = self.pair.sign(&signed_text(id, timestamp, body));
        signature.as_ref().try_into().expect("an Ed25519 signature has 64 bytes")
    }
}

/// Returns the text that is signed: `id.timestamp.body`.
fn signed_text(id: &str, timestamp: i64, body: &[u8]) -> Vec<u8> {
    let mut text = format!("{id}.{timestamp}.").into_bytes();
    text.extend_from_slice(body);
    text
}

impl Clone for Ed25519Key {
    fn clone(&self) -> Self {
        Self::from_seed(*self.seed)
    }
}

/// Compares in constant time, so that the duration does not reveal how much of two keys agrees.
impl PartialEq for Ed25519Key {
    fn eq(&self, other: &Self) -> bool {
        self.seed.ct_eq(&*other.seed).into()
    }
}

impl Eq for Ed25519Key {}

impl fmt::Debug for Ed25519Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ed25519Key(…)")
    }
}

/// A public Ed25519 key, which a receiver has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ed25519PublicKey([u8; PUBLIC_KEY_BYTES]);

impl Ed25519PublicKey {
    /// Parses the text form: `whpk_` and the base64 of 32 bytes.
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        let encoded = text.strip_prefix(PUBLIC_PREFIX).ok_or(InvalidSecret::Prefix)?;
        let bytes = BASE64.decode(encoded).map_err(|_| InvalidSecret::Base64)?;
        bytes.try_into().map(Self).map_err(|_| InvalidSecret::PublicKey)
    }

    /// Verifies a request as a receiver does, from its three headers and its exact body.
    pub fn verify(
        &self,
        headers: SignedHeaders<'_>,
        body: &[u8],
        now: crate::Timestamp,
        tolerance: Duration,
    ) -> Result<(), VerifyError> {
        let timestamp = check_timestamp(headers, now, tolerance)?;
        let signatures = parse_signatures(headers.signature);
        if signatures.is_empty() {
            return Err(VerifyError::NoSignature);
        }
        let text = signed_text(headers.id, timestamp, body);
        let key = UnparsedPublicKey::new(&ED25519, self.0);
        let is_signed = signatures.iter().any(|signature| key.verify(&text, signature).is_ok());
        if is_signed { Ok(()) } else { Err(VerifyError::Mismatch) }
    }
}

impl fmt::Display for Ed25519PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC_PREFIX}{}", BASE64.encode(self.0))
    }
}

/// Parses the `v1a` signatures of a header. It skips other versions, invalid base64 and other lengths.
fn parse_signatures(header: &str) -> Vec<[u8; SIGNATURE_BYTES]> {
    header
        .split(' ')
        .take(SIGNATURES_MAX)
        .filter_map(|part| part.strip_prefix("v1a,"))
        .filter_map(|encoded| BASE64.decode(encoded).ok()?.try_into().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::{EndpointKeys, EndpointSecret, TOLERANCE_DEFAULT};
    use crate::{EventId, Timestamp};

    const NOW: Timestamp = Timestamp::from_secs(1_614_265_330);

    #[test]
    fn a_key_is_read_from_its_text_with_and_without_its_public_half() {
        let key = Ed25519Key::from_seed([7; 32]);
        assert_eq!(Ed25519Key::parse(&key.reveal()), Ok(key.clone()));
        let seed_only = format!("whsk_{}", BASE64.encode([7; 32]));
        assert_eq!(Ed25519Key::parse(&seed_only), Ok(key.clone()));
        let public = key.public_key();
        assert_eq!(Ed25519PublicKey::parse(&public.to_string()), Ok(public));
        let other_half = [&[7; 32][..], Ed25519Key::from_seed([8; 32]).pair.public_key().as_ref()].concat();
        let mixed = format!("whsk_{}", BASE64.encode(other_half));
        assert_eq!(Ed25519Key::parse(&mixed), Err(InvalidSecret::PrivateKey));
        assert_eq!(Ed25519Key::parse("whsk_AAAA"), Err(InvalidSecret::PrivateKey));
        assert_eq!(Ed25519PublicKey::parse("whpk_AAAA"), Err(InvalidSecret::PublicKey));
        assert_eq!(format!("{key:?}"), "Ed25519Key(…)");
    }

    #[test]
    fn the_public_key_verifies_what_the_private_key_signed_and_nothing_else() {
        let key = Ed25519Key::from_seed([7; 32]);
        let keys = EndpointKeys::new(vec![EndpointSecret::Ed25519(key.clone())]).unwrap();
        let id = EventId::new("msg_1").unwrap();
        let signature = keys.signature(&id, NOW, b"{}").to_string();
        assert!(signature.starts_with("v1a,"), "{signature}");
        let timestamp = NOW.as_secs().to_string();
        let headers = SignedHeaders { id: "msg_1", timestamp: &timestamp, signature: &signature };
        let verify = |headers, body: &[u8]| key.public_key().verify(headers, body, NOW, TOLERANCE_DEFAULT);
        assert_eq!(verify(headers, b"{}"), Ok(()));
        assert_eq!(verify(headers, b"{ }"), Err(VerifyError::Mismatch));
        assert_eq!(verify(SignedHeaders { id: "msg_2", ..headers }, b"{}"), Err(VerifyError::Mismatch));
        assert_eq!(
            verify(SignedHeaders { signature: "v1,AAAA", ..headers }, b"{}"),
            Err(VerifyError::NoSignature)
        );
        let other = Ed25519Key::from_seed([8; 32]).public_key();
        assert_eq!(other.verify(headers, b"{}", NOW, TOLERANCE_DEFAULT), Err(VerifyError::Mismatch));
    }

    #[test]
    fn the_first_vector_of_rfc_8032_is_reproduced() {
        let seed = [
            0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4,
            0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
        ];
        let public = Ed25519Key::from_seed(seed).public_key();
        assert_eq!(public.0[..8], [0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7]);
    }
}
