//! `posthaste listen`: a receiver to develop against.
//!
//! ```text
//!  accept ─► receive: read, check the signature, choose an answer ─► answer
//!                        └─► Delivery ─► show
//! ```
//!
//! It listens on loopback only and remembers a bounded number of events. Whoever sends to it is a stranger: requests
//! are bounded in size and time, and what they hold is shown without what a terminal would act on.

mod answering;
mod delivery;
mod receive;
mod show;
mod tally;

use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::service::stop::Signals;
use anyhow::Context as _;
use posthaste_domain::signature::{Secret, SigningKeys};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};

use crate::cli::ListenArgs;
use crate::client::pause;
use crate::terminal::{self, BadUsage, Look, time};
use answering::Answering;
use delivery::Delivery;
use receive::Receiver;
use tally::Tally;

/// More than a worker opens to one destination.
const CONNECTIONS_MAX: usize = 256;
/// Deliveries that wait to be shown; then requests wait too.
const UNSHOWN_MAX: usize = 64;

pub(crate) async fn run(args: &ListenArgs, look: Look) -> anyhow::Result<ExitCode> {
    let keys = keys(&args.secrets())?;
    let mut signals = Signals::listen()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await.with_context(|| {
        format!(
            "cannot listen on port {}; choose another with --port, or any that is free with --port 0",
            args.port
        )
    })?;
    let url = format!("http://{}/", listener.local_addr()?);
    introduce(&url, keys.is_some());
    let (deliveries, mut arrived) = mpsc::channel(UNSHOWN_MAX);
    let receiver = Receiver::new(keys, Answering::new(args), deliveries);
    let mut tally = Tally::started(time::now());
    let mut accepting = std::pin::pin!(accept(listener, Arc::new(receiver)));
    loop {
        tokio::select! {
            biased;
            _ = signals.next() => break,
            Some(delivery) = arrived.recv() => take(&delivery, &mut tally, args.json, look)?,
            never = &mut accepting => match never {},
        }
    }
    // What was answered is shown, also when the end came between the two.
    while let Ok(delivery) = arrived.try_recv() {
        take(&delivery, &mut tally, args.json, look)?;
    }
    terminal::note(&tally.summary(time::now()));
    Ok(ExitCode::SUCCESS)
}

fn keys(secrets: &[String]) -> Result<Option<SigningKeys>, BadUsage> {
    if secrets.is_empty() {
        return Ok(None);
    }
    let secrets = secrets.iter().map(|secret| Secret::parse(secret)).collect::<Result<Vec<_>, _>>();
    let keys = secrets.and_then(SigningKeys::new);
    keys.map(Some).map_err(|error| BadUsage(format!("{error}; `posthaste secret` prints the right one")))
}

fn introduce(url: &str, checked: bool) {
    terminal::note(&format!("Listening on {url} until Ctrl-C."));
    terminal::note(if checked {
        "Signatures are checked."
    } else {
        "Signatures are not checked: give the secret with --secret \"$(posthaste secret)\" or in \
         POSTHASTE_SIGNING_SECRET."
    });
    terminal::note(&format!(
        "Try: posthaste send --url {url} --type test.ping --data '{{\"hello\": \"world\"}}'"
    ));
}

fn take(delivery: &Delivery, tally: &mut Tally, json: bool, look: Look) -> anyhow::Result<()> {
    let since_last = tally.add(delivery);
    let shown = if json { show::line(delivery, since_last) } else { show::card(delivery, since_last, look) };
    terminal::print(&shown)
}

/// Serves connections until it is dropped.
async fn accept(listener: TcpListener, receiver: Arc<Receiver>) -> std::convert::Infallible {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let slot = Arc::clone(&slots).acquire_owned().await.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                let receiver = Arc::clone(&receiver);
                tokio::spawn(async move {
                    receiver.serve(stream).await;
                    drop(slot);
                });
            }
            // Out of descriptors, or a connection that went away first: both pass.
            Err(_) => pause(Duration::from_millis(50)).await,
        }
    }
}
