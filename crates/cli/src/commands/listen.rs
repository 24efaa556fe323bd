//! `posthaste listen`: a receiver for development.
//!
//! ```text
//!  accept ─► receive: read, check the signature, choose a status ─► respond
//!                        └─► Delivery ─► print
//! ```
//!
//! It listens on loopback only and remembers a bounded number of events. Senders are not trusted: requests are bounded
//! in size and time, and control characters in them are escaped before they are printed.

mod delivery;
mod receive;
mod render;
mod response_policy;
mod totals;

use std::fs::File;
use std::io::{self, Read as _};
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::service::shutdown::ProcessSignals;
use anyhow::Context as _;
use posthaste_domain::signature::{Secret, SigningKeys};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};

use crate::cli::{ListenArgs, ServerArgs, require_secret, split_secrets};
use crate::client::ApiClient;
use crate::commands::registry::Registration;
use crate::terminal::{self, BadUsage, OutputStyle, time};
use crate::timers::sleep;
use delivery::Delivery;
use receive::Receiver;
use response_policy::ResponsePolicy;
use totals::DeliveryTotals;

/// Maximum number of concurrent connections, which is more than a worker opens to one destination.
const CONNECTIONS_MAX: usize = 256;
/// Maximum size of a file with secrets, far more than the secrets that can be valid at once.
const SECRET_FILE_BYTES_MAX: u64 = 16 * 1024;
/// Maximum number of received deliveries that wait to be printed. Beyond it, requests wait before they get a response.
const UNPRINTED_MAX: usize = 64;

/// Receives deliveries until a signal. `client` makes a client of the server at which `--register` adds an endpoint.
pub(crate) async fn run(
    args: &ListenArgs,
    client: impl FnOnce(&ServerArgs) -> anyhow::Result<ApiClient>,
    style: OutputStyle,
) -> anyhow::Result<ExitCode> {
    let secrets = read_secrets(args)?;
    let mut signals = ProcessSignals::register()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await.with_context(|| {
        format!(
            "cannot listen on port {}; choose another with --port, or any free one with --port 0",
            args.port
        )
    })?;
    let url = format!("http://{}/", listener.local_addr()?);
    let Some(app) = &args.register else {
        let keys = parse_keys(&secrets)?;
        print_introduction(&url, keys.is_some());
        return receive_until_signal(args, listener, keys, &mut signals, style).await;
    };
    // A signal cannot interrupt it: an endpoint whose id was not received yet could not be deleted.
    let registration = Registration::add(client(&args.server)?, app, &url, &args.event_types).await?;
    print_registration(&url, app, &registration.endpoint_id);
    let received = match parse_keys(&registration.secret) {
        Ok(keys) => receive_until_signal(args, listener, keys, &mut signals, style).await,
        Err(error) => Err(error.into()),
    };
    let endpoint_id = registration.endpoint_id.clone();
    registration.remove().await.with_context(|| {
        format!("the endpoint is still registered: `posthaste endpoints delete {app} {endpoint_id} --yes` deletes it")
    })?;
    terminal::note(&format!("Deleted {endpoint_id}."));
    received
}

async fn receive_until_signal(
    args: &ListenArgs,
    listener: TcpListener,
    keys: Option<SigningKeys>,
    signals: &mut ProcessSignals,
    style: OutputStyle,
) -> anyhow::Result<ExitCode> {
    let (deliveries, mut received) = mpsc::channel(UNPRINTED_MAX);
    let receiver = Receiver::new(keys, ResponsePolicy::new(args), deliveries);
    let mut totals = DeliveryTotals::start(time::now());
    let mut accepting = std::pin::pin!(accept(listener, Arc::new(receiver)));
    loop {
        tokio::select! {
            biased;
            _ = signals.next() => break,
            Some(delivery) = received.recv() => print_delivery(&delivery, &mut totals, args.json, style)?,
            never = &mut accepting => match never {},
        }
    }
    // Print the deliveries that were received before the signal.
    while let Ok(delivery) = received.try_recv() {
        print_delivery(&delivery, &mut totals, args.json, style)?;
    }
    terminal::note(&totals.summary(time::now()));
    Ok(ExitCode::SUCCESS)
}

/// Reads the secrets of the file that `--secret-file` names, or else takes those of the command line and the environment.
fn read_secrets(args: &ListenArgs) -> Result<String, BadUsage> {
    let Some(path) = &args.secret_file else { return Ok(args.secrets()) };
    let mut text = String::new();
    let (name, read) = if path.as_os_str() == "-" {
        (
            "standard input".to_owned(),
            io::stdin().lock().take(SECRET_FILE_BYTES_MAX).read_to_string(&mut text),
        )
    } else {
        let read =
            File::open(path).and_then(|file| file.take(SECRET_FILE_BYTES_MAX).read_to_string(&mut text));
        (path.display().to_string(), read)
    };
    read.map_err(|error| BadUsage(format!("--secret-file: cannot read {name}: {error}")))?;
    require_secret(&text).map_err(|error| BadUsage(format!("--secret-file {name}: {error}")))?;
    Ok(text)
}

fn parse_keys(secrets: &str) -> Result<Option<SigningKeys>, BadUsage> {
    if split_secrets(secrets).next().is_none() {
        return Ok(None);
    }
    let secrets = split_secrets(secrets).map(Secret::parse).collect::<Result<Vec<_>, _>>();
    let keys = secrets.and_then(SigningKeys::new);
    keys.map(Some).map_err(|error| BadUsage(format!("{error}; `posthaste secret` prints the right one")))
}

fn print_introduction(url: &str, checked: bool) {
    terminal::note(&format!("Listening on {url} until Ctrl-C."));
    terminal::note(if checked {
        "Signatures are checked."
    } else {
        "Signatures are not checked: run `posthaste secret | posthaste listen --secret-file -`, or set the secret in \
         POSTHASTE_SIGNING_SECRET."
    });
    terminal::note(&format!(
        "Try: posthaste send --url {url} --type test.ping --data '{{\"hello\": \"world\"}}'"
    ));
}

fn print_registration(url: &str, app: &str, endpoint_id: &str) {
    let (app, endpoint_id) = (terminal::escape_line(app), terminal::escape_line(endpoint_id));
    terminal::note(&format!("Listening on {url} until Ctrl-C, as endpoint {endpoint_id} of {app}."));
    terminal::note("Signatures are checked.");
    terminal::note(&format!(
        "Try: posthaste messages publish {app} --type test.ping --data '{{\"hello\": \"world\"}}'"
    ));
}

/// Adds a delivery to the totals and prints it.
fn print_delivery(
    delivery: &Delivery,
    totals: &mut DeliveryTotals,
    json: bool,
    style: OutputStyle,
) -> anyhow::Result<()> {
    let since_last = totals.add(delivery);
    let text = if json {
        render::json_line(delivery, since_last)
    } else {
        render::card(delivery, since_last, style)
    };
    terminal::print(&text)
}

/// Accepts and serves connections until it is dropped.
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
            // Out of file descriptors, or the peer has disconnected: both are temporary.
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}
