//! Applications: the tenants of a producer, each with its endpoints, messages and tokens.

use crate::{InvalidMetadata, InvalidThrottle, InvalidUid, Metadata, Throttle, Uid};

/// Longest name of an application, in characters.
const NAME_LEN_MAX: usize = 256;

/// An application as a caller submits it, not yet validated.
#[derive(Debug, Clone, Default)]
pub struct ApplicationSpec {
    pub name: String,
    pub uid: Option<String>,
    /// Messages per second that all endpoints of the application get together.
    pub throttle_per_second: Option<i64>,
    pub metadata: std::collections::BTreeMap<String, String>,
}

/// A validated application, ready to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApplication {
    pub name: ApplicationName,
    pub uid: Option<Uid>,
    pub throttle: Option<Throttle>,
    pub metadata: Metadata,
}

/// The name of an application: 1 to 256 characters, not all of them blank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationName(String);

/// Why an application was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidApplication {
    #[error("a name must have 1 to {NAME_LEN_MAX} characters and must not be blank")]
    Name,
    #[error(transparent)]
    Uid(#[from] InvalidUid),
    #[error(transparent)]
    Throttle(#[from] InvalidThrottle),
    #[error(transparent)]
    Metadata(#[from] InvalidMetadata),
}

impl ApplicationName {
    /// Validates a name.
    pub fn new(text: &str) -> Result<Self, InvalidApplication> {
        let is_valid =
            !text.trim().is_empty() && text.chars().count() <= NAME_LEN_MAX && !text.contains('\0');
        if is_valid { Ok(Self(text.to_owned())) } else { Err(InvalidApplication::Name) }
    }

    /// Wraps a name read from a store.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl NewApplication {
    /// Validates an application.
    pub fn accept(spec: ApplicationSpec) -> Result<Self, InvalidApplication> {
        Ok(Self {
            name: ApplicationName::new(&spec.name)?,
            uid: spec.uid.as_deref().map(Uid::for_application).transpose()?,
            throttle: spec.throttle_per_second.map(Throttle::new).transpose()?,
            metadata: Metadata::new(spec.metadata)?,
        })
    }
}

/// A change of an application. `None` leaves a field as it is; an inner `None` clears it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApplicationChange {
    pub name: Option<ApplicationName>,
    pub uid: Option<Option<Uid>>,
    pub throttle: Option<Option<Throttle>>,
    pub metadata: Option<Metadata>,
}

impl From<NewApplication> for ApplicationChange {
    /// Replaces every field.
    fn from(new: NewApplication) -> Self {
        Self {
            name: Some(new.name),
            uid: Some(new.uid),
            throttle: Some(new.throttle),
            metadata: Some(new.metadata),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_names_the_rule() {
        let refusal = |spec| NewApplication::accept(spec).unwrap_err().to_string();
        let named = |name: &str| ApplicationSpec { name: name.to_owned(), ..ApplicationSpec::default() };
        for name in ["", " \n", &"n".repeat(257)] {
            assert!(refusal(named(name)).contains("name"), "{name}");
        }
        assert!(refusal(ApplicationSpec { uid: Some("app_1".into()), ..named("a") }).contains("app_"));
        assert!(refusal(ApplicationSpec { throttle_per_second: Some(0), ..named("a") }).contains("throttle"));
        assert_eq!(NewApplication::accept(named("B\u{fc}cher")).unwrap().name.as_str(), "B\u{fc}cher");
    }
}
