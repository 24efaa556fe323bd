//! Metadata: pairs of text that callers attach to applications and endpoints, and that Posthaste only returns.

use std::collections::BTreeMap;

/// Largest size of all keys and values together, in bytes.
const BYTES_MAX: usize = 4_096;

/// The metadata of an application or an endpoint, bounded in size.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata(BTreeMap<String, String>);

/// The metadata is too large, or has a character that PostgreSQL cannot store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMetadata {
    #[error("metadata is {0} bytes; at most {BYTES_MAX} are accepted")]
    TooLarge(usize),
    #[error("metadata contains the character NUL, which cannot be stored")]
    Nul,
}

impl Metadata {
    /// Validates metadata.
    pub fn new(pairs: BTreeMap<String, String>) -> Result<Self, InvalidMetadata> {
        let bytes = pairs.iter().map(|(key, value)| key.len() + value.len()).sum();
        if bytes > BYTES_MAX {
            return Err(InvalidMetadata::TooLarge(bytes));
        }
        if pairs.iter().any(|(key, value)| key.contains('\0') || value.contains('\0')) {
            return Err(InvalidMetadata::Nul);
        }
        Ok(Self(pairs))
    }

    /// Wraps metadata read from a store.
    pub fn from_stored(pairs: BTreeMap<String, String>) -> Self {
        Self(pairs)
    }

    pub fn pairs(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_bounded_in_size() {
        let of = |value: String| Metadata::new(BTreeMap::from([("key".to_owned(), value)]));
        assert_eq!(of("v".repeat(4_093)).unwrap().pairs().len(), 1);
        assert_eq!(of("v".repeat(4_094)), Err(InvalidMetadata::TooLarge(4_097)));
        assert_eq!(of("\0".to_owned()), Err(InvalidMetadata::Nul));
    }
}
