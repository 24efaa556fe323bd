//! The hosts file: names that an operator has given an address on this host.
//!
//! It is read here for both resolvers. The C library does not find `localhost.` in it, since it compares names with
//! their final dot; and a name that is in it for one family only is not looked up elsewhere for the other.

use std::net::IpAddr;

use hickory_resolver::Hosts;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};

use super::addresses_in;

#[derive(Debug)]
pub(super) struct HostsFile(Hosts);

impl HostsFile {
    /// As it is now; later changes are not seen. A host without the file has no such names.
    pub(super) fn of_system() -> Self {
        Self(Hosts::from_system().unwrap_or_default())
    }

    pub(super) fn empty() -> Self {
        Self(Hosts::default())
    }

    pub(super) fn addresses(&self, name: &Name) -> Option<Vec<IpAddr>> {
        let of_type = |record_type| self.0.lookup_static_host(&Query::query(name.clone(), record_type));
        let found = [of_type(RecordType::A), of_type(RecordType::AAAA)];
        let addresses: Vec<_> = found.iter().flatten().flat_map(addresses_in).collect();
        (!addresses.is_empty()).then_some(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::qualified::qualified;

    #[test]
    fn a_name_in_the_file_has_the_addresses_that_stand_there_and_no_others() {
        let mut hosts = Hosts::default();
        let text =
            "127.0.0.1 localhost\n::1 localhost # both\n\n10.0.0.7 Receiver.Example receiver\nnonsense\n";
        hosts.read_hosts_conf(text.as_bytes()).unwrap();
        let file = HostsFile(hosts);
        let found = |name: &str| {
            let addresses = file.addresses(&qualified(name).unwrap());
            addresses.map(|addresses| addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(found("localhost").as_deref(), Some("127.0.0.1 ::1"));
        assert_eq!(found("receiver.example.").as_deref(), Some("10.0.0.7"));
        assert_eq!(found("RECEIVER").as_deref(), Some("10.0.0.7"));
        assert_eq!(found("other.example"), None);
        assert_eq!(HostsFile::empty().addresses(&qualified("localhost").unwrap()), None);
    }
}
