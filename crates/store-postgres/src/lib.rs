//! The store for many workers.
#![forbid(unsafe_code)]
