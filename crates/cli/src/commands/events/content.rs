//! `posthaste events content`: prints the headers of an event's requests, then its payload.

use crate::cli::ContentArgs;
use crate::client::{ApiClient, ClientError, EventContent};
use crate::terminal::{self, escape_line, escape_text};

pub(super) async fn show(args: &ContentArgs, client: &ApiClient) -> anyhow::Result<()> {
    let response = client.get(&["events", &args.event_id, "content"], &[]).await;
    let response = response.map_err(ClientError::blame_arguments)?;
    if args.json {
        return terminal::print_response(response.as_bytes());
    }
    let content: EventContent = response.parse()?;
    terminal::print(&render(&content))?;
    if content.truncated {
        let bytes = content.payload_bytes;
        terminal::note(&format!("This is the beginning of a payload of {bytes} bytes."));
    }
    if content.payload_encoding == "base64" {
        terminal::note("The payload is no text: it is shown in base64.");
    }
    Ok(())
}

/// Renders the headers, an empty line and the payload, as in a request.
fn render(content: &EventContent) -> String {
    let mut text = String::new();
    for (name, value) in &content.headers {
        text += &format!("{}: {}\n", escape_line(name), escape_line(value));
    }
    for name in &content.sensitive_headers {
        text += &format!("{}: (not shown)\n", escape_line(name));
    }
    text.push('\n');
    text.push_str(&escape_text(&content.payload));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_printed_like_a_request_without_credentials() {
        let content = EventContent {
            payload: "{\"a\": 1}\u{1b}".into(),
            headers: [("webhook-id".to_owned(), "order-17".to_owned())].into(),
            sensitive_headers: vec!["authorization".into()],
            ..EventContent::default()
        };
        let expected = "webhook-id: order-17\nauthorization: (not shown)\n\n{\"a\": 1}\\u{1b}";
        assert_eq!(render(&content), expected);
    }
}
