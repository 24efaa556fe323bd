//! Measures the stores.
#![forbid(unsafe_code)]
fn main() {}
