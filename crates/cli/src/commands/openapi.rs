//! `posthaste openapi`: prints the document that a server has at `/openapi.json`. Needs no server.

use std::process::ExitCode;

use crate::terminal;

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    terminal::print(&posthaste_api::openapi_json())?;
    Ok(ExitCode::SUCCESS)
}
