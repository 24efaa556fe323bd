//! The check of a destination before an event to it is accepted.

use std::net::{IpAddr, SocketAddr};

use posthaste_domain::DestinationUrl;
use url::Host;

use super::{AddressGuard, ForbiddenAddress};

/// Why events to a destination are refused before any lookup of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ForbiddenDestination {
    #[error("destination_url has the scheme http; this server sends to https only (https_only)")]
    NotHttps,
    #[error(transparent)]
    Address(#[from] ForbiddenAddress),
}

impl AddressGuard {
    /// Checks a destination without a lookup: its scheme, and its address if the URL contains one. A host name may still
    /// resolve to a forbidden address, and the address that it resolves to may change, so every connection is checked again.
    pub fn check_destination(&self, destination: &DestinationUrl) -> Result<(), ForbiddenDestination> {
        // An invalid URL is refused where it is parsed.
        let Ok(url) = destination.to_url() else { return Ok(()) };
        self.check_scheme(url.scheme() == "https")?;
        let address = match url.host() {
            Some(Host::Ipv4(address)) => IpAddr::from(address),
            Some(Host::Ipv6(address)) => IpAddr::from(address),
            Some(Host::Domain(_)) | None => return Ok(()),
        };
        self.permit(SocketAddr::new(address, url.port_or_known_default().unwrap_or_default()))?;
        Ok(())
    }

    /// Checks whether requests may be sent with or without TLS.
    pub(crate) fn check_scheme(&self, is_https: bool) -> Result<(), ForbiddenDestination> {
        if self.https_only && !is_https { Err(ForbiddenDestination::NotHttps) } else { Ok(()) }
    }
}
