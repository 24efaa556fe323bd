//! Adds an endpoint and changes its fields.

use serde_json::{Map, Value, json};

use super::super::fields::Fields;
use super::super::{print_result, read_input, read_secret};
use crate::cli::{EndpointAddArgs, EndpointFields, EndpointUpdateArgs};
use crate::client::{EndpointItem, RegistryClient};
use crate::terminal::{self, BadUsage};

pub(super) async fn add(args: &EndpointAddArgs, registry: &RegistryClient<'_>) -> anyhow::Result<()> {
    let secret = args.secret_file.as_deref().map(read_secret).transpose()?;
    let headers = match &args.header_file {
        Some(path) => Some(parse_headers(&read_input(path, "--header-file")?)?),
        None => None,
    };
    let body = with_fields(Fields::default().set("url", Some(args.url.as_str())), &args.fields)
        .set("disabled", args.disabled.then_some(true))
        .set("secretType", args.ed25519.then_some("ed25519"))
        .set("secret", secret)
        .set("headers", headers);
    let app = &args.app.app;
    let response = registry.post(&["app", app, "endpoint"], &body.into_body()).await?;
    let endpoint: EndpointItem = response.parse()?;
    let id = terminal::escape_line(&endpoint.id);
    print_result(&response, args.app.item.json, || Ok(id.clone()))?;
    terminal::note(&format!(
        "`posthaste endpoints secret {app} {id}` prints what its receiver verifies with."
    ));
    Ok(())
}

pub(super) async fn update(args: &EndpointUpdateArgs, registry: &RegistryClient<'_>) -> anyhow::Result<()> {
    let body = with_fields(Fields::default().set("url", args.url.as_deref()), &args.fields)
        .set("ordering", args.any_order.then_some("any"))
        .clear("eventTypes", args.all_types)
        .clear("channels", args.all_channels)
        .clear("throttleRate", args.no_throttle);
    if body.is_empty() {
        return Err(
            BadUsage("name a field to change, as in --url https://shop.example/hooks".to_owned()).into()
        );
    }
    let response = registry.patch(&args.endpoint.path(&[]), &body.into_body()).await?;
    print_result(&response, args.endpoint.item.json, || {
        Ok(format!("{} is changed", response.parse::<EndpointItem>()?.id))
    })
}

/// Sets the fields that `add` and `update` have in common.
fn with_fields(body: Fields, fields: &EndpointFields) -> Fields {
    body.set("uid", fields.uid.as_deref())
        .set("description", fields.description.as_deref())
        .list("eventTypes", &fields.event_types)
        .list("channels", &fields.channels)
        .set("throttleRate", fields.throttle)
        .metadata(&fields.metadata)
        .set("ordering", fields.fifo.then_some("fifo"))
}

/// Parses headers, one `Name: value` per line. An error names the line and shows no value, which may be secret.
fn parse_headers(text: &str) -> Result<Value, BadUsage> {
    let mut headers = Map::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let Some((name, value)) = line.split_once(':') else {
            return Err(BadUsage(format!("--header-file: line {} is not of the form `Name: value`", at + 1)));
        };
        headers.insert(name.trim().to_owned(), json!(value.trim()));
    }
    Ok(Value::Object(headers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_lines_and_errors_do_not_show_them() {
        let headers = parse_headers("X-Region: eu\n\nAuthorization: Bearer a:b \n").unwrap();
        assert_eq!(headers, json!({ "X-Region": "eu", "Authorization": "Bearer a:b" }));
        let error = parse_headers("X-Region: eu\nhunter2").unwrap_err().to_string();
        assert!(error.contains("line 2") && !error.contains("hunter2"), "{error}");
    }
}
