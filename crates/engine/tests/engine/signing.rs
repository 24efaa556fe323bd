//! A rotated signing secret reaches running workers, and the old one stays as long as the store returns it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::signature::{Secret, SigningKeys};
use posthaste_domain::{DeliveryStatus, Lease, Outcome, Timestamp};
use posthaste_engine::{
    Engine, LocalShortage, Ports, Runtimes, SECRETS_LEARNED_WITHIN, Sender, SharedSigningKeys,
};
use posthaste_store::{GracePeriod, RotateRequest, Store as _, StoredSecret};

use crate::fixture::{Call, Fixture, secs, settings};
use crate::logs::Log;

const GRACE: Duration = Duration::from_secs(3_600);

/// Records its keys at each request, and accepts every request.
struct SigningSender {
    keys: SharedSigningKeys,
    signed_with: Mutex<Vec<SigningKeys>>,
}

#[async_trait]
impl Sender for SigningSender {
    async fn send(&self, _: &Lease, _: Timestamp, _: Duration) -> Result<Outcome, LocalShortage> {
        self.signed_with.lock().expect("one thread").push((*self.keys.current()).clone());
        Ok(Outcome::response(200, None, b""))
    }
}

fn secret(number: u8) -> Secret {
    Secret::from_bytes(vec![number; 32]).expect("32 bytes are a valid secret")
}

/// The ports of a worker that signs with the secrets of the store, of which there is one.
async fn signing_ports(fixture: &Fixture) -> (Ports, Arc<SigningSender>) {
    fixture.memory.add_first_secret(&secret(1)).await.expect("the store is up");
    let keys = SharedSigningKeys::load(&fixture.memory).await.expect("a secret is stored");
    let sender = Arc::new(SigningSender { keys: keys.clone(), signed_with: Mutex::default() });
    (Ports { sender: Arc::clone(&sender) as _, reloaded_keys: Some(keys), ..fixture.ports() }, sender)
}

async fn rotate(fixture: &Fixture, number: u8) -> Vec<StoredSecret> {
    let grace = GracePeriod::new(GRACE).expect("a valid grace period");
    let request = RotateRequest { secret: &secret(number), grace, actor: "root@host-7" };
    fixture.memory.rotate_secret(request).await.expect("the store is up")
}

/// Delivers one event and returns the secrets that signed it, each as the number that [`secret`] takes.
async fn deliver(fixture: &Fixture, sender: &SigningSender, host: &str) -> Vec<u8> {
    fixture.enqueue(host, 1).await;
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    let keys = sender.signed_with.lock().expect("one thread").last().expect("a request was sent").clone();
    let number = |key: &Secret| (0..9).find(|number| secret(*number) == *key).expect("a secret of this test");
    keys.secrets().iter().map(number).collect()
}

#[tokio::test(start_paused = true)]
async fn every_running_worker_signs_with_a_new_secret_within_the_bound_and_with_the_old_one_until_it_retires()
{
    let fixture = Fixture::new();
    let mut workers = Vec::new();
    for _ in 0..2 {
        let (ports, sender) = signing_ports(&fixture).await;
        let engine = Engine::start(settings(|_| {}), ports, &Runtimes::current()).expect("valid settings");
        workers.push((engine, sender));
    }
    fixture.advance(secs(100)).await;
    rotate(&fixture, 2).await;
    fixture.advance(SECRETS_LEARNED_WITHIN).await;
    let both = SigningKeys::new(vec![secret(2), secret(1)]).expect("two secrets");
    assert!(workers.iter().all(|(_, sender)| *sender.keys.current() == both), "both workers have learned it");
    fixture.advance(GRACE - SECRETS_LEARNED_WITHIN - secs(1)).await;
    assert!(
        workers.iter().all(|(_, sender)| *sender.keys.current() == both),
        "the grace period has not ended"
    );
    fixture.advance(secs(1) + SECRETS_LEARNED_WITHIN).await;
    let new = SigningKeys::new(vec![secret(2)]).expect("one secret");
    assert!(workers.iter().all(|(_, sender)| *sender.keys.current() == new), "the old secret has retired");
}

#[tokio::test(start_paused = true)]
async fn deliveries_of_a_running_worker_carry_both_signatures_after_a_rotation() {
    let (log, _guard) = Log::capture();
    let fixture = Fixture::new();
    let (ports, sender) = signing_ports(&fixture).await;
    let _engine = Engine::start(settings(|_| {}), ports, &Runtimes::current()).expect("valid settings");
    assert_eq!(deliver(&fixture, &sender, "before").await, [1]);
    let rotated = rotate(&fixture, 2).await;
    fixture.advance(SECRETS_LEARNED_WITHIN).await;
    assert_eq!(deliver(&fixture, &sender, "during").await, [2, 1]);
    fixture.advance(GRACE).await;
    assert_eq!(deliver(&fixture, &sender, "after").await, [2]);
    let line = log.line_with("the signing secrets have changed");
    assert!(line.contains("root@host-7") && line.contains("valid=2"), "{line}");
    for stored in &rotated {
        assert_eq!(log.count(stored.secret.reveal().trim_start_matches("whsec_")), 0, "a secret is logged");
    }
}

#[tokio::test(start_paused = true)]
async fn worker_that_cannot_read_the_secrets_keeps_its_own_and_learns_the_new_one_later() {
    let (log, _guard) = Log::capture();
    let fixture = Fixture::new();
    let (ports, sender) = signing_ports(&fixture).await;
    let _engine = Engine::start(settings(|_| {}), ports, &Runtimes::current()).expect("valid settings");
    fixture.test_store().fail(&[Call::SigningSecrets]);
    rotate(&fixture, 2).await;
    fixture.advance(secs(600)).await;
    assert_eq!(deliver(&fixture, &sender, "down").await, [1]);
    assert_eq!(log.count("the signing secrets could not be read"), 1, "reported once, not at every try");
    fixture.test_store().recover();
    fixture.test_store().panic_once(Call::SigningSecrets);
    fixture.advance(SECRETS_LEARNED_WITHIN).await;
    assert_eq!(deliver(&fixture, &sender, "up").await, [2, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_single_cycle_reads_the_secrets_before_it_sends() {
    let fixture = Fixture::new();
    let (ports, sender) = signing_ports(&fixture).await;
    rotate(&fixture, 2).await;
    fixture.enqueue("once", 1).await;
    Engine::run_once(settings(|_| {}), ports, &Runtimes::current()).await.expect("the store is up");
    let signed_with = sender.signed_with.lock().expect("one thread").clone();
    assert_eq!(signed_with, [SigningKeys::new(vec![secret(2), secret(1)]).expect("two secrets")]);
}
