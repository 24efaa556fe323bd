//! Posthaste inside another program: a business row and its webhook in one SQLite transaction, a worker beside the
//! program's own work, and nothing else to run.
//!
//! `cargo run -p posthaste --example embedded` places an order, delivers its webhook to a receiver on loopback, and ends.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use posthaste::domain::signature::{SignedHeaders, SigningKeys, TOLERANCE_DEFAULT};
use posthaste::engine::host_time;
use posthaste::rusqlite::{Connection, TransactionBehavior};
use posthaste::{AllowedNetworks, Database, NewEventSpec, Options, Posthaste};
use tokio::net::TcpListener;

#[tokio::main]
pub(crate) async fn main() -> anyhow::Result<()> {
    let file = std::env::temp_dir().join("posthaste-embedded.db");

    // The file belongs to the program; Posthaste adds its tables to it.
    let mut orders = Connection::open(&file)?;
    orders.execute_batch(
        "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, cents INTEGER NOT NULL)",
    )?;

    let posthaste = open(&file).await?;
    let hook = listen(posthaste.signing_keys()).await?;
    let worker = posthaste.start_worker()?;
    let mut notices = worker.publisher().subscribe().await?;

    let placed = place_order(&mut orders, &posthaste, &hook, 4200)?;
    println!("order {placed} is committed, and its webhook with it");
    let refused = place_order(&mut orders, &posthaste, &hook, -1);
    println!("an order that fails leaves neither: {:#}", refused.expect_err("the price is negative"));

    let notice = patiently(notices.next()).await?.notice;
    println!("{} for {}, attempts: {}", notice.kind.as_str(), notice.event_id, notice.attempts);

    let drained = worker.drain(Duration::from_secs(5)).await;
    println!("drained, {} left in flight", drained.released + drained.unreleased);
    posthaste.close().await;
    Ok(())
}

async fn open(file: &Path) -> anyhow::Result<Posthaste> {
    // By default, only public addresses are dialled; this receiver is on loopback.
    let options = Options::new(Database::sqlite(file))?.allowed_networks(AllowedNetworks::loopback());
    Ok(Posthaste::open(options).await?)
}

/// The order and its webhook are committed together, or neither is.
fn place_order(
    orders: &mut Connection,
    posthaste: &Posthaste,
    hook: &str,
    cents: i64,
) -> anyhow::Result<i64> {
    let store = posthaste.sqlite_store().context("the database is a SQLite file")?;

    // Posthaste writes to this file too: taking the lock first waits its turn instead of failing half-way.
    let transaction = orders.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("INSERT INTO orders (cents) VALUES (?1)", [cents])?;
    let order = transaction.last_insert_rowid();
    let event = posthaste.accept(NewEventSpec {
        destination_url: hook.to_owned(),
        event_type: "order.placed".to_owned(),
        payload: format!(r#"{{"order": {order}, "cents": {cents}}}"#).into(),
        event_id: Some(format!("order-{order}-placed")),
        ..NewEventSpec::default()
    })?;
    store.enqueue_in(&transaction, &[event])?;
    if cents < 0 {
        bail!("an order cannot cost {cents} cents");
    }
    transaction.commit()?;

    // The worker of this process looks at once; without this, it finds the event when it polls.
    store.wake();
    Ok(order)
}

/// What usually runs at a customer's: checks the signature, then takes the event.
async fn listen(keys: SigningKeys) -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/hook", listener.local_addr()?);
    let app = Router::new().route("/hook", post(receive)).with_state(keys);
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(url)
}

async fn receive(State(keys): State<SigningKeys>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let claimed = SignedHeaders {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
    };
    match keys.verify(claimed, &body, host_time(), TOLERANCE_DEFAULT) {
        Ok(()) => {
            println!("received {}, verified: {}", claimed.id, String::from_utf8_lossy(&body));
            StatusCode::NO_CONTENT
        }
        Err(refusal) => {
            println!("refused {}: {refusal}", claimed.id);
            StatusCode::UNAUTHORIZED
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "an example that waits for ever tells nothing")]
async fn patiently<T, E>(wait: impl Future<Output = Result<T, E>>) -> anyhow::Result<T>
where
    E: Into<anyhow::Error>,
{
    let waited = tokio::time::timeout(Duration::from_secs(30), wait).await;
    waited.context("nothing was delivered within half a minute")?.map_err(Into::into)
}
