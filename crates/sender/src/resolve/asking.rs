//! Lookups that block a thread for as long as the host pleases: nothing can end them early, so what hangs is kept among
//! itself.
//!
//! A name has a place to wait for, by what is known of it: names that were answered, names that are new and names that
//! failed never wait for each other. A lookup that takes longer than a moment moves aside, so that it is not waited for
//! by the others of its kind either. Each name is looked up once at a time, however many ask, and not at all once
//! nobody waits for it any more.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hickory_resolver::proto::rr::Name;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use super::LookupError;
use super::recent::{Answer, Recent};
use crate::deadline::{Deadline, now};

/// Lookups at once of names that were answered, and as many of new ones.
const PROMPT_MAX: usize = 32;
/// Lookups at once of names that failed.
const DOUBTFUL_MAX: usize = 16;
/// Lookups that have moved aside. A thread that only waits costs little.
const ASIDE_MAX: usize = 128;
/// How long a lookup may take before it moves aside.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long an answer is believed; how long its zone would say is not passed on.
const ANSWER_TTL: Duration = Duration::from_secs(5);
/// How long a name that failed once is kept from the new ones: a good one must not wait for ever among the dead.
const DOUBTED_FOR: Duration = Duration::from_secs(30);
/// Names of which the last answer is known.
const NAMES_MAX: usize = 2_048;

type Found = Result<Vec<IpAddr>, LookupError>;

/// Blocks until there is an answer.
pub(super) type Look = dyn Fn(&Name) -> Found + Send + Sync;

pub(super) struct Asking {
    look: Box<Look>,
    answered: Arc<Semaphore>,
    new: Arc<Semaphore>,
    doubtful: Arc<Semaphore>,
    aside: Arc<Semaphore>,
    books: Mutex<Books>,
}

struct Books {
    under_way: HashMap<Name, watch::Sender<Option<Found>>>,
    last: Recent<Name, Last>,
}

enum Joined {
    Remembered(Vec<IpAddr>),
    UnderWay(watch::Receiver<Option<Found>>),
}

/// What became of the last lookup of a name.
enum Last {
    /// That there is no address is an answer too, but none that is kept.
    Answered(Option<Answer>),
    /// It failed, or took longer than anybody waited.
    Doubtful { until: Instant },
}

impl Asking {
    pub(super) fn new(look: Box<Look>) -> Arc<Self> {
        let places = |count| Arc::new(Semaphore::new(count));
        let books = Books { under_way: HashMap::new(), last: Recent::new(NAMES_MAX) };
        Arc::new(Self {
            look,
            answered: places(PROMPT_MAX),
            new: places(PROMPT_MAX),
            doubtful: places(DOUBTFUL_MAX),
            aside: places(ASIDE_MAX),
            books: Mutex::new(books),
        })
    }

    pub(super) async fn lookup(self: &Arc<Self>, name: Name) -> Found {
        let mut under_way = match self.join(&name) {
            Joined::Remembered(addresses) => return Ok(addresses),
            Joined::UnderWay(lookup) => lookup,
        };
        let found = under_way.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
        found.unwrap_or_else(|| Err(cut_short(&name)))
    }

    /// The last answer if it is still believed, or else the lookup that is under way, which may be a new one.
    fn join(self: &Arc<Self>, name: &Name) -> Joined {
        let mut books = self.books();
        if let Some(tell) = books.under_way.get(name) {
            return Joined::UnderWay(tell.subscribe());
        }
        let places = match books.last.get(name) {
            Some(Last::Answered(answer)) => {
                if let Some(addresses) = answer.as_ref().and_then(|answer| answer.addresses(now())) {
                    return Joined::Remembered(addresses);
                }
                &self.answered
            }
            Some(Last::Doubtful { until }) if now() < *until => &self.doubtful,
            Some(Last::Doubtful { .. }) | None => &self.new,
        };
        let (tell, found) = watch::channel(None);
        books.under_way.insert(name.clone(), tell.clone());
        tokio::spawn(Arc::clone(self).ask(name.clone(), Arc::clone(places), tell));
        Joined::UnderWay(found)
    }

    /// Once it has begun, it goes on to its end, whoever still waits for it.
    async fn ask(self: Arc<Self>, name: Name, places: Arc<Semaphore>, tell: watch::Sender<Option<Found>>) {
        let Some(place) = self.place(&name, places, &tell).await else { return };
        let (asking, asked) = (Arc::clone(&self), name.clone());
        let looking = tokio::task::spawn_blocking(move || (asking.look)(&asked));
        let found = self.end_of(looking, place).await.unwrap_or_else(|_| Err(cut_short(&name)));
        let mut books = self.books();
        let last = match &found {
            _ if tell.is_closed() => Last::Doubtful { until: now() + DOUBTED_FOR },
            Ok(addresses) => Last::Answered(Answer::worth_keeping(addresses, ANSWER_TTL, now())),
            Err(LookupError::NoAddress(_)) => Last::Answered(None),
            Err(_) => Last::Doubtful { until: now() + DOUBTED_FOR },
        };
        books.under_way.remove(&name);
        books.last.put(name, last);
        tell.send_replace(Some(found));
    }

    /// None if everybody has stopped waiting before there was one.
    async fn place(
        &self,
        name: &Name,
        places: Arc<Semaphore>,
        tell: &watch::Sender<Option<Found>>,
    ) -> Option<OwnedSemaphorePermit> {
        let mut place = Box::pin(places.acquire_owned());
        loop {
            tokio::select! {
                biased;
                () = tell.closed() => {
                    let mut books = self.books();
                    // Somebody may have joined in the meantime; from here on nobody can.
                    if tell.is_closed() {
                        books.under_way.remove(name);
                        return None;
                    }
                }
                place = &mut place => return Some(place.expect("places are never closed")),
            }
        }
    }

    /// Holds a place until the thread is free, after a moment one aside if there is any.
    async fn end_of(
        &self,
        mut looking: JoinHandle<Found>,
        place: OwnedSemaphorePermit,
    ) -> Result<Found, JoinError> {
        if let Some(found) = Deadline::after(PATIENCE).within(&mut looking).await {
            return found;
        }
        let may_move = !Arc::ptr_eq(place.semaphore(), &self.doubtful);
        tokio::select! {
            biased;
            found = &mut looking => found,
            aside = Arc::clone(&self.aside).acquire_owned(), if may_move => {
                drop(place);
                let found = looking.await;
                drop(aside);
                found
            }
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cut_short(name: &Name) -> LookupError {
    LookupError::failed(&shown(name), "the lookup was cut short")
}

/// As it was asked for, without its final dot.
pub(super) fn shown(name: &Name) -> String {
    name.to_ascii().trim_end_matches('.').to_owned()
}
