//! Walks the whole API with the Rust SDK and verifies each delivery with the SDK's own verifier.
//!
//! Usage: sdk-walk SERVER TOKEN
#![forbid(unsafe_code)]

mod receiver;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::{DateTime, Duration, Utc};
use receiver::{Delivery, Receiver, TIMEOUT};
use serde_json::json;
use svix::api::*;
use svix::models::*;
use svix::{Error, Svix, Webhook};

const SECRET: &str = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0";
const NAME: &str = "invoice.paid.rs";
const APP: &str = "customer-rs";

static VERIFIED: AtomicUsize = AtomicUsize::new(0);

struct Walk {
    server: String,
    token: String,
    svix: Svix,
    receiver: Receiver,
    started: DateTime<Utc>,
}

fn client(server: &str, token: &str) -> Svix {
    Svix::new(
        token.to_owned(),
        Some(SvixOptions { server_url: Some(server.to_owned()), ..SvixOptions::default() }),
    )
}

/// Asserts that the server refused a call.
#[track_caller]
fn refused<T>(status: u16, code: &str, result: svix::Result<T>) {
    match result.map(drop) {
        Err(Error::Http(error)) => {
            let payload = error.payload.expect("the error has a body");
            assert_eq!((error.status.as_u16(), payload.code.as_str()), (status, code), "{}", payload.detail);
            assert!(!payload.detail.is_empty(), "an error explains itself");
        }
        other => panic!("{other:?} instead of {status} {code}"),
    }
}

/// Asserts that the server refused a value at a location of the request.
#[track_caller]
fn invalid<T>(location: [&str; 2], result: svix::Result<T>) {
    match result.map(drop) {
        Err(Error::Validation(error)) => assert_eq!(error.payload.unwrap().detail[0].loc, location),
        other => panic!("{other:?} instead of 422 at {location:?}"),
    }
}

#[track_caller]
fn verify(delivery: &Delivery, secret: &str) {
    Webhook::new(secret).unwrap().verify(&delivery.body, &delivery.headers).unwrap();
    VERIFIED.fetch_add(1, Ordering::Relaxed);
}

/// Repeats a call until it returns true.
async fn until(what: &str, mut probe: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + TIMEOUT;
    while tokio::time::Instant::now() < deadline {
        if probe().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("{what} did not happen within {TIMEOUT:?}");
}

fn message(payload: serde_json::Value) -> MessageIn {
    MessageIn::new(NAME.into(), payload)
}

fn set(name: &str) -> Option<BTreeSet<String>> {
    Some([name.to_owned()].into())
}

impl Walk {
    async fn event_types(&self) {
        let types = self.svix.event_type();
        let spare = "invoice.sent.rs";
        let schemas = json!({ "1": { "type": "object", "examples": [{ "invoice": 17 }] } });
        let paid = EventTypeIn {
            schemas: Some(schemas),
            ..EventTypeIn::new(NAME.into(), "An invoice was paid".into())
        };
        assert_eq!(types.create(paid.clone(), None).await.unwrap().name, NAME);
        refused(409, "event_type_exists", types.create(paid, None).await);
        types.upsert(spare.into(), EventTypeUpsertIn::new("An invoice was sent".into())).await.unwrap();
        let put = types.upsert(spare.into(), EventTypeUpsertIn::new("Sent".into())).await.unwrap();
        assert_eq!(put.description, "Sent");
        let patch = EventTypePatch { description: Some("Sent out".into()), ..EventTypePatch::new() };
        types.patch(spare.into(), patch).await.unwrap();
        assert_eq!(types.get(spare.into()).await.unwrap().description, "Sent out");
        let options =
            |iterator| EventTypeListOptions { limit: Some(1), iterator, ..EventTypeListOptions::default() };
        let (mut names, mut iterator) = (Vec::new(), None);
        loop {
            let page = types.list(Some(options(iterator))).await.unwrap();
            names.extend(page.data.into_iter().map(|item| item.name));
            iterator = page.iterator;
            if page.done {
                break;
            }
        }
        assert!(names.contains(&NAME.to_owned()) && names.is_sorted(), "{names:?}");
        types.delete(spare.into(), None).await.unwrap();
        let revived = types.create(EventTypeIn::new(spare.into(), "Sent".into()), None).await.unwrap();
        assert_eq!(revived.archived, Some(false), "an archived type comes back");
        types.delete(spare.into(), Some(EventTypeDeleteOptions { expunge: Some(true) })).await.unwrap();
        refused(404, "not_found", types.get(spare.into()).await);
    }

    async fn applications(&self) -> (ApplicationOut, ApplicationOut) {
        let apps = self.svix.application();
        let new = |name: &str, uid: &str| ApplicationIn {
            uid: Some(uid.into()),
            ..ApplicationIn::new(name.into())
        };
        let app = apps.create(new("Customer", APP), None).await.unwrap();
        refused(409, "conflict", apps.create(new("Another", APP), None).await);
        assert_eq!(apps.get_or_create(new("Another", APP), None).await.unwrap().id, app.id);
        let key = || Some(ApplicationCreateOptions { idempotency_key: Some("key-rs".into()) });
        let first = apps.create(ApplicationIn::new("Once".into()), key()).await.unwrap();
        let again = apps.create(ApplicationIn::new("Twice".into()), key()).await.unwrap();
        assert_eq!(again.id, first.id, "the first answer is replayed");
        assert_eq!(apps.get(APP.into()).await.unwrap().id, apps.get(app.id.clone()).await.unwrap().id);
        let other = apps.upsert("other-rs".into(), new("Other", "other-rs")).await.unwrap();
        let put = apps.upsert(other.id.clone(), new("Other 2", "other-rs")).await.unwrap();
        assert_eq!((put.id.as_str(), put.name.as_str()), (other.id.as_str(), "Other 2"));
        let patch = ApplicationPatch { name: Some("Other 3".into()), ..ApplicationPatch::new() };
        assert_eq!(apps.patch("other-rs".into(), patch).await.unwrap().name, "Other 3");
        let options = |iterator| ApplicationListOptions {
            limit: Some(2),
            iterator,
            ..ApplicationListOptions::default()
        };
        let (mut pages, mut last) = (Vec::new(), apps.list(Some(options(None))).await.unwrap());
        while !last.done {
            pages.push(last.data.iter().map(|item| item.id.clone()).collect::<Vec<_>>());
            last = apps.list(Some(options(last.iterator))).await.unwrap();
        }
        let back = apps.list(Some(options(last.prev_iterator))).await.unwrap();
        let back: Vec<_> = back.data.into_iter().map(|item| item.id).collect();
        assert_eq!(Some(&back), pages.last(), "pages backwards are those of the way forwards");
        apps.delete(first.id.clone()).await.unwrap();
        refused(404, "not_found", apps.get(first.id).await);
        let many = ApplicationListOptions { limit: Some(251), ..ApplicationListOptions::default() };
        invalid(["query", "limit"], apps.list(Some(many)).await);
        (app, other)
    }

    /// Creates the endpoints of all messages, of one event type, and of one channel.
    async fn endpoints(&self) -> (EndpointOut, EndpointOut, EndpointOut) {
        let endpoints = self.svix.endpoint();
        let new = |path: &str| EndpointIn::new(self.receiver.url(path));
        let every = EndpointIn { uid: Some("all".into()), secret: Some(SECRET.into()), ..new("/all") };
        let every = endpoints.create(APP.into(), every, None).await.unwrap();
        let typed = EndpointIn { event_types: set(NAME), ..new("/typed") };
        let typed = endpoints.create(APP.into(), typed, None).await.unwrap();
        let room = EndpointIn { channels: set("room-1"), throttle_rate: Some(100), ..new("/room") };
        let room = endpoints.create(APP.into(), room, None).await.unwrap();
        assert_eq!((typed.event_types.clone(), room.channels.clone()), (set(NAME), set("room-1")));
        let unknown = EndpointIn { event_types: set("no.such.type"), ..new("/x") };
        invalid(["body", "eventTypes"], endpoints.create(APP.into(), unknown, None).await);
        invalid(
            ["body", "url"],
            endpoints.create(APP.into(), EndpointIn::new("not a url".into()), None).await,
        );
        let taken = EndpointIn { uid: Some("all".into()), ..new("/x") };
        refused(409, "conflict", endpoints.create(APP.into(), taken, None).await);
        let listed = endpoints.list(APP.into(), None).await.unwrap();
        let ids: Vec<_> = listed.data.iter().map(|item| &item.id).collect();
        assert_eq!(ids, [&room.id, &typed.id, &every.id], "the newest first");
        let put = EndpointUpsertIn {
            uid: Some("all".into()),
            description: Some("put".into()),
            ..EndpointUpsertIn::new(self.receiver.url("/all"))
        };
        assert_eq!(endpoints.upsert(APP.into(), "all".into(), put).await.unwrap().description, "put");
        assert_eq!(self.secret("all").await, SECRET, "a replacement keeps the secret");
        let patch = EndpointPatch { description: Some("patched".into()), ..EndpointPatch::new() };
        endpoints.patch(APP.into(), "all".into(), patch).await.unwrap();
        assert_eq!(endpoints.get(APP.into(), every.id.clone()).await.unwrap().description, "patched");
        let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let headers = EndpointHeadersIn::new(pairs(&[
            ("X-Region", "eu"),
            ("X-Old", "1"),
            ("Authorization", "Bearer abc"),
        ]));
        endpoints.set_headers(APP.into(), "all".into(), headers).await.unwrap();
        let patch = EndpointHeadersPatchIn {
            delete_headers: Some(vec!["X-Old".into()]),
            ..EndpointHeadersPatchIn::new(pairs(&[("X-Team", "billing")]))
        };
        endpoints.patch_headers(APP.into(), "all".into(), patch).await.unwrap();
        let shown = endpoints.get_headers(APP.into(), "all".into()).await.unwrap();
        assert_eq!(shown.headers, pairs(&[("X-Region", "eu"), ("X-Team", "billing")]));
        assert!(shown.sensitive.contains("Authorization"));
        (every, typed, room)
    }

    async fn secret(&self, endpoint: &str) -> String {
        self.svix.endpoint().get_secret(APP.into(), endpoint.into()).await.unwrap().key
    }

    async fn publish(&self, message: MessageIn) -> MessageOut {
        self.svix.message().create(APP.into(), message, None).await.unwrap()
    }

    async fn messages(&self, (every, typed, room): &(EndpointOut, EndpointOut, EndpointOut)) {
        let messages = self.svix.message();
        let key =
            || Some(MessageCreateOptions { idempotency_key: Some("msg-rs".into()), ..Default::default() });
        let named = |n: u32| MessageIn { event_id: Some("invoice-1".into()), ..message(json!({ "n": n })) };
        let first = messages.create(APP.into(), named(1), key()).await.unwrap();
        assert_eq!(messages.create(APP.into(), named(9), key()).await.unwrap().id, first.id);
        refused(409, "conflict", messages.create(APP.into(), named(1), None).await);
        let at_all = self.receiver.wait_for("/all", &first.id, 1).await;
        verify(&at_all, SECRET);
        assert_eq!(at_all.headers["x-team"], "billing");
        let at_typed = self.receiver.wait_for("/typed", &first.id, 1).await;
        let secret = self.secret(&typed.id).await;
        verify(&at_typed, &secret);
        assert!(Webhook::new(SECRET).unwrap().verify(&at_typed.body, &at_typed.headers).is_err());
        let other = MessageIn {
            channels: set("room-1"),
            tags: set("t"),
            ..MessageIn::new("other.type".into(), json!({ "n": 2 }))
        };
        let other = self.publish(other).await;
        verify(&self.receiver.wait_for("/all", &other.id, 1).await, SECRET);
        verify(&self.receiver.wait_for("/room", &other.id, 1).await, &self.secret(&room.id).await);
        assert!(
            self.receiver.of("/typed", &other.id).is_empty()
                && self.receiver.of("/room", &first.id).is_empty()
        );
        assert_eq!(messages.get(APP.into(), "invoice-1".into(), None).await.unwrap().id, first.id);
        let filter = MessageListOptions {
            event_types: Some([NAME.into()].into()),
            before: Some(Utc::now()),
            after: Some(self.started),
            ..MessageListOptions::default()
        };
        let found = messages.list(APP.into(), Some(filter)).await.unwrap();
        assert_eq!(found.data.iter().map(|one| &one.id).collect::<Vec<_>>(), [&first.id]);
        let inline = ApplicationIn { uid: Some("inline-rs".into()), ..ApplicationIn::new("Inline".into()) };
        let inline = MessageIn { application: Some(inline), ..message(json!({})) };
        messages.create("inline-rs".into(), inline, None).await.unwrap();
        assert_eq!(self.svix.application().get("inline-rs".into()).await.unwrap().name, "Inline");
        self.attempts(&first, &other, every, typed, &secret).await;
    }

    async fn attempts(
        &self,
        first: &MessageOut,
        other: &MessageOut,
        every: &EndpointOut,
        typed: &EndpointOut,
        secret: &str,
    ) {
        let attempts = self.svix.message_attempt();
        let mut listed = Vec::new();
        until("the attempts", async || {
            listed = attempts.list_by_msg(APP.into(), first.id.clone(), None).await.unwrap().data;
            listed.len() == 2
        })
        .await;
        assert!(
            listed.iter().all(|one| one.status == MessageStatus::Success && one.response_status_code == 200)
        );
        let one = attempts.get(APP.into(), first.id.clone(), listed[0].id.clone(), None).await.unwrap();
        assert_eq!((one.msg_id, one.response.as_str()), (first.id.clone(), "ok"));
        let filter = MessageAttemptListByEndpointOptions {
            event_types: Some([NAME.into()].into()),
            status: Some(MessageStatus::Success),
            ..MessageAttemptListByEndpointOptions::default()
        };
        let found = attempts.list_by_endpoint(APP.into(), typed.id.clone(), Some(filter)).await.unwrap();
        assert_eq!(found.data.iter().map(|one| &one.msg_id).collect::<Vec<_>>(), [&first.id]);
        let of_endpoint = attempts.list_attempted_messages(APP.into(), every.id.clone(), None).await.unwrap();
        assert_eq!(of_endpoint.data.iter().map(|one| &one.id).collect::<Vec<_>>(), [&other.id, &first.id]);
        let of_message =
            attempts.list_attempted_destinations(APP.into(), first.id.clone(), None).await.unwrap();
        assert_eq!(of_message.data.len(), 2);
        until("the statistics", async || {
            self.svix.endpoint().get_stats(APP.into(), every.id.clone(), None).await.unwrap().success == 2
        })
        .await;
        attempts.resend(APP.into(), first.id.clone(), typed.id.clone(), None).await.unwrap();
        verify(&self.receiver.wait_for("/typed", &first.id, 2).await, secret);
        refused(
            404,
            "not_found",
            attempts.get(APP.into(), first.id.clone(), "atmpt_unknown".into(), None).await,
        );
    }

    async fn rotation(&self) {
        let endpoints = self.svix.endpoint();
        endpoints.rotate_secret(APP.into(), "all".into(), EndpointSecretRotateIn::new(), None).await.unwrap();
        let new = self.secret("all").await;
        assert_ne!(new, SECRET);
        // A worker learns of a rotation within seconds. Until then it signs with the old secret, which stays valid.
        until("a request under the new secret", async || {
            let sent = self.publish(message(json!({ "rotated": true }))).await;
            let delivery = self.receiver.wait_for("/all", &sent.id, 1).await;
            verify(&delivery, SECRET);
            Webhook::new(&new).unwrap().verify(&delivery.body, &delivery.headers).is_ok()
        })
        .await;
    }

    async fn operations(&self) -> EndpointOut {
        let (endpoints, attempts) = (self.svix.endpoint(), self.svix.message_attempt());
        self.receiver.answer("/gone", 410);
        let gone =
            endpoints.create(APP.into(), EndpointIn::new(self.receiver.url("/gone")), None).await.unwrap();
        let secret = self.secret(&gone.id).await;
        let lost = self.publish(message(json!({ "lost": true }))).await;
        self.receiver.wait_for("/gone", &lost.id, 1).await;
        until("410 disables the endpoint", async || {
            endpoints.get(APP.into(), gone.id.clone()).await.unwrap().disabled == Some(true)
        })
        .await;
        let missed = self.publish(message(json!({ "missed": true }))).await;
        self.receiver.wait_for("/all", &missed.id, 1).await;
        let resent = attempts.resend(APP.into(), missed.id.clone(), gone.id.clone(), None).await;
        refused(400, "endpoint_disabled", resent);
        self.receiver.answer("/gone", 200);
        let enable = EndpointPatch { disabled: Some(false), ..EndpointPatch::new() };
        endpoints.patch(APP.into(), gone.id.clone(), enable).await.unwrap();
        let recover = RecoverIn::new(self.started);
        let recovery = endpoints.recover(APP.into(), gone.id.clone(), recover, None).await.unwrap();
        verify(&self.receiver.wait_for("/gone", &lost.id, 2).await, &secret);
        self.finished(recovery.id).await;
        let replay = ReplayIn::new(self.started);
        let replay = endpoints.replay_missing(APP.into(), gone.id.clone(), replay, None).await.unwrap();
        verify(&self.receiver.wait_for("/gone", &missed.id, 1).await, &secret);
        self.finished(replay.id).await;
        let long_ago = RecoverIn::new(Utc::now() - Duration::days(15));
        invalid(["body", "since"], endpoints.recover(APP.into(), gone.id.clone(), long_ago, None).await);
        let example = EventExampleIn::new(NAME.into());
        let example = endpoints.send_example(APP.into(), gone.id.clone(), example, None).await.unwrap();
        let delivery = self.receiver.wait_for("/gone", &example.id, 1).await;
        verify(&delivery, &secret);
        let sent: serde_json::Value = serde_json::from_slice(&delivery.body).unwrap();
        assert_eq!(sent, json!({ "invoice": 17 }));
        self.svix.message().expunge_content(APP.into(), lost.id.clone()).await.unwrap();
        let resent = attempts.resend(APP.into(), lost.id, gone.id.clone(), None).await;
        refused(400, "missing_payload", resent);
        gone
    }

    async fn finished(&self, task: String) {
        until("the operation ends", async || {
            let task = self.svix.background_task().get(task.clone()).await.unwrap();
            task.status == BackgroundTaskStatus::Finished
        })
        .await;
    }

    async fn access(&self, app: &ApplicationOut, other: &ApplicationOut) {
        let authentication = self.svix.authentication();
        let access =
            authentication.app_portal_access(APP.into(), AppPortalAccessIn::new(), None).await.unwrap();
        assert!(access.url.starts_with(&self.server) && access.url.contains(&access.token));
        let user = client(&self.server, &access.token);
        assert_eq!(user.application().get(APP.into()).await.unwrap().id, app.id);
        refused(403, "permission_denied", user.application().list(None).await);
        refused(404, "not_found", user.application().get("other-rs".into()).await);
        refused(404, "not_found", user.endpoint().list(other.id.clone(), None).await);
        let stranger = client(&self.server, &format!("{}AAAA", &self.token[..self.token.len() - 4]));
        refused(401, "authentication_failed", stranger.application().list(None).await);
        refused(404, "not_supported", self.svix.integration().list(APP.into(), None).await);
        self.svix.health().get().await.unwrap();
    }

    async fn deletion(&self, app: &ApplicationOut, gone: &EndpointOut) {
        let endpoints = self.svix.endpoint();
        endpoints.delete(APP.into(), gone.id.clone()).await.unwrap();
        refused(404, "not_found", endpoints.get(APP.into(), gone.id.clone()).await);
        self.svix.application().delete(APP.into()).await.unwrap();
        refused(404, "not_found", endpoints.list(app.id.clone(), None).await);
    }
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let (server, token) = (arguments.next().unwrap(), arguments.next().unwrap());
    let walk = Walk {
        svix: client(&server, &token),
        server,
        token,
        receiver: Receiver::start().await,
        started: Utc::now() - Duration::minutes(1),
    };
    walk.event_types().await;
    let (app, other) = walk.applications().await;
    let endpoints = walk.endpoints().await;
    walk.messages(&endpoints).await;
    walk.rotation().await;
    let gone = walk.operations().await;
    walk.access(&app, &other).await;
    walk.deletion(&app, &gone).await;
    let verified = VERIFIED.load(Ordering::Relaxed);
    println!("svix 2.9.1 for Rust: the walk is complete, {verified} deliveries verified");
}
