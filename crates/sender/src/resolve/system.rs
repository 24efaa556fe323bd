//! The host's own resolver, for hosts whose names come from elsewhere than DNS.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use hickory_resolver::proto::rr::Name;
use tokio::sync::Semaphore;

use super::hosts::HostsFile;
use super::qualified::qualified;
use super::{LookupError, Resolve};

/// Lookups at once. Each blocks a thread for as long as the host pleases, and nothing can end it early.
const LOOKUPS_MAX: usize = 32;

/// Asks the C library, on threads of its own. Nothing is cached beyond what the host caches; the hosts file is read
/// once.
///
/// A name is looked up once at a time, however many ask: one whose name server never answers takes one thread.
pub struct SystemResolver {
    hosts: HostsFile,
    asking: Arc<Asking>,
}

struct Asking {
    permits: Arc<Semaphore>,
    under_way: Mutex<HashMap<Name, Lookup>>,
}

type Lookup = Shared<BoxFuture<'static, Result<Vec<IpAddr>, LookupError>>>;

impl SystemResolver {
    pub fn new() -> Self {
        let permits = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Self {
            hosts: HostsFile::of_system(),
            asking: Arc::new(Asking { permits, under_way: Mutex::default() }),
        }
    }
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Resolve for SystemResolver {
    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        let asked = qualified(name)?;
        match self.hosts.addresses(&asked) {
            Some(addresses) => Ok(addresses),
            None => self.asking.join(asked, addresses).await,
        }
    }
}

impl Asking {
    /// The lookup that is under way, or a new one. It goes on to its end, whoever still waits for it.
    fn join(
        self: &Arc<Self>,
        name: Name,
        look: impl FnOnce(&Name) -> io::Result<Vec<IpAddr>> + Send + 'static,
    ) -> Lookup {
        let mut under_way = self.under_way();
        if let Some(lookup) = under_way.get(&name) {
            return lookup.clone();
        }
        let (asking, asked) = (Arc::clone(self), name.clone());
        let task = tokio::spawn(async move {
            let found = asking.ask(asked.clone(), look).await;
            asking.under_way().remove(&asked);
            found
        });
        let cut_short = LookupError::failed(&shown(&name), "the lookup was cut short");
        let lookup = async move { task.await.unwrap_or(Err(cut_short)) }.boxed().shared();
        under_way.insert(name, lookup.clone());
        lookup
    }

    /// On a thread that may block.
    async fn ask(
        &self,
        name: Name,
        look: impl FnOnce(&Name) -> io::Result<Vec<IpAddr>> + Send + 'static,
    ) -> Result<Vec<IpAddr>, LookupError> {
        let shown = shown(&name);
        let cut_short = || LookupError::failed(&shown, "the lookup was cut short");
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| cut_short())?;
        let run = move || {
            let found = look(&name);
            drop(permit);
            found
        };
        match tokio::task::spawn_blocking(run).await {
            Ok(Ok(addresses)) if !addresses.is_empty() => Ok(addresses),
            Ok(Ok(_)) => Err(LookupError::NoAddress(shown)),
            Ok(Err(error)) => Err(classified(&shown, &error)),
            Err(_) => Err(cut_short()),
        }
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<Name, Lookup>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As it was asked for, without its final dot.
fn shown(name: &Name) -> String {
    name.to_ascii().trim_end_matches('.').to_owned()
}

fn addresses(name: &Name) -> io::Result<Vec<IpAddr>> {
    Ok((name.to_ascii().as_str(), 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

/// The library's code is not passed on, only its words: those of glibc and musl for a name without an address.
fn classified(name: &str, error: &io::Error) -> LookupError {
    let no_address = [
        "Name or service not known",
        "No address associated with hostname",
        "Name does not resolve",
        "Name has no usable address",
    ];
    let words = error.to_string();
    if no_address.iter().any(|known| words.contains(known)) {
        LookupError::NoAddress(name.to_owned())
    } else {
        LookupError::failed(name, "the host's resolver does not answer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn localhost_is_found_in_the_hosts_file_despite_its_final_dot() {
        for name in ["localhost", "localhost."] {
            let addresses = SystemResolver::new().lookup(name).await.unwrap();
            assert!(addresses.iter().all(IpAddr::is_loopback), "{addresses:?}");
        }
    }

    #[tokio::test]
    async fn an_address_is_not_looked_up() {
        let error = SystemResolver::new().lookup("127.0.0.1").await.unwrap_err();
        assert_eq!(error, LookupError::InvalidName("127.0.0.1".to_owned()));
    }

    #[test]
    fn a_name_without_an_address_is_told_from_a_resolver_that_does_not_answer() {
        let known = |words: &str| classified("receiver.example", &io::Error::other(words));
        let no_address = LookupError::NoAddress("receiver.example".to_owned());
        assert_eq!(known("failed to lookup address information: Name or service not known"), no_address);
        assert_eq!(known("failed to lookup address information: Name does not resolve"), no_address);
        let words = "failed to lookup address information: Temporary failure in name resolution";
        assert!(matches!(known(words), LookupError::Failed { .. }));
    }

    #[tokio::test]
    async fn a_name_that_blocks_takes_one_thread_however_many_ask_and_keeps_it_though_nobody_waits() {
        let asking = SystemResolver::new().asking;
        let (release, blocked) = mpsc::channel::<()>();
        let (started, starts) = tokio::sync::oneshot::channel();
        let name = qualified("receiver.example").unwrap();
        let look = move |_: &Name| {
            let _ = started.send(());
            let _ = blocked.recv();
            Ok(vec![IpAddr::from([192, 0, 2, 1])])
        };
        drop(asking.join(name.clone(), look));
        starts.await.unwrap();
        let joined: Vec<_> =
            (0..50).map(|_| asking.join(name.clone(), |_: &Name| unreachable!("it is under way"))).collect();
        assert_eq!(asking.permits.available_permits(), LOOKUPS_MAX - 1);
        drop(release);
        for lookup in joined {
            assert_eq!(lookup.await, Ok(vec![IpAddr::from([192, 0, 2, 1])]));
        }
        let all = u32::try_from(LOOKUPS_MAX).unwrap();
        assert!(
            asking.permits.acquire_many(all).await.is_ok(),
            "the permit comes back when the thread is free"
        );
        assert!(asking.under_way().is_empty());
    }
}
