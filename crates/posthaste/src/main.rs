//! The `posthaste` command.
#![forbid(unsafe_code)]

fn main() {}
