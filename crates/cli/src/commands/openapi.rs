//! `posthaste openapi`: prints the document that a server has at `/openapi.json`, or with `--registry` the one at
//! `/api/v1/openapi.json`. Needs no server.

use std::process::ExitCode;

use crate::cli::OpenapiArgs;
use crate::terminal;

pub(crate) fn run(args: &OpenapiArgs) -> anyhow::Result<ExitCode> {
    terminal::print(&match args.registry {
        true => posthaste_api::registry_openapi_json(),
        false => posthaste_api::openapi_json(),
    })?;
    Ok(ExitCode::SUCCESS)
}
