//! The host's own resolver, for hosts whose names come from elsewhere than DNS.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use async_trait::async_trait;
use hickory_resolver::proto::rr::Name;

use super::asking::{Asking, shown};
use super::hosts::HostsFile;
use super::qualified::qualified;
use super::{LookupError, Resolve};

/// Asks the C library, on threads of its own, and believes an answer for a few seconds; what else the host caches is
/// its own affair. The hosts file is read once.
pub struct SystemResolver {
    hosts: HostsFile,
    asking: Arc<Asking>,
}

impl SystemResolver {
    pub fn new() -> Self {
        Self { hosts: HostsFile::of_system(), asking: Asking::new(Box::new(look)) }
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
            None => self.asking.lookup(asked).await,
        }
    }
}

fn look(name: &Name) -> Result<Vec<IpAddr>, LookupError> {
    let found =
        (name.to_ascii().as_str(), 0).to_socket_addrs().map_err(|error| classified(&shown(name), &error))?;
    let addresses: Vec<_> = found.map(|address| address.ip()).collect();
    if addresses.is_empty() { Err(LookupError::NoAddress(shown(name))) } else { Ok(addresses) }
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
}
