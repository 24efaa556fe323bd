//! The hosts file: names that an operator has given an address on this host.
//!
//! It is read here for both resolvers. The C library does not find `localhost.` in it, since it compares names with
//! their final dot; and a name that is in it for one family only is not looked up elsewhere for the other.

use std::net::IpAddr;

use hickory_resolver::Hosts;
use hickory_resolver::lookup::Lookup;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};

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
        let addresses: Vec<_> = found.iter().flatten().flat_map(addresses).collect();
        (!addresses.is_empty()).then_some(addresses)
    }
}

pub(super) fn addresses(lookup: &Lookup) -> impl Iterator<Item = IpAddr> + '_ {
    lookup.answers().iter().filter_map(|record| record.data.ip_addr())
}
