//! Requests to destinations with their own keys and headers, and fan-out events.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use posthaste_domain::signature::{Ed25519Key, EndpointKeys, EndpointSecret};
use posthaste_domain::{CustomHeaders, ErrorClass, EventId, Lease};
use posthaste_engine::{Profile, SharedProfiles};
use posthaste_sender::CompatHeaders;

use crate::receiver::{
    ReceivedRequest, Receiver, SECRET, lease, send, send_at, sender, sender_with_profiles,
};
use crate::request::{NOW, OTHER_SECRET, verify};

/// A lease on a fan-out event of an endpoint: its wire id is the message's.
fn fan_out_lease(receiver: &Receiver) -> Lease {
    let mut lease = lease(&receiver.url());
    lease.event_id = EventId::new("msg_p5jXN8AQM9LWM0D4loKWxJek-17").unwrap();
    lease.profile_version = 3;
    lease
}

fn endpoint_keys(secrets: &[EndpointSecret]) -> EndpointKeys {
    EndpointKeys::new(secrets.to_vec()).unwrap()
}

fn hmac(text: &str) -> EndpointSecret {
    EndpointSecret::parse(text).unwrap()
}

fn no_headers() -> CustomHeaders {
    CustomHeaders::default()
}

/// Sends one request with this profile, and returns it as the receiver read it.
async fn request_with(profile: Profile, compat: CompatHeaders) -> ReceivedRequest {
    let receiver = Receiver::accepting().await;
    let profiles = SharedProfiles::default();
    let sender = sender_with_profiles(&[SECRET], profiles.clone(), |options| options.compat_headers = compat);
    let lease = fan_out_lease(&receiver);
    let _held = profiles.hold(&lease, Arc::new(profile));
    assert_eq!(send(&sender, &lease).await.http_status(), Some(200));
    receiver.requests().remove(0)
}

#[tokio::test]
async fn the_wire_id_is_sent_and_signed_and_the_event_id_is_the_idempotency_key() {
    let keys = endpoint_keys(&[hmac(OTHER_SECRET)]);
    let request = request_with(Profile::new(3, Some(keys), no_headers()), CompatHeaders::None).await;
    assert_eq!(request.header("webhook-id"), Some("msg_p5jXN8AQM9LWM0D4loKWxJek"));
    assert_eq!(request.header("idempotency-key"), Some("msg_p5jXN8AQM9LWM0D4loKWxJek-17"));
    verify(&request, OTHER_SECRET).unwrap();
    assert!(verify(&request, SECRET).is_err(), "the instance's secret signs no request of an endpoint");
    assert_eq!(request.header("svix-id"), None);
}

#[tokio::test]
async fn all_valid_keys_of_a_destination_sign_newest_first() {
    let keys = endpoint_keys(&[hmac(OTHER_SECRET), hmac(SECRET)]);
    let request = request_with(Profile::new(3, Some(keys), no_headers()), CompatHeaders::None).await;
    verify(&request, OTHER_SECRET).unwrap();
    verify(&request, SECRET).unwrap();
    assert_eq!(request.header("webhook-signature").unwrap().matches("v1,").count(), 2);
}

#[tokio::test]
async fn a_longer_secret_of_an_endpoint_is_verified_by_the_standard_webhooks_library() {
    let long = format!("whsec_{}", BASE64.encode([5; 75]));
    let keys = endpoint_keys(&[hmac(&long)]);
    let request = request_with(Profile::new(3, Some(keys), no_headers()), CompatHeaders::None).await;
    verify(&request, &long).unwrap();
}

#[tokio::test]
async fn an_independent_library_verifies_the_ed25519_signature_with_the_public_key() {
    let key = Ed25519Key::from_seed([7; 32]);
    let public = key.public_key().to_string();
    let keys = endpoint_keys(&[EndpointSecret::Ed25519(key), hmac(OTHER_SECRET)]);
    let request = request_with(Profile::new(3, Some(keys), no_headers()), CompatHeaders::None).await;
    let header = |name| request.header(name).unwrap();
    let (asymmetric, symmetric) = header("webhook-signature").split_once(' ').unwrap();
    assert!(symmetric.starts_with("v1,"), "{symmetric}");
    let signature = BASE64.decode(asymmetric.strip_prefix("v1a,").unwrap()).unwrap();
    let public = BASE64.decode(public.strip_prefix("whpk_").unwrap()).unwrap();
    let mut text = format!("{}.{}.", header("webhook-id"), header("webhook-timestamp")).into_bytes();
    text.extend_from_slice(&request.body);
    let public = ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, public);
    public.verify(&text, &signature).unwrap();
    text.push(b' ');
    assert!(public.verify(&text, &signature).is_err(), "another text has another signature");
    verify(&request, OTHER_SECRET).unwrap();
}

#[tokio::test]
async fn custom_headers_are_added_after_those_of_the_request() {
    let pairs = [("Authorization", "Bearer hunter2"), ("X-Team", "a: b"), ("X-Empty", "")];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let headers = CustomHeaders::new(pairs).unwrap();
    let request = request_with(Profile::new(3, None, headers), CompatHeaders::None).await;
    assert_eq!(request.header("authorization"), Some("Bearer hunter2"));
    assert_eq!(request.header("x-team"), Some("a: b"));
    assert_eq!(request.header("x-empty"), Some(""));
    let position = |name: &str| request.headers.iter().position(|(other, _)| other == name).unwrap();
    assert!(position("authorization") > position("webhook-signature"));
    verify(&request, SECRET).unwrap();
}

#[tokio::test]
async fn compatibility_headers_repeat_the_three_values_and_change_nothing_else() {
    let keys = endpoint_keys(&[hmac(OTHER_SECRET)]);
    let request = request_with(Profile::new(3, Some(keys), no_headers()), CompatHeaders::Svix).await;
    for name in ["id", "timestamp", "signature"] {
        let [ours, theirs] = ["webhook", "svix"].map(|prefix| format!("{prefix}-{name}"));
        assert!(request.header(&theirs).is_some(), "{theirs}");
        assert_eq!(request.header(&theirs), request.header(&ours), "{theirs}");
    }
    assert_eq!(request.headers.len(), 13, "{:?}", request.headers);
    verify(&request, OTHER_SECRET).unwrap();
}

#[tokio::test]
async fn a_request_of_an_endpoint_is_never_signed_with_the_keys_of_the_instance_for_lack_of_its_own() {
    let receiver = Receiver::accepting().await;
    let sender = sender(&[SECRET], |_| ());
    let lease = fan_out_lease(&receiver);
    let outcome = send_at(&sender, &lease, NOW).await;
    assert_eq!(outcome.error_class(), Some(ErrorClass::Unsendable), "{outcome:?}");
    assert_eq!(receiver.connections().opened(), 0);
}
