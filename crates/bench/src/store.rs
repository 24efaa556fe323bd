//! The parts that measure a store of this build in process, without HTTP.

pub(crate) mod backlog;
pub(crate) mod bulk;
pub(crate) mod claims;
pub(crate) mod endpoints;
mod load;
mod measure;
pub(crate) mod registry;
mod subject;
pub(crate) mod trickle;
