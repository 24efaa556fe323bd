//! Posthaste as a library: configuration, wiring and commands around the engine.
#![forbid(unsafe_code)]

pub mod config;
