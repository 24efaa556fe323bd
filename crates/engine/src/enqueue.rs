//! Lets concurrent producers share a commit. Alone, a request does not wait.

mod aside;

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use posthaste_store::{EnqueueRequest, Enqueued, Store, StoreError};
use tokio::sync::{mpsc, oneshot};

use crate::enqueue::aside::Aside;
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

type Answer = Result<Enqueued, StoreError>;

struct Waiting {
    /// None when its producer has gone away: what nobody waits for is not kept in memory while the store is away.
    request: Arc<Mutex<Option<EnqueueRequest>>>,
    reply: oneshot::Sender<Answer>,
}

/// A request that is being stored, and who waits for it.
struct Asking {
    request: EnqueueRequest,
    reply: oneshot::Sender<Answer>,
}

impl Asking {
    fn answer(self, answer: Answer) {
        // A producer that has gone away asks again under its idempotency key.
        let _ = self.reply.send(answer);
    }
}

/// Takes a request back when its producer goes away before it was stored.
struct Withdrawal(Arc<Mutex<Option<EnqueueRequest>>>);

impl Drop for Withdrawal {
    fn drop(&mut self) {
        let withdrawn = take(&self.0);
        drop(withdrawn);
    }
}

fn take(request: &Mutex<Option<EnqueueRequest>>) -> Option<EnqueueRequest> {
    request.lock().unwrap_or_else(PoisonError::into_inner).take()
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
        let request = Arc::new(Mutex::new(Some(request)));
        let _withdrawal = Withdrawal(Arc::clone(&request));
        self.queue.send(Waiting { request, reply }).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

async fn run(store: Arc<dyn Store>, queue: mpsc::Receiver<Waiting>) {
    let aside = Aside::default();
    let front = async {
        take_in(&*store, queue, &aside).await;
        aside.close();
    };
    tokio::join!(front, aside.run(&*store));
}

/// Whatever came while the last commit was made goes into the next.
async fn take_in(store: &dyn Store, mut queue: mpsc::Receiver<Waiting>, aside: &Aside) {
    while let Some(first) = queue.recv().await {
        let (mut events, mut replies, mut batch) = (0, Vec::new(), Vec::new());
        let mut next = Some(first);
        while let Some(Waiting { request, reply }) = next {
            match take(&request) {
                Some(request) if aside.concerns(&request) => aside.put(Asking { request, reply }),
                Some(request) => {
                    events += request.events.len();
                    replies.push(reply);
                    batch.push(request);
                }
                None => {}
            }
            next = if events < EVENTS_ENOUGH { queue.try_recv().ok() } else { None };
        }
        if batch.is_empty() {
            continue;
        }
        let answers = store_together(store, &batch).await;
        for ((request, reply), answer) in batch.into_iter().zip(replies).zip(answers) {
            let asking = Asking { request, reply };
            match answer {
                Err(StoreError::Contended { held }) => {
                    aside.hold(held);
                    aside.put(asking);
                }
                answer => asking.answer(answer),
            }
        }
    }
}

/// An answer for each request, whatever becomes of the call.
async fn store_together(store: &dyn Store, batch: &[EnqueueRequest]) -> Vec<Answer> {
    match contained(store.enqueue(batch)).await {
        Ok(answers) if answers.len() == batch.len() => answers,
        Ok(answers) => {
            let reason = format!("{} answers for {} requests", answers.len(), batch.len());
            vec![Err(StoreError::Rejected { reason }); batch.len()]
        }
        Err(error) => vec![Err(error); batch.len()],
    }
}
