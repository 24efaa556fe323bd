//! A new connection to a receiver: its addresses are judged, one is dialled, and a protocol is agreed on.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use posthaste_domain::ErrorClass;
use tokio::net::TcpStream;
use url::Host;

use crate::deadline::{Progress, Stage};
use crate::dial::dial;
use crate::failure::Failure;
use crate::guard::{Guard, Permitted};
use crate::link::{Http1, Http2, Link};
use crate::meter::{Meter, Metered};
use crate::options::{InvalidOptions, SenderOptions};
use crate::proxy::{Proxy, TunnelTarget};
use crate::resolve::Resolve;
use crate::stream::Stream;
use crate::target::Origin;
use crate::tls::Tls;

/// Addresses of one receiver that a proxy is asked for, one after the other.
const TUNNELS_MAX: usize = 3;

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
            let addresses = self.permitted(origin, progress).await?;
            progress.reached(Stage::Connect);
            return dial(&addresses).await.map_err(|error| unreachable(&error));
        };
        let targets = match &origin.host {
            Host::Domain(name) if proxy.takes_names() => vec![TunnelTarget::Name { name, port: origin.port }],
            _ => {
                let addresses = self.permitted(origin, progress).await?.into_iter();
                addresses.map(|address| TunnelTarget::Address(address.address())).take(TUNNELS_MAX).collect()
            }
        };
        progress.reached(Stage::Proxy);
        let mut refused = None;
        for target in &targets {
            match self.tunnel(proxy, target).await {
                Ok(stream) => return Ok(stream),
                Err(failure) => refused = Some(failure),
            }
        }
        Err(refused.unwrap_or_else(|| Failure::new(ErrorClass::Dns, "the name has no address")))
    }

    async fn tunnel(&self, proxy: &Proxy, target: &TunnelTarget<'_>) -> Result<TcpStream, Failure> {
        // Whatever keeps us from the proxy is no fault of the receiver's name.
        let of_proxy = |detail| Failure::new(ErrorClass::Connect, format!("the egress proxy: {detail}"));
        let addresses = self.addresses(proxy.host(), proxy.port()).await;
        let addresses = addresses.map_err(|failure| of_proxy(failure.detail))?;
        let addresses: Vec<_> = addresses.into_iter().map(Permitted::by_configuration).collect();
        let mut stream = dial(&addresses).await.map_err(|error| of_proxy(error.to_string()))?;
        proxy.tunnel(&mut stream, target).await?;
        Ok(stream)
    }

    /// The addresses that may be dialled: all that the name has, or none if any of them is forbidden.
    async fn permitted(&self, origin: &Origin, progress: &Progress) -> Result<Vec<Permitted>, Failure> {
        progress.reached(Stage::Lookup);
        let addresses = self.addresses(&origin.host, origin.port).await?;
        self.guard
            .permit_all(addresses)
            .map_err(|forbidden| Failure::new(ErrorClass::BlockedAddress, forbidden.to_string()))
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

fn unreachable(error: &std::io::Error) -> Failure {
    Failure::new(ErrorClass::Connect, error.to_string())
}
