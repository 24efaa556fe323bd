//! The HTTP API.
#![forbid(unsafe_code)]
