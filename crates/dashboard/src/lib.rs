//! The operator's page.
#![forbid(unsafe_code)]
