//! The retry contract: how long a receiver is left alone between attempts, and how many it gets.

mod backoff;
mod policy;

pub use backoff::Roll;
pub use policy::{
    FAST_RETRY_FLOOR, JITTER_BPS_MAX, RetryPolicy, RetryPolicyError, RetryPolicySpec, Strategy,
};
