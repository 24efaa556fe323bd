//! Random operations on a store and on the reference model, side by side.
#![forbid(unsafe_code)]
