//! Sealing: secrets and custom headers at rest, encrypted with AES-256-GCM under the master keys of the instance.
//!
//! The associated data is the id of the value's row, so a value that is copied to another row cannot be opened there. Without
//! master keys a value is stored as it is.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use uuid::Uuid;
use zeroize::Zeroizing;

/// Bytes of a nonce, which the caller draws for every value that it seals.
pub const NONCE_BYTES: usize = 12;
/// Bytes of a master key.
const KEY_BYTES: usize = 32;
/// Longest id of a master key.
const KEY_ID_LEN_MAX: usize = 32;
/// Most master keys.
const KEYS_MAX: usize = 16;
/// First byte of a value that is stored as it is.
const CLEAR: u8 = 0;
/// First byte of a sealed value. The length of the key id, the key id, the nonce and the ciphertext with its tag follow.
const SEALED: u8 = 1;

/// The id of a sealed value, which is the key of its row: sixteen random bytes that the caller draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SealedId(Uuid);

impl SealedId {
    /// Builds the id from random bytes.
    pub fn random(bytes: [u8; 16]) -> Self {
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }

    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    pub const fn as_uuid(self) -> Uuid {
        self.0
    }
}

/// A sealed value as a store keeps it. `Debug` hides the bytes, which may be in the clear.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedValue {
    pub id: SealedId,
    pub bytes: Vec<u8>,
}

impl fmt::Debug for SealedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedValue").field("id", &self.id).finish_non_exhaustive()
    }
}

impl SealedValue {
    /// Returns the id of the master key under which the value is sealed. `None` if it is in the clear.
    pub fn key_id(&self) -> Option<&str> {
        self.parts().map(|parts| parts.key_id)
    }

    /// Splits a sealed value into its parts. `None` if it is in the clear or malformed.
    fn parts(&self) -> Option<Parts<'_>> {
        let (&version, rest) = self.bytes.split_first()?;
        let (&key_id_len, rest) = rest.split_first()?;
        let (key_id, rest) = rest.split_at_checked(key_id_len.into())?;
        let (nonce, ciphertext) = rest.split_at_checked(NONCE_BYTES)?;
        let key_id = std::str::from_utf8(key_id).ok().filter(|_| version == SEALED)?;
        Some(Parts { key_id, nonce: nonce.try_into().ok()?, ciphertext })
    }
}

struct Parts<'a> {
    key_id: &'a str,
    nonce: [u8; NONCE_BYTES],
    ciphertext: &'a [u8],
}

/// The master keys of an instance. The first one seals, and all of them open. `Debug` shows only their ids.
#[derive(Default)]
pub struct MasterKeys(Vec<MasterKey>);

struct MasterKey {
    id: String,
    key: LessSafeKey,
}

/// Why a list of master keys was refused. Messages identify a key by its position and show no part of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMasterKeys {
    #[error("master key {position} is not of the form id:base64; separate keys with commas")]
    Form { position: usize },
    #[error(
        "master key {position} has an id that is not 1 to {KEY_ID_LEN_MAX} letters, digits, hyphens or underscores"
    )]
    Id { position: usize },
    #[error(
        "master key {position} must be the base64 of {KEY_BYTES} bytes; make one with `openssl rand -base64 32`"
    )]
    Key { position: usize },
    #[error("master key {position} has the id of an earlier one; ids must differ")]
    Duplicate { position: usize },
    #[error("there are {0} master keys; at most {KEYS_MAX} are accepted")]
    TooMany(usize),
}

/// Why a value could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the value is sealed under master key {key_id:?}, which is not configured; add it to master_keys"
    )]
    UnknownKey { key_id: String },
    #[error(
        "the value does not open under master key {key_id:?}: the key or the row is another one, or the value was changed"
    )]
    Refused { key_id: String },
    #[error("the stored value has an unknown form")]
    Malformed,
}

impl MasterKeys {
    /// Parses `id:base64,…`. The first key seals new values.
    pub fn parse(text: &str) -> Result<Self, InvalidMasterKeys> {
        let texts: Vec<&str> = text.split(',').map(str::trim).collect();
        if texts.len() > KEYS_MAX {
            return Err(InvalidMasterKeys::TooMany(texts.len()));
        }
        let mut keys: Vec<MasterKey> = Vec::with_capacity(texts.len());
        for (position, text) in (1..).zip(texts) {
            let key = MasterKey::parse(text, position)?;
            if keys.iter().any(|earlier| earlier.id == key.id) {
                return Err(InvalidMasterKeys::Duplicate { position });
            }
            keys.push(key);
        }
        Ok(Self(keys))
    }

    /// Returns no keys: values are stored as they are.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns whether there are no master keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Seals a value under the first key. The caller draws the id and the nonce; neither may be used for another value.
    pub fn seal(&self, id: SealedId, plaintext: &[u8], nonce: [u8; NONCE_BYTES]) -> SealedValue {
        let Some(MasterKey { id: key_id, key }) = self.0.first() else {
            return SealedValue { id, bytes: [&[CLEAR], plaintext].concat() };
        };
        let mut ciphertext = plaintext.to_vec();
        key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            associated_data(id),
            &mut ciphertext,
        )
        .expect("the value is far smaller than the limit of AES-GCM");
        let key_id_len = u8::try_from(key_id.len()).expect("the id of a master key is short");
        let bytes = [&[SEALED, key_id_len], key_id.as_bytes(), &nonce, &ciphertext].concat();
        SealedValue { id, bytes }
    }

    /// Opens a value under the key that sealed it.
    pub fn open(&self, value: &SealedValue) -> Result<Zeroizing<Vec<u8>>, OpenError> {
        if let [CLEAR, plaintext @ ..] = &value.bytes[..] {
            return Ok(Zeroizing::new(plaintext.to_vec()));
        }
        let Parts { key_id, nonce, ciphertext } = value.parts().ok_or(OpenError::Malformed)?;
        let key = self.0.iter().find(|key| key.id == key_id);
        let key = key.ok_or_else(|| OpenError::UnknownKey { key_id: key_id.to_owned() })?;
        let mut plaintext = Zeroizing::new(ciphertext.to_vec());
        let nonce = Nonce::assume_unique_for_key(nonce);
        let length = key
            .key
            .open_in_place(nonce, associated_data(value.id), &mut plaintext)
            .map_err(|_| OpenError::Refused { key_id: key_id.to_owned() })?
            .len();
        plaintext.truncate(length);
        Ok(plaintext)
    }

    /// Returns whether the value is sealed as new values are: under the first key, or in the clear without keys.
    pub fn is_current(&self, value: &SealedValue) -> bool {
        value.key_id() == self.0.first().map(|key| key.id.as_str())
    }
}

impl MasterKey {
    fn parse(text: &str, position: usize) -> Result<Self, InvalidMasterKeys> {
        let (id, encoded) = text.split_once(':').ok_or(InvalidMasterKeys::Form { position })?;
        let is_id_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        if !(1..=KEY_ID_LEN_MAX).contains(&id.len()) || !id.bytes().all(is_id_byte) {
            return Err(InvalidMasterKeys::Id { position });
        }
        let bytes = BASE64.decode(encoded).map_err(|_| InvalidMasterKeys::Key { position })?;
        let key = UnboundKey::new(&AES_256_GCM, &Zeroizing::new(bytes));
        let key = key.map_err(|_| InvalidMasterKeys::Key { position })?;
        Ok(Self { id: id.to_owned(), key: LessSafeKey::new(key) })
    }
}

fn associated_data(id: SealedId) -> Aad<[u8; 16]> {
    Aad::from(*id.as_uuid().as_bytes())
}

impl fmt::Debug for MasterKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| &key.id)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str, byte: u8) -> String {
        format!("{id}:{}", BASE64.encode([byte; 32]))
    }

    fn keys(texts: &[String]) -> MasterKeys {
        MasterKeys::parse(&texts.join(",")).unwrap()
    }

    fn id(byte: u8) -> SealedId {
        SealedId::random([byte; 16])
    }

    #[test]
    fn a_sealed_value_opens_under_its_key_and_hides_the_plaintext() {
        let master = keys(&[key("k1", 1)]);
        let sealed = master.seal(id(1), b"whsec_secret", [9; 12]);
        assert_eq!(sealed.key_id(), Some("k1"));
        assert!(!sealed.bytes.windows(6).any(|part| part == b"secret"));
        assert_eq!(**master.open(&sealed).unwrap(), *b"whsec_secret");
        assert!(!format!("{sealed:?} {master:?}").contains("secret"));
    }

    #[test]
    fn the_first_key_seals_and_all_keys_open() {
        let old = keys(&[key("k1", 1)]);
        let rotated = keys(&[key("k2", 2), key("k1", 1)]);
        let sealed = old.seal(id(1), b"value", [9; 12]);
        assert_eq!(**rotated.open(&sealed).unwrap(), *b"value");
        assert!(old.is_current(&sealed) && !rotated.is_current(&sealed));
        let resealed = rotated.seal(id(1), b"value", [8; 12]);
        assert_eq!(old.open(&resealed), Err(OpenError::UnknownKey { key_id: "k2".to_owned() }));
    }

    #[test]
    fn a_value_that_was_changed_or_moved_to_another_row_does_not_open() {
        let master = keys(&[key("k1", 1)]);
        let sealed = master.seal(id(1), b"value", [9; 12]);
        let refused = Err(OpenError::Refused { key_id: "k1".to_owned() });
        assert_eq!(master.open(&SealedValue { id: id(2), ..sealed.clone() }), refused);
        let mut changed = sealed.clone();
        *changed.bytes.last_mut().unwrap() ^= 1;
        assert_eq!(master.open(&changed), refused);
        for bytes in [vec![], vec![1], vec![1, 200, 3], vec![7, 0]] {
            assert_eq!(master.open(&SealedValue { bytes, ..sealed.clone() }), Err(OpenError::Malformed));
        }
    }

    #[test]
    fn without_master_keys_a_value_is_stored_as_it_is() {
        let none = MasterKeys::none();
        let clear = none.seal(id(1), b"value", [9; 12]);
        assert_eq!((clear.key_id(), none.is_current(&clear)), (None, true));
        assert_eq!(**none.open(&clear).unwrap(), *b"value");
        let master = keys(&[key("k1", 1)]);
        assert_eq!(**master.open(&clear).unwrap(), *b"value", "reseal reads it");
        assert!(!master.is_current(&clear));
    }

    #[test]
    fn errors_name_the_position_and_never_the_key() {
        let refusal = |text: &str| MasterKeys::parse(text).unwrap_err();
        assert_eq!(refusal(""), InvalidMasterKeys::Form { position: 1 });
        assert_eq!(refusal(&format!("{},k 2:AAAA", key("k1", 1))), InvalidMasterKeys::Id { position: 2 });
        assert_eq!(refusal("k1:AAAA"), InvalidMasterKeys::Key { position: 1 });
        assert_eq!(refusal("k1:?"), InvalidMasterKeys::Key { position: 1 });
        let twice = [key("k1", 1), key("k1", 2)].join(",");
        assert_eq!(refusal(&twice), InvalidMasterKeys::Duplicate { position: 2 });
        let many: Vec<String> = (0..17).map(|n| key(&format!("k{n}"), n)).collect();
        assert_eq!(refusal(&many.join(",")), InvalidMasterKeys::TooMany(17));
    }
}
