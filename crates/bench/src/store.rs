//! The parts that measure a store of this build in process, without HTTP.

pub(crate) mod backlog;
pub(crate) mod claims;
mod load;
mod measure;
mod subject;
pub(crate) mod trickle;
