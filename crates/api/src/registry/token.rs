//! Tokens: JSON Web Tokens under the secret of the instance, signed with HMAC-SHA256.
//!
//! Only this algorithm is accepted, whatever the header of a token names. A token names an organisation, or one application of
//! it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use hmac::{Hmac, KeyInit as _, Mac as _};
use posthaste_domain::{ApplicationId, OrgId, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::permission::{Permission, PermissionSet};

/// Shortest secret, in bytes: as long as the HMAC.
const SECRET_LEN_MIN: usize = 32;
/// Longest token, in bytes.
const TOKEN_LEN_MAX: usize = 8 << 10;
/// How far the issuer's clock may be ahead of the store's.
const CLOCK_SKEW_SECONDS: f64 = 30.0;
const ALGORITHM: &str = "HS256";

/// The secret under which tokens are signed. `Debug` hides it.
pub struct TokenSecret(Zeroizing<Vec<u8>>);

/// The secret of the tokens is too short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a secret for tokens must have at least {SECRET_LEN_MIN} bytes, this one has {0}")]
pub struct InvalidTokenSecret(usize);

/// What a token says about its bearer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenClaims {
    pub org: OrgId,
    /// The application to which the bearer is bound. `None` for the whole organisation.
    pub app: Option<ApplicationId>,
    /// `None` for all permissions of an organisation, or of an application's user.
    pub permissions: Option<PermissionSet>,
    pub issued_at: Timestamp,
    pub expires_at: Timestamp,
}

/// Why a token was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("the token is not a JSON Web Token signed with HS256")]
    Form,
    #[error("the signature of the token is wrong")]
    Signature,
    #[error("the token has expired, or does not say when it expires")]
    Expired,
    #[error("the token is not valid yet")]
    NotYetValid,
    #[error(
        "the token must name an organisation in sub, or an application in sub and its organisation in org"
    )]
    Subject,
}

#[derive(Serialize, Deserialize)]
struct Header<'a> {
    alg: &'a str,
    #[serde(skip_deserializing)]
    typ: &'a str,
}

#[derive(Serialize, Deserialize)]
struct Payload {
    #[serde(default)]
    iss: Option<String>,
    #[serde(default)]
    sub: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    org: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    permissions: Option<Vec<String>>,
    #[serde(default)]
    iat: Option<f64>,
    #[serde(default)]
    nbf: Option<f64>,
    #[serde(default)]
    exp: Option<f64>,
}

impl TokenSecret {
    /// Takes a secret of at least 32 bytes.
    pub fn new(text: &str) -> Result<Self, InvalidTokenSecret> {
        match text.len() {
            SECRET_LEN_MIN.. => Ok(Self(Zeroizing::new(text.as_bytes().to_vec()))),
            len => Err(InvalidTokenSecret(len)),
        }
    }

    /// Signs a token.
    pub fn sign(&self, claims: &TokenClaims) -> Zeroizing<String> {
        let seconds = |at: Timestamp| Some(as_f64(at.as_secs()));
        let (sub, org) = match claims.app {
            Some(app) => (app.to_string(), Some(claims.org.to_string())),
            None => (claims.org.to_string(), None),
        };
        let names = |set: &PermissionSet| set.iter().map(|one| one.as_str().to_owned()).collect();
        let payload = Payload {
            iss: Some("posthaste".to_owned()),
            sub,
            org,
            permissions: claims.permissions.as_ref().map(names),
            iat: seconds(claims.issued_at),
            nbf: seconds(claims.issued_at),
            exp: seconds(claims.expires_at),
        };
        let encode = |json: serde_json::Result<Vec<u8>>| {
            BASE64URL.encode(json.expect("texts and finite numbers always serialize"))
        };
        let header = encode(serde_json::to_vec(&Header { alg: ALGORITHM, typ: "JWT" }));
        let signed = format!("{header}.{}", encode(serde_json::to_vec(&payload)));
        let signature = BASE64URL.encode(self.mac(&signed).finalize().into_bytes());
        Zeroizing::new(format!("{signed}.{signature}"))
    }

    /// Verifies a token at a time of the store's clock.
    pub(crate) fn verify(&self, token: &[u8], now: Timestamp) -> Result<TokenClaims, TokenError> {
        let token = std::str::from_utf8(token).ok().filter(|token| token.len() <= TOKEN_LEN_MAX);
        let (signed, signature) = token.and_then(|token| token.rsplit_once('.')).ok_or(TokenError::Form)?;
        let (header, payload) = signed.split_once('.').ok_or(TokenError::Form)?;
        let decode = |part: &str| BASE64URL.decode(part).map_err(|_| TokenError::Form);
        self.mac(signed).verify_slice(&decode(signature)?).map_err(|_| TokenError::Signature)?;
        let header = decode(header)?;
        let header: Header<'_> = serde_json::from_slice(&header).map_err(|_| TokenError::Form)?;
        if header.alg != ALGORITHM {
            return Err(TokenError::Form);
        }
        let payload: Payload = serde_json::from_slice(&decode(payload)?).map_err(|_| TokenError::Form)?;
        payload.check(as_f64(now.as_micros()) / 1e6)
    }

    fn mac(&self, signed: &str) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC accepts a key of any length");
        mac.chain_update(signed.as_bytes())
    }
}

impl Payload {
    fn check(self, now: f64) -> Result<TokenClaims, TokenError> {
        let expires_at = self.exp.filter(|exp| *exp > now).ok_or(TokenError::Expired)?;
        if self.nbf.is_some_and(|nbf| nbf > now + CLOCK_SKEW_SECONDS) {
            return Err(TokenError::NotYetValid);
        }
        let (org, app) = match &self.org {
            None => (&self.sub, None),
            Some(org) => (org, Some(ApplicationId::parse(&self.sub).ok_or(TokenError::Subject)?)),
        };
        let permissions = self.permissions.map(|names| {
            names.iter().filter_map(|name| Permission::from_name(name)).collect::<PermissionSet>()
        });
        Ok(TokenClaims {
            org: OrgId::new(org).map_err(|_| TokenError::Subject)?,
            app,
            permissions,
            issued_at: from_f64(self.iat.unwrap_or(0.0)),
            expires_at: from_f64(expires_at),
        })
    }
}

/// Returns whether a bearer's text has the form of a token, rather than that of an API key.
pub(crate) fn is_token(text: &[u8]) -> bool {
    text.starts_with(b"eyJ") && text.iter().filter(|byte| **byte == b'.').count() == 2
}

#[expect(
    clippy::cast_precision_loss,
    reason = "times of tokens are in seconds, with a precision of microseconds for centuries"
)]
fn as_f64(number: i64) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a time outside of the range is shown as its nearest end"
)]
fn from_f64(seconds: f64) -> Timestamp {
    Timestamp::from_secs(seconds.clamp(0.0, 1e12) as i64)
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

    fn secret() -> TokenSecret {
        TokenSecret::new("0123456789abcdef0123456789abcdef").unwrap()
    }

    fn claims(app: Option<ApplicationId>) -> TokenClaims {
        TokenClaims {
            org: OrgId::new("org_a").unwrap(),
            app,
            permissions: app.map(|_| PermissionSet::read_only()),
            issued_at: NOW,
            expires_at: Timestamp::from_secs(NOW.as_secs() + 60),
        }
    }

    /// A token with these JSON parts, signed by us.
    fn signed(header: &str, payload: &str) -> String {
        let signed = format!("{}.{}", BASE64URL.encode(header), BASE64URL.encode(payload));
        let signature = BASE64URL.encode(secret().mac(&signed).finalize().into_bytes());
        format!("{signed}.{signature}")
    }

    #[test]
    fn a_token_carries_its_claims_until_it_expires() {
        for claims in [claims(None), claims(Some(ApplicationId(17)))] {
            let token = secret().sign(&claims);
            assert!(is_token(token.as_bytes()));
            assert_eq!(secret().verify(token.as_bytes(), NOW), Ok(claims.clone()));
            assert_eq!(secret().verify(token.as_bytes(), claims.expires_at), Err(TokenError::Expired));
        }
    }

    #[test]
    fn a_token_of_another_secret_or_with_changed_claims_is_refused() {
        let other = TokenSecret::new("another secret of at least 32 bytes").unwrap();
        let token = other.sign(&claims(None));
        assert_eq!(secret().verify(token.as_bytes(), NOW), Err(TokenError::Signature));
        let token = secret().sign(&claims(None));
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let (header, _) = signed.split_once('.').unwrap();
        let payload = BASE64URL.encode(r#"{"sub":"org_b","exp":9999999999}"#);
        let forged = format!("{header}.{payload}.{signature}");
        assert_eq!(secret().verify(forged.as_bytes(), NOW), Err(TokenError::Signature));
    }

    #[test]
    fn only_hs256_is_accepted() {
        let payload = r#"{"sub":"org_a","exp":9999999999}"#;
        assert!(secret().verify(signed(r#"{"alg":"HS256"}"#, payload).as_bytes(), NOW).is_ok());
        for header in [r#"{"alg":"none"}"#, r#"{"alg":"HS512"}"#, "{}", "x"] {
            let token = signed(header, payload);
            assert_eq!(secret().verify(token.as_bytes(), NOW), Err(TokenError::Form), "{header}");
        }
        let unsigned = format!("{}.{}.", BASE64URL.encode(r#"{"alg":"none"}"#), BASE64URL.encode(payload));
        assert_eq!(secret().verify(unsigned.as_bytes(), NOW), Err(TokenError::Signature));
    }

    #[test]
    fn times_and_subjects_are_checked() {
        let verify = |payload: &str| {
            secret().verify(signed(r#"{"alg":"HS256","typ":"JWT"}"#, payload).as_bytes(), NOW)
        };
        assert_eq!(verify(r#"{"sub":"org_a"}"#), Err(TokenError::Expired));
        assert_eq!(verify(r#"{"sub":"org_a","exp":1700000000}"#), Err(TokenError::Expired));
        assert_eq!(verify(r#"{"sub":"org_a","exp":1e15,"nbf":1700000031}"#), Err(TokenError::NotYetValid));
        assert!(verify(r#"{"sub":"org_a","exp":1700000000.5,"nbf":1700000029}"#).is_ok());
        for payload in [
            r#"{"exp":9999999999}"#,
            r#"{"sub":"app_0000000000000011","exp":9999999999}"#,
            r#"{"sub":"org_a","org":"org_a","exp":9999999999}"#,
            r#"{"sub":"app_0000000000000011","org":"a","exp":9999999999}"#,
        ] {
            assert_eq!(verify(payload), Err(TokenError::Subject), "{payload}");
        }
    }

    #[test]
    fn a_secret_has_32_bytes_and_is_never_shown() {
        assert_eq!(TokenSecret::new("short").unwrap_err(), InvalidTokenSecret(5));
        assert_eq!(format!("{:?}", secret()), "TokenSecret(…)");
    }
}
