//! The result of a check.

use serde_json::{Value, json};

use crate::terminal::Color;

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Ok,
    /// A warning: Posthaste works, with a risk.
    Careful,
    /// An error: Posthaste, or a part of it, cannot work.
    Broken,
}

impl Verdict {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Careful => "careful",
            Self::Broken => "broken",
        }
    }

    /// Returns the verdict with this name. A name that this version does not know is a warning.
    pub(super) fn from_name(name: &str) -> Self {
        [Self::Ok, Self::Broken].into_iter().find(|verdict| verdict.as_str() == name).unwrap_or(Self::Careful)
    }

    pub(super) const fn color(self) -> Color {
        match self {
            Self::Ok => Color::Good,
            Self::Careful => Color::Waiting,
            Self::Broken => Color::Bad,
        }
    }
}

/// The result of one check.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    /// The name of the check.
    pub(super) check: String,
    pub(super) verdict: Verdict,
    /// The state that the check found and, unless it is fine, how to fix it.
    pub(super) text: String,
}

impl Finding {
    pub(super) fn new(check: impl Into<String>, verdict: Verdict, text: impl Into<String>) -> Self {
        Self { check: check.into(), verdict, text: text.into() }
    }

    /// Returns the finding in the type of the API.
    pub(super) fn to_api(&self) -> posthaste_api::Finding {
        posthaste_api::Finding {
            check: self.check.clone(),
            verdict: self.verdict.as_str(),
            finding: self.text.clone(),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "check": self.check, "verdict": self.verdict.as_str(), "finding": self.text })
    }
}
