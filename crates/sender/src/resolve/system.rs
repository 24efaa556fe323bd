//! The host's own resolver, for hosts whose names come from elsewhere than DNS.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use async_trait::async_trait;
use hickory_resolver::proto::rr::Name;
use tokio::sync::Semaphore;

use super::hosts::HostsFile;
use super::qualified::qualified;
use super::{LookupError, Resolve};

/// Lookups at once. Each blocks a thread for as long as the host pleases, and nothing can end it early.
const LOOKUPS_MAX: usize = 32;

/// Asks the C library, on threads of its own. Nothing is cached beyond what the host caches; the hosts file is read
/// once.
#[derive(Debug)]
pub struct SystemResolver {
    hosts: HostsFile,
    permits: Arc<Semaphore>,
}

impl SystemResolver {
    pub fn new() -> Self {
        Self { hosts: HostsFile::of_system(), permits: Arc::new(Semaphore::new(LOOKUPS_MAX)) }
    }

    /// Runs a lookup on a thread that may block. The permit goes with it, so that a caller who has stopped waiting
    /// does not make room for yet another blocked thread.
    async fn blocking<T>(&self, lookup: impl FnOnce() -> T + Send + 'static) -> Option<T>
    where
        T: Send + 'static,
    {
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        let run = move || {
            let found = lookup();
            drop(permit);
            found
        };
        tokio::task::spawn_blocking(run).await.ok()
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
        if let Some(addresses) = self.hosts.addresses(&asked) {
            return Ok(addresses);
        }
        match self.blocking(move || addresses(&asked)).await {
            Some(Ok(addresses)) if !addresses.is_empty() => Ok(addresses),
            Some(Ok(_)) => Err(LookupError::NoAddress(name.to_owned())),
            Some(Err(error)) => Err(classified(name, &error)),
            None => Err(LookupError::failed(name, "the lookup was cut short")),
        }
    }
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
    use std::future::Future;
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::{Context, Waker};

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
    async fn a_blocked_lookup_keeps_its_permit_although_nobody_waits_for_it() {
        let resolver = SystemResolver::new();
        let (release, blocked) = mpsc::channel::<()>();
        {
            let mut abandoned = pin!(resolver.blocking(move || blocked.recv()));
            assert!(abandoned.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert_eq!(resolver.permits.available_permits(), LOOKUPS_MAX - 1);
        drop(release);
        let all = u32::try_from(LOOKUPS_MAX).unwrap();
        assert!(
            resolver.permits.acquire_many(all).await.is_ok(),
            "the permit comes back when the thread is free"
        );
    }
}
