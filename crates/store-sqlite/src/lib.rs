//! The embedded store.
#![forbid(unsafe_code)]
