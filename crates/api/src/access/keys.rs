//! API keys: parsed from one configuration value, kept as SHA-256 digests, compared in constant time.

use std::fmt;
use std::str::FromStr;

use posthaste_domain::ApplicationId;
use sha2::{Digest as _, Sha256};
use subtle::{ConditionallySelectable as _, ConstantTimeEq as _};

/// Minimum length of a key, so that keys cannot be guessed.
const KEY_LEN_MIN: usize = 16;
/// Maximum length of a key.
const KEY_LEN_MAX: usize = 512;
/// Maximum length of a key's name.
const NAME_LEN_MAX: usize = 64;
/// Maximum number of keys. Every request is compared with all of them.
const KEYS_MAX: usize = 1_000;

/// What the holder of an API key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Enqueues events, and reads single events that its own key stored.
    Producer,
    /// Enqueues events, reads everything, requeues and cancels events.
    Operator,
    /// Reads everything.
    Viewer,
    /// Does everything in one application of the registry, and nothing else.
    App,
}

posthaste_domain::named_variants!(Role {
    Producer => "producer",
    Operator => "operator",
    Viewer => "viewer",
    App => "app",
});

/// The API keys of an instance. Holds digests only; `Debug` shows names and roles.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyRing {
    entries: Vec<KeyEntry>,
}

#[derive(Clone, PartialEq, Eq)]
struct KeyEntry {
    name: String,
    role: Role,
    /// The application of a key with the role [`Role::App`].
    app: Option<ApplicationId>,
    digest: [u8; 32],
}

/// A key that a caller sent and that is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownKey<'a> {
    pub(crate) name: &'a str,
    pub(crate) role: Role,
    /// The application of a key with the role [`Role::App`].
    pub(crate) app: Option<ApplicationId>,
}

/// Why a list of API keys was rejected.
///
/// Messages identify an entry by its position, and show no part that may be a key: the parts may be in the wrong order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKeys {
    #[error("key {position} is empty; write name:role:key, separated by commas")]
    Empty { position: usize },
    #[error("key {position} is not of the form name:role:key")]
    Form { position: usize },
    #[error(
        "key {position} has a name that is empty, longer than {NAME_LEN_MAX} characters or not visible ASCII"
    )]
    Name { position: usize },
    #[error("key {position} has the unknown role {role:?}; use producer, operator, viewer or app:ID")]
    Role { position: usize, role: String },
    /// The text in place of the role is as long as a key, so it may be one and is not shown.
    #[error(
        "key {position} has an unknown role; write name:role:key with the role producer, operator, viewer or app:ID"
    )]
    LongRole { position: usize },
    #[error(
        "key {position} has the role app without an id of an application; write name:app:ID:key with an id that begins with app_"
    )]
    AppId { position: usize },
    #[error(
        "key {position} has {len} characters; a key must have {KEY_LEN_MIN} to {KEY_LEN_MAX}, all visible ASCII"
    )]
    Key { position: usize, len: usize },
    #[error(
        "key {position} has the name of key {earlier}; names must differ, because events and actions belong to a name"
    )]
    DuplicateName { position: usize, earlier: usize },
    #[error("key {position} is the same as key {earlier}; every name needs a key of its own")]
    DuplicateKey { position: usize, earlier: usize },
    #[error("there are {0} keys; at most {KEYS_MAX} are allowed")]
    TooMany(usize),
}

impl KeyRing {
    /// Parses `name:role:key,…`. The role of a key for one application is written as `app:ID`. White space around an entry is ignored. A key may contain colons, but no commas.
    pub fn parse(text: &str) -> Result<Self, InvalidKeys> {
        let texts: Vec<&str> = text.split(',').collect();
        if texts.len() > KEYS_MAX {
            return Err(InvalidKeys::TooMany(texts.len()));
        }
        let mut entries: Vec<KeyEntry> = Vec::with_capacity(texts.len());
        for (position, text) in (1..).zip(texts) {
            let entry = KeyEntry::parse(text.trim(), position)?;
            if let Some(index) = entries.iter().position(|earlier| earlier.name == entry.name) {
                return Err(InvalidKeys::DuplicateName { position, earlier: index + 1 });
            }
            if let Some(index) = entries.iter().position(|earlier| earlier.digest == entry.digest) {
                return Err(InvalidKeys::DuplicateKey { position, earlier: index + 1 });
            }
            entries.push(entry);
        }
        Ok(Self { entries })
    }

    /// Returns the entry of a key, or `None` if the key is unknown.
    ///
    /// Compares with every entry, whether or not one has matched, so that the time taken reveals nothing about the keys.
    pub(crate) fn authenticate(&self, key: &[u8]) -> Option<KnownKey<'_>> {
        let digest: [u8; 32] = Sha256::digest(key).into();
        let mut found = u32::MAX;
        for (index, entry) in (0_u32..).zip(&self.entries) {
            found.conditional_assign(&index, entry.digest.ct_eq(&digest));
        }
        let entry = self.entries.get(usize::try_from(found).ok()?)?;
        Some(KnownKey { name: &entry.name, role: entry.role, app: entry.app })
    }
}

impl FromStr for KeyRing {
    type Err = InvalidKeys;

    fn from_str(text: &str) -> Result<Self, InvalidKeys> {
        Self::parse(text)
    }
}

impl KeyEntry {
    fn parse(text: &str, position: usize) -> Result<Self, InvalidKeys> {
        if text.is_empty() {
            return Err(InvalidKeys::Empty { position });
        }
        let mut parts = text.splitn(3, ':');
        let (Some(name), Some(role), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(InvalidKeys::Form { position });
        };
        if !is_visible_ascii(name) || name.len() > NAME_LEN_MAX {
            return Err(InvalidKeys::Name { position });
        }
        let role = Role::from_name(role).ok_or_else(|| match role {
            short if short.len() < KEY_LEN_MIN => InvalidKeys::Role { position, role: short.to_owned() },
            _ => InvalidKeys::LongRole { position },
        })?;
        let (app, key) = match role {
            Role::App => parse_app_and_key(key).ok_or(InvalidKeys::AppId { position })?,
            _ => (None, key),
        };
        if !is_visible_ascii(key) || !(KEY_LEN_MIN..=KEY_LEN_MAX).contains(&key.len()) {
            return Err(InvalidKeys::Key { position, len: key.chars().count() });
        }
        Ok(Self { name: name.to_owned(), role, app, digest: Sha256::digest(key).into() })
    }
}

/// Splits `ID:key`.
fn parse_app_and_key(text: &str) -> Option<(Option<ApplicationId>, &str)> {
    let (id, key) = text.split_once(':')?;
    Some((Some(ApplicationId::parse(id)?), key))
}

/// Returns whether a text is safe as a header value (keys) and in a log line (names).
fn is_visible_ascii(text: &str) -> bool {
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
    fn a_key_authenticates_its_own_name_and_role() {
        let keys = KeyRing::parse(KEYS).unwrap();
        let found = |key: &[u8]| keys.authenticate(key).map(|known| (known.name, known.role));
        assert_eq!(found(b"0123456789abcdef"), Some(("orders", Role::Producer)));
        assert_eq!(found(b"fedcba9876543210:with:colons"), Some(("ops", Role::Operator)));
        assert_eq!(found(b"ffffffffffffffff"), Some(("eyes", Role::Viewer)));
        for unknown in ["", "0123456789abcde", "0123456789abcdeff", "0123456789ABCDEF"] {
            assert_eq!(keys.authenticate(unknown.as_bytes()), None, "{unknown}");
        }
    }

    #[test]
    fn a_key_for_one_application_names_its_id() {
        let keys = KeyRing::parse("shop:app:app_0000000000000011:0123456789abcdef").unwrap();
        let known = keys.authenticate(b"0123456789abcdef").unwrap();
        assert_eq!((known.name, known.role, known.app), ("shop", Role::App, Some(ApplicationId(17))));
        for text in ["shop:app:0123456789abcdef", "shop:app:customer-17:0123456789abcdef"] {
            assert_eq!(KeyRing::parse(text), Err(InvalidKeys::AppId { position: 1 }), "{text}");
        }
    }

    #[test]
    fn errors_name_the_position_and_the_rule_and_never_the_key() {
        let secret = "hunter2hunter2hunter2";
        let cases = [
            ("".to_owned(), "key 1 is empty"),
            (format!("a:viewer:{secret},"), "key 2 is empty"),
            (secret.to_owned(), "key 1 is not of the form name:role:key"),
            (format!("a:{secret}"), "key 1 is not of the form name:role:key"),
            (format!(":viewer:{secret}"), "key 1 has a name that is empty"),
            (format!("a b:viewer:{secret}"), "key 1 has a name that is empty"),
            (format!("{}:viewer:{secret}", "n".repeat(65)), "key 1 has a name that is empty, longer than 64"),
            (
                format!("a:admin:{secret}"),
                "key 1 has the unknown role \"admin\"; use producer, operator, viewer or app:ID",
            ),
            (format!("a:Viewer:{secret}"), "key 1 has the unknown role \"Viewer\""),
            (format!("a:{secret}:viewer"), "key 1 has an unknown role; write name:role:key"),
            ("a:viewer:short".to_owned(), "key 1 has 5 characters; a key must have 16 to 512"),
            ("a:viewer:fifteen-letters".to_owned() + "\u{e9}", "key 1 has 16 characters"),
            (format!("a:viewer:{}", "k".repeat(513)), "key 1 has 513 characters"),
            (format!("{secret}:viewer:short"), "key 1 has 5 characters"),
            (format!("a:viewer:{secret},a:operator:{secret}2"), "key 2 has the name of key 1"),
            (format!("a:viewer:{secret},b:operator:{secret}"), "key 2 is the same as key 1"),
        ];
        for (text, expected) in cases {
            let error = KeyRing::parse(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
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
