#![doc = include_str!("lease_protocol.md")]
