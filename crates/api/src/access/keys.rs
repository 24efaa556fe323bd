//! API keys: read from one line of configuration, kept as digests, compared in constant time.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::{ConditionallySelectable as _, ConstantTimeEq as _};

/// Shortest key that cannot be guessed.
const KEY_LEN_MIN: usize = 16;
/// Longest key, and longest name.
const KEY_LEN_MAX: usize = 512;
const NAME_LEN_MAX: usize = 64;
/// Most keys; every request is compared with all of them.
const KEYS_MAX: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Hands in events, and reads what became of one.
    Producer,
    /// Reads everything, requeues and cancels.
    Operator,
    /// Reads everything.
    Viewer,
}

posthaste_domain::words!(Role {
    Producer => "producer",
    Operator => "operator",
    Viewer => "viewer",
});

/// The keys of an instance. Shows names and roles, never a key.
pub struct KeyRing {
    entries: Vec<Entry>,
}

struct Entry {
    name: String,
    role: Role,
    digest: [u8; 32],
}

/// What is wrong with which entry; a key is never repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKeys {
    #[error("API key {position} is empty; write name:role:key, separated by commas")]
    Empty { position: usize },
    #[error("API key {position} is not of the form name:role:key")]
    Form { position: usize },
    #[error("API key {position} has a name of other than 1 to {NAME_LEN_MAX} visible ASCII characters")]
    Name { position: usize },
    #[error("API key {position} ({name}) has an unknown role; it is producer, operator or viewer")]
    Role { position: usize, name: String },
    #[error(
        "API key {position} ({name}) has a key of {len} characters; it takes {KEY_LEN_MIN} to {KEY_LEN_MAX}, all visible ASCII"
    )]
    Key { position: usize, name: String, len: usize },
    #[error("API key {position} ({name}) has the name of key {earlier}; actions are recorded by name")]
    NameTaken { position: usize, name: String, earlier: usize },
    #[error("API key {position} ({name}) is the same key as number {earlier}; every name has its own")]
    KeyTaken { position: usize, name: String, earlier: usize },
    #[error("there are {0} API keys; at most {KEYS_MAX} are accepted")]
    TooMany(usize),
}

impl KeyRing {
    /// Reads `name:role:key,…`. White space around an entry is no part of it; a key may hold colons, but no commas.
    pub fn parse(text: &str) -> Result<Self, InvalidKeys> {
        let written: Vec<&str> = text.split(',').collect();
        if written.len() > KEYS_MAX {
            return Err(InvalidKeys::TooMany(written.len()));
        }
        let mut entries: Vec<Entry> = Vec::with_capacity(written.len());
        for (before, text) in written.into_iter().enumerate() {
            let position = before + 1;
            let entry = Entry::parse(text.trim(), position)?;
            let name = || entry.name.clone();
            if let Some(earlier) = entries.iter().position(|earlier| earlier.name == entry.name) {
                return Err(InvalidKeys::NameTaken { position, name: name(), earlier: earlier + 1 });
            }
            if let Some(earlier) = entries.iter().position(|earlier| earlier.digest == entry.digest) {
                return Err(InvalidKeys::KeyTaken { position, name: name(), earlier: earlier + 1 });
            }
            entries.push(entry);
        }
        Ok(Self { entries })
    }

    /// Whose key it is. Every entry is looked at, whichever matches: how long this takes tells nothing about the keys.
    pub(crate) fn holder(&self, presented: &[u8]) -> Option<(&str, Role)> {
        let digest: [u8; 32] = Sha256::digest(presented).into();
        let mut found = u32::MAX;
        for (number, entry) in (0_u32..).zip(&self.entries) {
            found.conditional_assign(&number, entry.digest.ct_eq(&digest));
        }
        let entry = self.entries.get(usize::try_from(found).ok()?)?;
        Some((&entry.name, entry.role))
    }
}

impl Entry {
    fn parse(text: &str, position: usize) -> Result<Self, InvalidKeys> {
        if text.is_empty() {
            return Err(InvalidKeys::Empty { position });
        }
        let mut parts = text.splitn(3, ':');
        let (Some(name), Some(role), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            // Which part is the key is not known, so none is shown.
            return Err(InvalidKeys::Form { position });
        };
        if !is_visible(name) || name.len() > NAME_LEN_MAX {
            return Err(InvalidKeys::Name { position });
        }
        let name = name.to_owned();
        let Some(role) = Role::from_word(role) else { return Err(InvalidKeys::Role { position, name }) };
        if !is_visible(key) || !(KEY_LEN_MIN..=KEY_LEN_MAX).contains(&key.len()) {
            return Err(InvalidKeys::Key { position, name, len: key.chars().count() });
        }
        Ok(Self { name, role, digest: Sha256::digest(key).into() })
    }
}

/// Keys travel in headers, names in logs.
fn is_visible(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic())
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.entries.iter().map(|entry| (&entry.name, entry.role));
        f.debug_map().entries(shown).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &str = "orders:producer:0123456789abcdef, ops:operator:fedcba9876543210:with:colons\n,\
                        eyes:viewer:ffffffffffffffff";

    #[test]
    fn a_key_is_its_holders_and_no_other() {
        let keys = KeyRing::parse(KEYS).unwrap();
        assert_eq!(keys.holder(b"0123456789abcdef"), Some(("orders", Role::Producer)));
        assert_eq!(keys.holder(b"fedcba9876543210:with:colons"), Some(("ops", Role::Operator)));
        assert_eq!(keys.holder(b"ffffffffffffffff"), Some(("eyes", Role::Viewer)));
        for unknown in ["", "0123456789abcde", "0123456789abcdeff", "0123456789ABCDEF"] {
            assert_eq!(keys.holder(unknown.as_bytes()), None, "{unknown}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_by_position_and_name_and_never_by_key() {
        let secret = "hunter2hunter2hunter2";
        let cases = [
            ("".to_owned(), "1 is empty"),
            (format!("a:viewer:{secret},"), "2 is empty"),
            (secret.to_owned(), "1 is not of the form"),
            (format!("a:{secret}"), "1 is not of the form"),
            (format!(":viewer:{secret}"), "1 has a name of other than"),
            (format!("a b:viewer:{secret}"), "1 has a name of other than"),
            (format!("{}:viewer:{secret}", "n".repeat(65)), "1 has a name of other than"),
            (format!("a:admin:{secret}"), "1 (a) has an unknown role"),
            (format!("a:Viewer:{secret}"), "1 (a) has an unknown role"),
            ("a:viewer:short".to_owned(), "1 (a) has a key of 5 characters"),
            ("a:viewer:fifteen-letters".to_owned() + "\u{e9}", "1 (a) has a key of 16 characters"),
            (format!("a:viewer:{}", "k".repeat(513)), "1 (a) has a key of 513 characters"),
            (format!("a:viewer:{secret},a:operator:{secret}2"), "2 (a) has the name of key 1"),
            (format!("a:viewer:{secret},b:operator:{secret}"), "2 (b) is the same key as number 1"),
        ];
        for (text, told) in cases {
            let error = KeyRing::parse(&text).unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let many = (0..1_001).map(|n| format!("n{n}:viewer:key-number-{n:08}")).collect::<Vec<_>>().join(",");
        assert_eq!(KeyRing::parse(&many).unwrap_err(), InvalidKeys::TooMany(1_001));
    }

    #[test]
    fn debug_output_shows_no_key_and_no_digest() {
        let shown = format!("{:?}", KeyRing::parse(KEYS).unwrap());
        assert_eq!(shown, r#"{"orders": Producer, "ops": Operator, "eyes": Viewer}"#);
    }
}
