//! Prints and rotates the secret of an endpoint.

use super::super::fields::Fields;
use super::super::{print_result, read_secret};
use crate::cli::{EndpointArgs, EndpointRotateArgs};
use crate::client::{RegistryClient, SecretItem};
use crate::terminal;

pub(super) async fn print(args: &EndpointArgs, registry: &RegistryClient<'_>) -> anyhow::Result<()> {
    let response = registry.get(&args.path(&["secret"]), &[]).await?;
    print_result(&response, args.item.json, || Ok(response.parse::<SecretItem>()?.key))
}

pub(super) async fn rotate(args: &EndpointRotateArgs, registry: &RegistryClient<'_>) -> anyhow::Result<()> {
    let key = args.secret_file.as_deref().map(read_secret).transpose()?;
    let body = Fields::default().set("key", key).set("gracePeriodSeconds", args.grace).into_body();
    let response = registry.post(&args.endpoint.path(&["secret", "rotate"]), &body).await?;
    print_result(&response, args.endpoint.item.json, || Ok(response.parse::<SecretItem>()?.key))?;
    let seconds = args.grace.unwrap_or(86_400);
    terminal::note(&format!(
        "Requests are signed with this secret beside the one before it, which retires in {seconds} s: give the new one to \
         the receiver before."
    ));
    Ok(())
}
