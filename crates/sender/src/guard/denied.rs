//! Networks that the operator forbids the sender to dial.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::allowed::{InvalidNetwork, parse_networks, write_networks};

/// The networks of the setting `DENY_NETWORKS`. They may be public, and a denied network is refused even if it is also
/// allowed. `Display` writes them in the syntax of the setting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeniedNetworks(BTreeSet<IpNet>);

impl DeniedNetworks {
    /// Parses networks and addresses separated by commas.
    pub fn parse(text: &str) -> Result<Self, InvalidNetwork> {
        parse_networks(text).map(Self)
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

impl fmt::Display for DeniedNetworks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_networks(f, &self.0)
    }
}
