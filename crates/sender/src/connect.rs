//! Opens a connection to a receiver: resolves its name, checks and dials its addresses, and negotiates TLS and HTTP.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::ErrorClass;
use url::Host;

use crate::connection::{Connection, Http1Connection, Http2Connection};
use crate::deadline::{Phase, Progress};
use crate::dial::{ADDRESSES_MAX, DialError, dial, interleave_families};
use crate::failure::Failure;
use crate::guard::{AddressGuard, PermittedAddress};
use crate::options::{InvalidOptions, SenderOptions};
use crate::proxy::{Proxy, TunnelError, TunnelTarget};
use crate::race::first_success;
use crate::receive_budget::{BudgetedStream, ReceiveBudget};
use crate::resolve::{LookupError, Resolver};
use crate::shortage::AttemptError;
use crate::sockets::{Socket, SocketBudget};
use crate::stream::Stream;
use crate::target::Origin;
use crate::tls::TlsClient;

/// Upper bound of addresses of one receiver that are requested from a proxy.
const TUNNELS_MAX: usize = 3;
/// Delay before the next tunnel is requested in parallel. Longer than for direct dialling, because the proxy dials too.
const NEXT_TUNNEL_DELAY: Duration = Duration::from_secs(1);

/// Sockets that one lookup may need: two name servers are asked for each of the two address families.
const LOOKUP_SOCKETS: usize = 4;

/// Opens connections to receivers, directly or through the egress proxy.
pub(crate) struct Connector {
    guard: AddressGuard,
    resolver: Arc<dyn Resolver>,
    proxy: Option<Proxy>,
    tls: TlsClient,
    sockets: SocketBudget,
}

impl Connector {
    pub(crate) fn new(options: &SenderOptions, sockets: SocketBudget) -> Result<Self, InvalidOptions> {
        Ok(Self {
            guard: AddressGuard::new(options),
            resolver: Arc::clone(&options.resolver),
            proxy: options.proxy.clone(),
            tls: TlsClient::new(options.ca_file.as_deref())?,
            sockets,
        })
    }

    /// Opens a connection that is ready for its first request.
    pub(crate) async fn connect(
        &self,
        origin: &Origin,
        progress: &Progress,
    ) -> Result<Connection, AttemptError> {
        self.guard.check_scheme(origin.secure).map_err(|forbidden| blocked(&forbidden))?;
        let budget = ReceiveBudget::new();
        let stream = BudgetedStream::new(self.open_tcp(origin, progress).await?, Arc::clone(&budget));
        if !origin.secure {
            let http1 = Http1Connection::open(Stream::Plain(stream), budget).await?;
            return Ok(Connection::Http1(Box::new(http1)));
        }
        progress.enter(Phase::Tls);
        let tls = self.tls.handshake(&origin.host, stream).await?;
        let stream = Stream::Tls(tls.stream);
        Ok(if tls.is_http2 {
            Connection::Http2(Http2Connection::open(stream, budget).await?.reserve_first_slot())
        } else {
            Connection::Http1(Box::new(Http1Connection::open(stream, budget).await?))
        })
    }

    /// Opens a TCP stream to the receiver, or a tunnel to it through the proxy.
    async fn open_tcp(&self, origin: &Origin, progress: &Progress) -> Result<Socket, AttemptError> {
        let Some(proxy) = &self.proxy else {
            let addresses = self.permitted_addresses(origin, ADDRESSES_MAX, progress).await?;
            progress.enter(Phase::Connect);
            return dial(&addresses, &self.sockets).await.map_err(connect_error);
        };
        let targets = match &origin.host {
            Host::Domain(name) if proxy.resolves_names() => {
                vec![TunnelTarget::Name { name, port: origin.port }]
            }
            _ => {
                let addresses = self.permitted_addresses(origin, TUNNELS_MAX, progress).await?.into_iter();
                addresses.map(|address| TunnelTarget::Address(address.address())).collect()
            }
        };
        progress.enter(Phase::Proxy);
        let addresses = self.proxy_addresses(proxy).await?;
        let open = |target| open_tunnel(proxy, &addresses, &self.sockets, target);
        let tunnel =
            first_success(targets, NEXT_TUNNEL_DELAY, open, TunnelError::applies_to_all_targets).await;
        tunnel.map_err(|error| error.expect("a receiver has a name or an address").into())
    }

    /// Looks up the proxy's addresses. A failed lookup is a failure to connect, not a DNS failure of the receiver.
    async fn proxy_addresses(&self, proxy: &Proxy) -> Result<Vec<PermittedAddress>, AttemptError> {
        let addresses = self.lookup(proxy.host(), proxy.port()).await;
        let addresses = addresses.map_err(|error| match error {
            AttemptError::Failed(failure) => proxy_failure(&failure.detail).into(),
            AttemptError::Shortage(_) => error,
        })?;
        let addresses: Vec<_> = addresses.into_iter().map(PermittedAddress::from_configuration).collect();
        Ok(interleave_families(&addresses, ADDRESSES_MAX))
    }

    /// Returns up to `max` addresses of the receiver. Fails if the guard forbids any of its addresses, including those
    /// beyond `max`.
    async fn permitted_addresses(
        &self,
        origin: &Origin,
        max: usize,
        progress: &Progress,
    ) -> Result<Vec<PermittedAddress>, AttemptError> {
        progress.enter(Phase::Lookup);
        let addresses = self.lookup(&origin.host, origin.port).await?;
        let permitted = self.guard.permit_all(addresses).map_err(|forbidden| blocked(&forbidden))?;
        Ok(interleave_families(&permitted, max))
    }

    /// Returns all addresses of a host; an IP literal needs no lookup.
    async fn lookup(&self, host: &Host<String>, port: u16) -> Result<Vec<SocketAddr>, AttemptError> {
        let addresses = match host {
            Host::Domain(name) => {
                let _sockets = self.sockets.reserve(LOOKUP_SOCKETS)?;
                self.resolver.lookup(name).await.map_err(lookup_error)?
            }
            Host::Ipv4(address) => vec![IpAddr::from(*address)],
            Host::Ipv6(address) => vec![IpAddr::from(*address)],
        };
        if addresses.is_empty() {
            return Err(Failure::new(ErrorClass::Dns, format!("{host} has no address")).into());
        }
        Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }
}

fn blocked(reason: &dyn std::fmt::Display) -> Failure {
    Failure::new(ErrorClass::BlockedAddress, reason.to_string())
}

/// Dials the proxy and requests a tunnel on the new connection.
async fn open_tunnel(
    proxy: &Proxy,
    addresses: &[PermittedAddress],
    sockets: &SocketBudget,
    target: TunnelTarget<'_>,
) -> Result<Socket, TunnelError> {
    let mut socket = dial(addresses, sockets).await.map_err(|error| match error {
        DialError::Failed(error) => TunnelError::AllTargets(proxy_failure(&error)),
        DialError::Shortage(shortage) => TunnelError::Shortage(shortage),
    })?;
    proxy.open_tunnel(&mut socket, &target).await?;
    Ok(socket)
}

fn proxy_failure(error: &dyn fmt::Display) -> Failure {
    Failure::new(ErrorClass::Connect, format!("the egress proxy: {error}"))
}

fn connect_error(error: DialError) -> AttemptError {
    match error {
        DialError::Failed(error) => Failure::new(ErrorClass::Connect, error.to_string()).into(),
        DialError::Shortage(shortage) => shortage.into(),
    }
}

fn lookup_error(error: LookupError) -> AttemptError {
    match error {
        LookupError::Shortage(shortage) => shortage.into(),
        error => Failure::new(ErrorClass::Dns, error.to_string()).into(),
    }
}
