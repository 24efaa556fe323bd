//! A new connection to a receiver: its addresses are judged, one is dialled, and a protocol is agreed on.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::ErrorClass;
use tokio::net::TcpStream;
use url::Host;

use crate::deadline::{Progress, Stage};
use crate::dial::{ADDRESSES_MAX, dial, in_turns};
use crate::failure::Failure;
use crate::guard::{Guard, Permitted};
use crate::link::{Http1, Http2, Link};
use crate::meter::{Meter, Metered};
use crate::options::{InvalidOptions, SenderOptions};
use crate::proxy::{NoTunnel, Proxy, TunnelTarget};
use crate::race::first;
use crate::resolve::Resolve;
use crate::stream::Stream;
use crate::target::Origin;
use crate::tls::Tls;

/// Addresses of one receiver that a proxy is asked for.
const TUNNELS_MAX: usize = 3;
/// How long a tunnel may take before the next is asked for beside it: longer than to dial, since the proxy dials too.
const TUNNEL_PATIENCE: Duration = Duration::from_secs(1);

pub(crate) struct Connector {
    guard: Guard,
    resolver: Arc<dyn Resolve>,
    proxy: Option<Proxy>,
    tls: Tls,
}

impl Connector {
    pub(crate) fn new(options: &SenderOptions) -> Result<Self, InvalidOptions> {
        Ok(Self {
            guard: Guard::new(options.allowed_networks.clone()),
            resolver: Arc::clone(&options.resolver),
            proxy: options.proxy.clone(),
            tls: Tls::new(options.ca_file.as_deref())?,
        })
    }

    pub(crate) async fn connect(&self, origin: &Origin, progress: &Progress) -> Result<Link, Failure> {
        let meter = Meter::new();
        let stream = Metered::new(self.reach(origin, progress).await?, Arc::clone(&meter));
        if !origin.secure {
            return Ok(Link::Http1(Box::new(Http1::open(Stream::Plain(stream), meter).await?)));
        }
        progress.reached(Stage::Tls);
        let secured = self.tls.handshake(&origin.host, stream).await?;
        let stream = Stream::Tls(secured.stream);
        Ok(if secured.http2 {
            Link::Http2(Http2::open(stream, meter).await?.first_place())
        } else {
            Link::Http1(Box::new(Http1::open(stream, meter).await?))
        })
    }

    async fn reach(&self, origin: &Origin, progress: &Progress) -> Result<TcpStream, Failure> {
        let Some(proxy) = &self.proxy else {
            let addresses = self.permitted(origin, ADDRESSES_MAX, progress).await?;
            progress.reached(Stage::Connect);
            return dial(&addresses).await.map_err(|error| not_reached(&error));
        };
        let targets = match &origin.host {
            Host::Domain(name) if proxy.takes_names() => vec![TunnelTarget::Name { name, port: origin.port }],
            _ => {
                let addresses = self.permitted(origin, TUNNELS_MAX, progress).await?.into_iter();
                addresses.map(|address| TunnelTarget::Address(address.address())).collect()
            }
        };
        progress.reached(Stage::Proxy);
        let addresses = self.addresses_of(proxy).await?;
        let ask_for = |target| tunnel(proxy, &addresses, target);
        let tunnelled = first(targets, TUNNEL_PATIENCE, ask_for, NoTunnel::is_to_anything).await;
        tunnelled.map_err(|refused| refused.expect("a receiver has a name or an address").into())
    }

    /// Whatever keeps us from the proxy is no fault of the receiver's name.
    async fn addresses_of(&self, proxy: &Proxy) -> Result<Vec<Permitted>, Failure> {
        let addresses = self.addresses(proxy.host(), proxy.port()).await;
        let addresses = addresses.map_err(|failure| of_proxy(&failure.detail))?;
        let addresses: Vec<_> = addresses.into_iter().map(Permitted::by_configuration).collect();
        Ok(in_turns(&addresses, ADDRESSES_MAX))
    }

    /// The addresses that are tried: so many of those that the name has, or none if any of all is forbidden.
    async fn permitted(
        &self,
        origin: &Origin,
        max: usize,
        progress: &Progress,
    ) -> Result<Vec<Permitted>, Failure> {
        progress.reached(Stage::Lookup);
        let addresses = self.addresses(&origin.host, origin.port).await?;
        let permitted = self
            .guard
            .permit_all(addresses)
            .map_err(|forbidden| Failure::new(ErrorClass::BlockedAddress, forbidden.to_string()))?;
        Ok(in_turns(&permitted, max))
    }

    async fn addresses(&self, host: &Host<String>, port: u16) -> Result<Vec<SocketAddr>, Failure> {
        let addresses = match host {
            Host::Domain(name) => {
                let looked_up = self.resolver.lookup(name).await;
                looked_up.map_err(|error| Failure::new(ErrorClass::Dns, error.to_string()))?
            }
            Host::Ipv4(address) => vec![IpAddr::from(*address)],
            Host::Ipv6(address) => vec![IpAddr::from(*address)],
        };
        if addresses.is_empty() {
            return Err(Failure::new(ErrorClass::Dns, format!("{host} has no address")));
        }
        Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }
}

/// On a connection to the proxy that is its own.
async fn tunnel(
    proxy: &Proxy,
    addresses: &[Permitted],
    target: TunnelTarget<'_>,
) -> Result<TcpStream, NoTunnel> {
    let dialled = dial(addresses).await;
    let mut stream = dialled.map_err(|error| NoTunnel::ToAnything(of_proxy(&error)))?;
    proxy.tunnel(&mut stream, &target).await?;
    Ok(stream)
}

fn of_proxy(why: &dyn fmt::Display) -> Failure {
    Failure::new(ErrorClass::Connect, format!("the egress proxy: {why}"))
}

fn not_reached(error: &std::io::Error) -> Failure {
    Failure::new(ErrorClass::Connect, error.to_string())
}
