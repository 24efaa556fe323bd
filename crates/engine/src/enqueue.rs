//! Lets concurrent producers share a commit. Alone, a request does not wait.

use std::future::Future;
use std::sync::Arc;

use posthaste_store::{EnqueueRequest, Enqueued, Store, StoreError};
use tokio::sync::{mpsc, oneshot};

use crate::supervise::contained;

/// Requests that may wait; beyond this, producers wait for a place.
const QUEUE: usize = 1_024;
/// No further request joins a call that already stores this many events.
const EVENTS_ENOUGH: usize = 1_000;

/// Acknowledges a request only after its commit. Cheap to clone.
#[derive(Clone)]
pub struct Enqueuer {
    queue: mpsc::Sender<Waiting>,
}

struct Waiting {
    request: EnqueueRequest,
    reply: oneshot::Sender<Result<Enqueued, StoreError>>,
}

/// The front and the loop behind it, which ends when every front is gone.
pub fn enqueuer(store: Arc<dyn Store>) -> (Enqueuer, impl Future<Output = ()> + Send) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    (Enqueuer { queue: sender }, run(store, receiver))
}

impl Enqueuer {
    pub async fn enqueue(&self, request: EnqueueRequest) -> Result<Enqueued, StoreError> {
        let stopped = || StoreError::Unavailable { reason: "this process is shutting down".into() };
        let (reply, answer) = oneshot::channel();
        self.queue.send(Waiting { request, reply }).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

/// Whatever came while the last commit was made goes into the next.
async fn run(store: Arc<dyn Store>, mut queue: mpsc::Receiver<Waiting>) {
    while let Some(first) = queue.recv().await {
        let mut events = first.request.events.len();
        let mut replies = vec![first.reply];
        let mut batch = vec![first.request];
        while events < EVENTS_ENOUGH {
            let Ok(next) = queue.try_recv() else { break };
            events += next.request.events.len();
            replies.push(next.reply);
            batch.push(next.request);
        }
        let answers = match contained(store.enqueue(&batch)).await {
            Ok(answers) if answers.len() == batch.len() => answers,
            Ok(answers) => {
                let reason = format!("{} answers for {} requests", answers.len(), batch.len());
                vec![Err(StoreError::Rejected { reason }); batch.len()]
            }
            Err(error) => vec![Err(error); batch.len()],
        };
        for (reply, answer) in replies.into_iter().zip(answers) {
            // A producer that has gone away asks again under its idempotency key.
            let _ = reply.send(answer);
        }
    }
}
