//! `posthaste token`: makes a token of an organisation or of one application.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use posthaste::domain::{ApplicationId, ApplicationRef, OrgId};
use posthaste::store::AppScope;
use posthaste_api::{PermissionSet, TokenClaims};
use posthaste_config::Config;
use serde_json::json;

use crate::cli::TokenArgs;
use crate::commands::open;
use crate::terminal::{self, BadUsage, time};

/// Prints the token to standard output. The database dates it, and shows whether the application exists.
pub(crate) async fn run(args: &TokenArgs, config: Config) -> anyhow::Result<ExitCode> {
    let Some(secret) = &config.jwt_secret else {
        let advice = "jwt_secret is not set, so servers accept no tokens: set it to 32 bytes or more, on every process \
                      (`openssl rand -base64 48` makes one)";
        return Err(BadUsage(advice.to_owned()).into());
    };
    let org = OrgId::new(&args.org).map_err(|error| BadUsage(format!("--org: {error}")))?;
    let opened = open::open_existing_store(&config).await?;
    let store = opened.store();
    let app = match &args.app {
        None => None,
        Some(text) => Some(find_application(store.applications(), &org, text).await?),
    };
    let now = store.health().await?.now;
    let permissions = match (args.read_only, app) {
        (true, _) => Some(PermissionSet::read_only()),
        (false, Some(_)) => Some(PermissionSet::of_application()),
        (false, None) => None,
    };
    let expires_at = now.after(Duration::from_secs(args.expires));
    let subject = app.map_or_else(|| org.to_string(), |app| app.to_string());
    let token = secret.sign(&TokenClaims { org, app, permissions, issued_at: now, expires_at });
    if args.json {
        let document = json!({
            "token": token.as_str(), "subject": subject, "expires_at": time::format_rfc3339(expires_at),
        });
        terminal::print(&format!("{document:#}"))?;
    } else {
        terminal::note(&format!(
            "posthaste: token of {subject}, valid until {}",
            time::format_utc(expires_at)
        ));
        terminal::print(&token)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn find_application(
    applications: &dyn posthaste::store::Applications,
    org: &OrgId,
    text: &str,
) -> anyhow::Result<ApplicationId> {
    let app = ApplicationRef::parse(text)
        .ok_or_else(|| BadUsage(format!("--app: {text:?} is neither an id nor a uid of an application")))?;
    let found = applications.get(AppScope { org, app: &app }).await;
    Ok(found.context("`posthaste apps list` lists the applications")?.id)
}
