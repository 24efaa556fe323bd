//! The destinations that requests were recently sent to, with everything that is the same for all requests to them.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use posthaste_domain::{DestinationId, DestinationUrl, Lease};

use crate::failure::Failure;
use crate::pool::{OriginConnections, Pool};
use crate::target::Target;

/// Upper bound of destinations that are kept. The longest URLs make an entry of a few kilobytes.
const DESTINATIONS_MAX: NonZeroUsize = NonZeroUsize::new(4_096).expect("the number is not zero");

/// A destination, ready for a request: its parsed URL and the connections to its origin.
pub(crate) struct Destination {
    url: DestinationUrl,
    pub(crate) target: Target,
    pub(crate) connections: Arc<OriginConnections>,
}

/// The recently used destinations. A URL is parsed once, not for every request.
pub(crate) struct Destinations {
    pool: Arc<Pool>,
    recent: Mutex<LruCache<DestinationId, Arc<Destination>>>,
}

impl Destinations {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Self { pool, recent: Mutex::new(LruCache::new(DESTINATIONS_MAX)) }
    }

    /// Returns the destination of a lease. Fails if another program has stored a URL that cannot be sent to.
    pub(crate) fn of_lease(&self, lease: &Lease) -> Result<Arc<Destination>, Failure> {
        if let Some(known) = self.find(lease) {
            return Ok(known);
        }
        let target = Target::parse(&lease.destination_url)?;
        let connections = self.pool.connections_to(&target.origin);
        let added = Arc::new(Destination { url: lease.destination_url.clone(), target, connections });
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.put(lease.destination_id, Arc::clone(&added));
        Ok(added)
    }

    /// Finds a destination by its id. Its URL may have changed since.
    fn find(&self, lease: &Lease) -> Option<Arc<Destination>> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.get(&lease.destination_id).filter(|known| known.url == lease.destination_url).cloned()
    }
}
