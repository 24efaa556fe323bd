//! The host's own resolver, for hosts whose names come from sources other than DNS.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use async_trait::async_trait;
use hickory_resolver::proto::rr::Name;

use super::hosts::HostsFile;
use super::scheduler::{LookupScheduler, display_name};
use super::{LookupError, Resolver, parse_host_name};
use crate::shortage::{current_shortage, shortage_of};

/// Calls the C library's resolver on blocking threads and caches an answer for a few seconds. It reads the hosts file
/// once; the host's resolver may have caches of its own.
pub struct SystemResolver {
    hosts: HostsFile,
    scheduler: Arc<LookupScheduler>,
}

impl SystemResolver {
    /// Creates a resolver, and reads the hosts file.
    pub fn new() -> Self {
        Self { hosts: HostsFile::from_system(), scheduler: LookupScheduler::new(Box::new(blocking_lookup)) }
    }
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Resolver for SystemResolver {
    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        let qualified = parse_host_name(name)?;
        match self.hosts.addresses(&qualified) {
            Some(addresses) => Ok(addresses),
            None => self.scheduler.lookup(qualified).await,
        }
    }
}

fn blocking_lookup(name: &Name) -> Result<Vec<IpAddr>, LookupError> {
    let result = (name.to_ascii().as_str(), 0).to_socket_addrs();
    // The C library reports a missing descriptor as a missing name, because it cannot open its own files either.
    let addresses = result.map_err(|error| match shortage_of(&error).or_else(current_shortage) {
        Some(shortage) => LookupError::Shortage(shortage),
        None => classify(&display_name(name), &error),
    })?;
    let addresses: Vec<_> = addresses.map(|address| address.ip()).collect();
    if addresses.is_empty() { Err(LookupError::NoAddress(display_name(name))) } else { Ok(addresses) }
}

/// Classifies a lookup error by its text, because the standard library drops the error code of the C library. The texts
/// are those of glibc and musl for a name without an address.
fn classify(name: &str, error: &io::Error) -> LookupError {
    let no_address_messages = [
        "Name or service not known",
        "No address associated with hostname",
        "Name does not resolve",
        "Name has no usable address",
    ];
    let message = error.to_string();
    if no_address_messages.iter().any(|known| message.contains(known)) {
        LookupError::NoAddress(name.to_owned())
    } else {
        LookupError::failed(name, "the host's resolver does not answer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn localhost_with_a_trailing_dot_is_found_in_the_hosts_file() {
        for name in ["localhost", "localhost."] {
            let addresses = SystemResolver::new().lookup(name).await.unwrap();
            assert!(addresses.iter().all(IpAddr::is_loopback), "{addresses:?}");
        }
    }

    #[tokio::test]
    async fn an_ip_address_is_not_looked_up() {
        let error = SystemResolver::new().lookup("127.0.0.1").await.unwrap_err();
        assert_eq!(error, LookupError::InvalidName("127.0.0.1".to_owned()));
    }

    #[test]
    fn a_missing_name_is_distinguished_from_a_resolver_failure() {
        let classified = |message: &str| classify("receiver.example", &io::Error::other(message));
        let no_address = LookupError::NoAddress("receiver.example".to_owned());
        assert_eq!(classified("failed to lookup address information: Name or service not known"), no_address);
        assert_eq!(classified("failed to lookup address information: Name does not resolve"), no_address);
        let message = "failed to lookup address information: Temporary failure in name resolution";
        assert!(matches!(classified(message), LookupError::Failed { .. }));
    }
}
