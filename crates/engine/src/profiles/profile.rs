//! One profile, opened.

use posthaste_domain::seal::{MasterKeys, OpenError};
use posthaste_domain::signature::{EndpointKeys, EndpointSecret, InvalidSecret};
use posthaste_domain::{ApplicationId, CustomHeaders, InvalidHeaders, Timestamp};
use posthaste_store::DestinationProfile;

/// Memory of a profile without keys and headers, and of a key, in bytes. Both are estimates.
const PROFILE_BYTES: usize = 256;
const KEY_BYTES: usize = 400;

/// What a destination adds to its requests: its own signing keys and custom headers. `Debug` shows neither.
#[derive(Debug, Clone)]
pub struct Profile {
    version: i64,
    app: Option<ApplicationId>,
    keys: Option<EndpointKeys>,
    /// When each of the keys retires, in the same order.
    retirements: Vec<Option<Timestamp>>,
    headers: CustomHeaders,
}

/// Why a stored profile cannot be used. No message shows a part of a key or a header.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnusableProfile {
    #[error("the store has no keys and headers of the destination")]
    Missing,
    #[error(transparent)]
    Sealed(#[from] OpenError),
    #[error("a stored key is not text")]
    NotText,
    #[error("a stored key is not usable: {0}")]
    Key(#[from] InvalidSecret),
    #[error("the stored headers are not usable: {0}")]
    Headers(#[from] InvalidHeaders),
}

impl Profile {
    /// Creates a profile of a URL, whose keys do not retire. Without keys, the instance's keys sign.
    pub fn new(version: i64, keys: Option<EndpointKeys>, headers: CustomHeaders) -> Self {
        let retirements = vec![None; keys.as_ref().map_or(0, |keys| keys.keys().len())];
        Self { version, app: None, keys, retirements, headers }
    }

    /// Opens a stored profile.
    pub(super) fn open(
        stored: &DestinationProfile,
        master_keys: &MasterKeys,
    ) -> Result<Self, UnusableProfile> {
        let open_key = |sealed| {
            let text = master_keys.open(sealed)?;
            let text = std::str::from_utf8(&text).map_err(|_| UnusableProfile::NotText)?;
            Ok::<_, UnusableProfile>(EndpointSecret::parse(text)?)
        };
        let keys = stored.keys.iter().map(|key| open_key(&key.sealed)).collect::<Result<Vec<_>, _>>()?;
        let headers = match &stored.headers {
            None => CustomHeaders::default(),
            Some(sealed) => CustomHeaders::decode(&master_keys.open(sealed)?)?,
        };
        Ok(Self {
            version: stored.version,
            app: stored.app,
            keys: if keys.is_empty() { None } else { Some(EndpointKeys::new(keys)?) },
            retirements: stored.keys.iter().map(|key| key.retires_at).collect(),
            headers,
        })
    }

    /// Grows with every change of the destination's URL, keys or headers.
    pub fn version(&self) -> i64 {
        self.version
    }

    /// The application of an endpoint. `None` if the destination is a URL.
    pub fn app(&self) -> Option<ApplicationId> {
        self.app
    }

    /// The keys that sign. `None` if the instance's keys do.
    pub fn keys(&self) -> Option<&EndpointKeys> {
        self.keys.as_ref()
    }

    /// The headers that are added to every request.
    pub fn headers(&self) -> &CustomHeaders {
        &self.headers
    }

    /// Returns the profile without the keys that have retired by this time. Returns none if none has.
    pub(super) fn without_retired_keys(&self, now: Timestamp) -> Option<Self> {
        let is_retired = |at: &Option<Timestamp>| at.is_some_and(|at| at <= now);
        if !self.retirements.iter().any(is_retired) {
            return None;
        }
        let keys = self.keys.iter().flat_map(EndpointKeys::keys).zip(&self.retirements);
        let valid = keys.filter(|(_, retirement)| !is_retired(retirement));
        let (keys, retirements): (Vec<_>, Vec<_>) = valid.map(|(key, at)| (key.clone(), *at)).unzip();
        // The newest key never retires, so one is left.
        let keys = EndpointKeys::new(keys).ok()?;
        Some(Self { keys: Some(keys), retirements, headers: self.headers.clone(), ..*self })
    }

    /// Returns about how many bytes of memory the profile takes.
    pub(super) fn bytes(&self) -> usize {
        let headers: usize =
            self.headers.iter().map(|(name, value)| 2 * name.len() + value.len() + 128).sum();
        PROFILE_BYTES + self.retirements.len() * KEY_BYTES + headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_domain::DestinationId;
    use posthaste_domain::seal::{SealedId, SealedValue};
    use posthaste_domain::signature::{Ed25519Key, KeyKind};
    use posthaste_store::DestinationKey;

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

    fn seal(number: u8, plaintext: &[u8]) -> SealedValue {
        MasterKeys::none().seal(SealedId::random([number; 16]), plaintext, [number; 12])
    }

    fn key(number: u8, retires_at: Option<Timestamp>) -> DestinationKey {
        let key = EndpointSecret::Ed25519(Ed25519Key::from_seed([number; 32]));
        let sealed = seal(number, key.reveal().as_bytes());
        DestinationKey { kind: KeyKind::Ed25519, sealed, created_at: NOW, created_by: None, retires_at }
    }

    fn stored(keys: Vec<DestinationKey>, headers: Option<SealedValue>) -> DestinationProfile {
        let app = Some(ApplicationId(7));
        DestinationProfile { destination: DestinationId(1), app, version: 3, keys, headers }
    }

    #[test]
    fn keys_stop_signing_when_they_retire() {
        let seconds = |seconds| NOW.after(std::time::Duration::from_secs(seconds));
        let stored = stored(vec![key(2, None), key(1, Some(seconds(60)))], None);
        let profile = Profile::open(&stored, &MasterKeys::none()).expect("the keys are in the clear");
        assert_eq!(profile.keys().expect("it has keys").keys().len(), 2);
        assert!(profile.without_retired_keys(seconds(59)).is_none());
        let later = profile.without_retired_keys(seconds(60)).expect("a key has retired");
        let newest = EndpointSecret::Ed25519(Ed25519Key::from_seed([2; 32]));
        assert_eq!(later.keys().expect("the newest key stays").keys(), [newest]);
        assert!(later.without_retired_keys(seconds(3_600)).is_none());
        assert_eq!((later.app(), later.version()), (stored.app, 3));
    }

    #[test]
    fn a_profile_may_have_headers_alone() {
        let headers = CustomHeaders::new([("X-Team".to_owned(), "a".to_owned())]).expect("a valid header");
        let stored = stored(Vec::new(), Some(seal(9, &headers.encode())));
        let profile = Profile::open(&stored, &MasterKeys::none()).expect("the headers are in the clear");
        assert!(profile.keys().is_none());
        assert_eq!((profile.headers(), profile.version()), (&headers, 3));
    }

    #[test]
    fn what_cannot_be_opened_or_read_is_an_error_that_shows_no_secret() {
        let unusable = |stored| Profile::open(&stored, &MasterKeys::none()).expect_err("it is not usable");
        let sealed = |number, bytes: &[u8]| DestinationKey { sealed: seal(number, bytes), ..key(1, None) };
        assert_eq!(unusable(stored(vec![sealed(1, &[0xff])], None)), UnusableProfile::NotText);
        let hunter = unusable(stored(vec![sealed(1, b"whsec_hunter2")], None));
        assert!(!hunter.to_string().contains("hunter2"), "{hunter}");
        let headers = unusable(stored(vec![key(1, None)], Some(seal(9, b"no header"))));
        assert_eq!(headers, UnusableProfile::Headers(InvalidHeaders::Unreadable));
        let text = format!("k1:{}", "A".repeat(43) + "=");
        let master = MasterKeys::parse(&text).expect("a valid master key");
        let mut other = key(1, None);
        other.sealed = master.seal(other.sealed.id, b"whsec_hunter2", [1; 12]);
        let unknown = unusable(stored(vec![other], None));
        assert_eq!(unknown, UnusableProfile::Sealed(OpenError::UnknownKey { key_id: "k1".to_owned() }));
    }
}
