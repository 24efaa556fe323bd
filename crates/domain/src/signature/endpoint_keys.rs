//! The keys of one destination: HMAC secrets that it shares with its receiver, or Ed25519 keys.

use std::fmt;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD as BASE64;
use zeroize::Zeroizing;

use super::ed25519::PRIVATE_PREFIX;
use super::{Ed25519Key, InvalidSecret, Secret};
use crate::{EventId, Timestamp};

/// Most keys of a destination that are valid at once: the newest one, and ten that it replaced.
pub const DESTINATION_KEYS_MAX: usize = 11;

/// How a destination's requests are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    Hmac,
    Ed25519,
}

named_variants!(KeyKind {
    Hmac => "hmac",
    Ed25519 => "ed25519",
});

/// A signing key of one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointSecret {
    /// A secret that the receiver has too.
    Hmac(Secret),
    /// A private key, of which the receiver has the public key.
    Ed25519(Ed25519Key),
}

impl EndpointSecret {
    /// Parses the text form: `whsec_` and the base64 of 24 to 75 bytes, or `whsk_` and a private key.
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        if text.starts_with(PRIVATE_PREFIX) {
            Ed25519Key::parse(text).map(Self::Ed25519)
        } else {
            Secret::parse_of_endpoint(text).map(Self::Hmac)
        }
    }

    pub const fn kind(&self) -> KeyKind {
        match self {
            Self::Hmac(_) => KeyKind::Hmac,
            Self::Ed25519(_) => KeyKind::Ed25519,
        }
    }

    /// Returns what the receiver needs: the secret itself, or the public key.
    pub fn receiver_key(&self) -> Zeroizing<String> {
        match self {
            Self::Hmac(secret) => secret.reveal(),
            Self::Ed25519(key) => Zeroizing::new(key.public_key().to_string()),
        }
    }

    /// Returns the whole key in its text form, to be sealed.
    pub fn reveal(&self) -> Zeroizing<String> {
        match self {
            Self::Hmac(secret) => secret.reveal(),
            Self::Ed25519(key) => key.reveal(),
        }
    }
}

/// The valid keys of a destination, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointKeys(Vec<EndpointSecret>);

impl EndpointKeys {
    /// Takes 1 to 11 keys, newest first.
    pub fn new(keys: Vec<EndpointSecret>) -> Result<Self, InvalidSecret> {
        match keys.len() {
            1..=DESTINATION_KEYS_MAX => Ok(Self(keys)),
            count => Err(InvalidSecret::Count(count)),
        }
    }

    /// The keys, newest first.
    pub fn keys(&self) -> &[EndpointSecret] {
        &self.0
    }

    /// Returns the value of `webhook-signature`: `v1,…` or `v1a,…` per key, separated by spaces.
    pub fn signature<'a>(&'a self, id: &'a EventId, at: Timestamp, body: &'a [u8]) -> impl fmt::Display {
        fmt::from_fn(move |f| {
            for (index, key) in self.0.iter().enumerate() {
                let separator = if index == 0 { "" } else { " " };
                match key {
                    EndpointSecret::Hmac(secret) => {
                        let mac = secret.mac(id.as_str(), at.as_secs(), body);
                        write!(f, "{separator}v1,{}", Base64Display::new(&mac, &BASE64))?;
                    }
                    EndpointSecret::Ed25519(key) => {
                        let signature = key.sign(id.as_str(), at.as_secs(), body);
                        write!(f, "{separator}v1a,{}", Base64Display::new(&signature, &BASE64))?;
                    }
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::SigningKeys;
    use base64::Engine as _;

    #[test]
    fn a_secret_of_an_endpoint_may_be_longer_than_that_of_the_instance() {
        let of = |bytes: usize| format!("whsec_{}", BASE64.encode(vec![1; bytes]));
        for bytes in [24, 64, 75] {
            assert_eq!(EndpointSecret::parse(&of(bytes)).unwrap().kind(), KeyKind::Hmac);
        }
        assert_eq!(EndpointSecret::parse(&of(23)), Err(InvalidSecret::Length(23)));
        assert_eq!(EndpointSecret::parse(&of(76)), Err(InvalidSecret::Length(76)));
        assert_eq!(Secret::parse(&of(75)), Err(InvalidSecret::Length(75)));
        assert_eq!(EndpointSecret::parse("secret"), Err(InvalidSecret::Prefix));
    }

    #[test]
    fn a_receiver_gets_a_shared_secret_or_a_public_key() {
        let hmac = EndpointSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        assert_eq!(*hmac.receiver_key(), *hmac.reveal());
        let ed25519 = EndpointSecret::Ed25519(Ed25519Key::from_seed([7; 32]));
        assert!(ed25519.receiver_key().starts_with("whpk_") && ed25519.reveal().starts_with("whsk_"));
        assert_eq!(EndpointSecret::parse(&ed25519.reveal()), Ok(ed25519));
    }

    #[test]
    fn every_key_signs_in_its_own_version() {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let ed25519 = EndpointSecret::Ed25519(Ed25519Key::from_seed([7; 32]));
        let keys = EndpointKeys::new(vec![ed25519, EndpointSecret::Hmac(secret.clone())]).unwrap();
        let id = EventId::new("msg_p5jXN8AQM9LWM0D4loKWxJek").unwrap();
        let at = Timestamp::from_secs(1_614_265_330);
        let signature = keys.signature(&id, at, b"{\"test\": 2432232314}").to_string();
        let (asymmetric, symmetric) = signature.split_once(' ').unwrap();
        assert!(asymmetric.starts_with("v1a,"));
        assert_eq!(symmetric, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let instance = SigningKeys::new(vec![secret]).unwrap();
        assert_eq!(symmetric, instance.sign(&id, at, b"{\"test\": 2432232314}"));
    }

    #[test]
    fn a_destination_has_eleven_keys_at_most() {
        let key = EndpointSecret::Ed25519(Ed25519Key::from_seed([7; 32]));
        assert!(EndpointKeys::new(vec![key.clone(); 11]).is_ok());
        assert_eq!(EndpointKeys::new(vec![key; 12]), Err(InvalidSecret::Count(12)));
        assert_eq!(EndpointKeys::new(vec![]), Err(InvalidSecret::Count(0)));
    }
}
