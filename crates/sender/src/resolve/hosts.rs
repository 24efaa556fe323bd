//! The hosts file: names to which the operator has assigned addresses on this host.
//!
//! Both resolvers use this lookup. The C library's own does not find `localhost.`, because it compares names with their
//! trailing dot. A name that the file lists for one address family is not looked up in DNS for the other.

use std::net::IpAddr;

use hickory_resolver::Hosts;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};

use super::addresses_in;

/// The entries of a hosts file.
#[derive(Debug)]
pub(super) struct HostsFile(Hosts);

impl HostsFile {
    /// Reads the system's hosts file once; later changes have no effect. Empty if the file cannot be read.
    pub(super) fn from_system() -> Self {
        Self(Hosts::from_system().unwrap_or_default())
    }

    pub(super) fn empty() -> Self {
        Self(Hosts::default())
    }

    /// Returns the addresses of a name, or `None` if the file does not list it.
    pub(super) fn addresses(&self, name: &Name) -> Option<Vec<IpAddr>> {
        let lookup_type = |record_type| self.0.lookup_static_host(&Query::query(name.clone(), record_type));
        let records = [lookup_type(RecordType::A), lookup_type(RecordType::AAAA)];
        let addresses: Vec<_> = records.iter().flatten().flat_map(addresses_in).collect();
        (!addresses.is_empty()).then_some(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::parse_host_name;

    #[test]
    fn lookup_returns_exactly_the_addresses_in_the_file() {
        let mut hosts = Hosts::default();
        let text =
            "127.0.0.1 localhost\n::1 localhost # both\n\n10.0.0.7 Receiver.Example receiver\nnonsense\n";
        hosts.read_hosts_conf(text.as_bytes()).unwrap();
        let file = HostsFile(hosts);
        let addresses_of = |name: &str| {
            let addresses = file.addresses(&parse_host_name(name).unwrap());
            addresses.map(|addresses| addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(addresses_of("localhost").as_deref(), Some("127.0.0.1 ::1"));
        assert_eq!(addresses_of("receiver.example.").as_deref(), Some("10.0.0.7"));
        assert_eq!(addresses_of("RECEIVER").as_deref(), Some("10.0.0.7"));
        assert_eq!(addresses_of("other.example"), None);
        assert_eq!(HostsFile::empty().addresses(&parse_host_name("localhost").unwrap()), None);
    }
}
