//! Signatures compared with the published test vector and with an independent implementation.

use std::time::Duration;

use posthaste_domain::signature::{
    InvalidSecret, Secret, SignedHeaders, SigningKeys, TOLERANCE_DEFAULT, VerifyError,
};
use posthaste_domain::{EventId, Timestamp};
use proptest::prelude::*;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const AT: i64 = 1_614_265_330;
const BODY: &[u8] = br#"{"test": 2432232314}"#;
const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

fn keys(secrets: &[&str]) -> SigningKeys {
    let secrets = secrets.iter().map(|secret| Secret::parse(secret).expect("a well-formed secret")).collect();
    SigningKeys::new(secrets).expect("at least one secret")
}

fn check(secrets: &[&str], timestamp: &str, signature: &str, now: i64) -> Result<(), VerifyError> {
    let headers = SignedHeaders { id: ID, timestamp, signature };
    keys(secrets).verify(headers, BODY, Timestamp::from_secs(now), TOLERANCE_DEFAULT)
}

#[test]
fn published_test_vector_is_reproduced() {
    let signature = keys(&[SECRET]).sign(&EventId::new(ID).unwrap(), Timestamp::from_secs(AT), BODY);
    assert_eq!(signature, SIGNATURE);
    assert_eq!(check(&[SECRET], &AT.to_string(), SIGNATURE, AT), Ok(()));
}

#[test]
fn during_rotation_receivers_with_either_secret_accept() {
    let both = keys(&[OTHER, SECRET]).sign(&EventId::new(ID).unwrap(), Timestamp::from_secs(AT), BODY);
    assert_eq!(both.split(' ').count(), 2);
    assert!(both.ends_with(SIGNATURE));
    let timestamp = AT.to_string();
    assert_eq!(check(&[SECRET], &timestamp, &both, AT), Ok(()));
    assert_eq!(check(&[OTHER], &timestamp, &both, AT), Ok(()));
    assert_eq!(check(&[SECRET, OTHER], &timestamp, SIGNATURE, AT), Ok(()));
    assert_eq!(check(&[OTHER], &timestamp, SIGNATURE, AT), Err(VerifyError::Mismatch));
}

#[test]
fn timestamp_must_be_within_the_tolerance_on_both_sides() {
    let timestamp = AT.to_string();
    for now in [AT - 300, AT, AT + 300] {
        assert_eq!(check(&[SECRET], &timestamp, SIGNATURE, now), Ok(()));
    }
    for now in [AT - 301, AT + 301] {
        let skew = Duration::from_secs(301);
        assert_eq!(check(&[SECRET], &timestamp, SIGNATURE, now), Err(VerifyError::Timestamp { skew }));
    }
}

#[test]
fn timestamp_that_is_not_canonical_is_refused() {
    for timestamp in ["", "soon", "+1614265330", "01614265330", " 1614265330", "1614265330.0", "-1"] {
        let refused = check(&[SECRET], timestamp, SIGNATURE, AT);
        assert_eq!(refused, Err(VerifyError::MalformedTimestamp), "{timestamp:?}");
    }
}

#[test]
fn full_stop_in_the_id_cannot_forge_another_request() {
    // Id `A` at T with body `1893456000.5` gives the same signed text as id `A.T` at 1893456000 with body `5`.
    let keys = keys(&[SECRET]);
    let signature = keys.sign(&EventId::new("A").unwrap(), Timestamp::from_secs(AT), b"1893456000.5");
    let id = format!("A.{AT}");
    let forged = SignedHeaders { id: &id, timestamp: "1893456000", signature: &signature };
    let verified = keys.verify(forged, b"5", Timestamp::from_secs(1_893_456_000), TOLERANCE_DEFAULT);
    assert_eq!(verified, Err(VerifyError::MalformedId));
}

#[test]
fn truncated_or_malformed_signatures_are_refused() {
    let encoded = SIGNATURE.strip_prefix("v1,").unwrap();
    let malformed = [
        String::new(),
        "v1,".into(),
        format!("v1,{}", &encoded[..20]),
        format!("v1,{}", &encoded[..43]),
        format!("v1,{encoded}AAAA"),
        format!("v1,{}", encoded.replace('+', "-")),
        format!("v2,{encoded}"),
        format!("v1a,{encoded}"),
        encoded.to_owned(),
        "v1,\u{1f512}".into(),
    ];
    for signature in malformed {
        let refused = check(&[SECRET], &AT.to_string(), &signature, AT);
        assert_eq!(refused, Err(VerifyError::NoSignature), "{signature:?}");
    }
}

#[test]
fn signature_with_a_flipped_bit_is_refused() {
    use base64::Engine as _;
    let base64 = base64::engine::general_purpose::STANDARD;
    let bytes = base64.decode(SIGNATURE.strip_prefix("v1,").unwrap()).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let signature = format!("v1,{}", base64.encode(flipped));
        assert_eq!(check(&[SECRET], &AT.to_string(), &signature, AT), Err(VerifyError::Mismatch));
    }
}

#[test]
fn invalid_secrets_are_refused_and_debug_output_hides_secrets() {
    let error = |text: &str| Secret::parse(text).unwrap_err();
    assert_eq!(error("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), InvalidSecret::Prefix);
    assert_eq!(error("whsec_***"), InvalidSecret::Base64);
    assert_eq!(error("whsec_c2hvcnQ="), InvalidSecret::Length(5));
    assert_eq!(SigningKeys::new(Vec::new()).unwrap_err(), InvalidSecret::Count(0));
    let seventeen = vec![Secret::parse(SECRET).unwrap(); 17];
    assert_eq!(SigningKeys::new(seventeen).unwrap_err(), InvalidSecret::Count(17));

    let secret = Secret::parse(SECRET).unwrap();
    assert_eq!(secret.reveal().as_str(), SECRET);
    assert!(!format!("{:?}", keys(&[SECRET])).contains("MfKQ"));
}

proptest! {
    #[test]
    fn signatures_match_the_reference_implementation(
        key in proptest::collection::vec(any::<u8>(), 24..=64),
        id in "[!-\\-/-~]{1,64}",
        at in 0_i64..4_000_000_000,
        body in "\\PC{0,256}",
    ) {
        let secret = Secret::from_bytes(key).unwrap();
        let reference = standardwebhooks::Webhook::new(&secret.reveal()).unwrap();
        let keys = SigningKeys::new(vec![secret]).unwrap();
        let event_id = EventId::new(&*id).unwrap();
        let at_timestamp = Timestamp::from_secs(at);

        let ours = keys.sign(&event_id, at_timestamp, body.as_bytes());
        let theirs = reference.sign(&id, at, body.as_bytes()).unwrap();
        prop_assert_eq!(&ours, &theirs);

        let timestamp = at.to_string();
        let headers = SignedHeaders { id: &id, timestamp: &timestamp, signature: &theirs };
        prop_assert_eq!(keys.verify(headers, body.as_bytes(), at_timestamp, TOLERANCE_DEFAULT), Ok(()));
    }
}
