//! Settings and shared state of the registry's API.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::seal::{MasterKeys, NONCE_BYTES, SealedId, SealedValue};
use posthaste_domain::{Throttle, Timestamp};
use zeroize::Zeroizing;

use super::error::RegistryError;
use super::token::TokenSecret;
use crate::api::ApiState;
use crate::cached::Cached;
use crate::error::ApiError;

/// How long a token for the portal is valid by default.
const PORTAL_TOKEN_LIFETIME: Duration = Duration::from_secs(28 * 86_400);
/// Events per second that a background operation reopens or adds by default.
const OPERATION_RATE: i64 = 100;

/// A source of random bytes for secrets and nonces.
pub trait RandomBytes: Send + Sync + 'static {
    /// Fills the slice with bytes that no other party can predict.
    fn fill(&self, bytes: &mut [u8]);
}

/// What the API needs to serve the registry.
#[derive(Clone)]
pub struct RegistrySettings {
    /// The secret under which tokens are signed. Without one, no token is accepted or issued.
    pub token_secret: Option<Arc<TokenSecret>>,
    /// The keys under which secrets and custom headers are sealed at rest.
    pub master_keys: Arc<MasterKeys>,
    pub random: Arc<dyn RandomBytes>,
    /// The URL under which users reach this server, such as `https://hooks.example`. Without one, links repeat the host of the
    /// request.
    pub public_url: Option<String>,
    /// How long a token for the portal is valid.
    pub portal_token_lifetime: Duration,
    /// Events per second that a background operation reopens or adds.
    pub operation_rate: Throttle,
}

impl RegistrySettings {
    /// Returns settings without tokens and without sealing.
    pub fn new(random: Arc<dyn RandomBytes>) -> Self {
        Self {
            token_secret: None,
            master_keys: Arc::new(MasterKeys::none()),
            random,
            public_url: None,
            portal_token_lifetime: PORTAL_TOKEN_LIFETIME,
            operation_rate: Throttle::new(OPERATION_RATE).expect("the default rate is within the limits"),
        }
    }
}

/// The registry's part of the state that all handlers share.
pub(crate) struct RegistryState {
    pub(crate) settings: RegistrySettings,
    /// The store's time with the monotonic time at which it was read; `None` while the store is unavailable.
    store_time: Cached<Option<(Timestamp, Duration)>>,
}

impl RegistryState {
    pub(crate) fn new(settings: RegistrySettings) -> Self {
        Self { settings, store_time: Cached::default() }
    }

    /// Draws random bytes.
    pub(crate) fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.settings.random.fill(&mut bytes);
        bytes
    }

    /// Seals a value under a new id.
    pub(crate) fn seal(&self, plaintext: &[u8]) -> SealedValue {
        let id = SealedId::random(self.random());
        self.settings.master_keys.seal(id, plaintext, self.random::<NONCE_BYTES>())
    }

    /// Opens a sealed value. A value that cannot be opened is a mistake of the configuration, which the log names.
    pub(crate) fn open(&self, value: &SealedValue) -> Result<Zeroizing<Vec<u8>>, RegistryError> {
        self.settings.master_keys.open(value).map_err(|error| {
            tracing::error!(%error, "a stored secret cannot be opened");
            RegistryError::Internal
        })
    }
}

/// Returns the time of the store's clock, which dates messages and retries. It is read from the store once a second at most.
pub(crate) async fn store_now(state: &ApiState) -> Result<Timestamp, ApiError> {
    let read = async {
        let health = state.store.health().await.ok()?;
        Some((health.now, state.clock.monotonic()))
    };
    let cached = state.registry.store_time.get_or_compute(&*state.clock, read).await;
    let (now, read_at) =
        cached.ok_or(ApiError::Busy("the store is unavailable; repeat the request in a moment"))?;
    Ok(now.after(state.clock.monotonic().saturating_sub(read_at)))
}
