//! `posthaste openapi`: the document that a server answers at `/openapi.json`, without one.

use std::process::ExitCode;

use crate::terminal;

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    terminal::print(&posthaste_api::openapi_json())?;
    Ok(ExitCode::SUCCESS)
}
