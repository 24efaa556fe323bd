//! The retry contract: the delay between two attempts of an event, and the number of attempts.

mod backoff;
mod policy;

pub use backoff::RandomDraw;
pub(crate) use policy::MAX_BACKOFF_MAX;
pub use policy::{
    FAST_RETRY_FLOOR, JITTER_BPS_MAX, RetryPolicy, RetryPolicyError, RetryPolicySpec, Strategy,
};
