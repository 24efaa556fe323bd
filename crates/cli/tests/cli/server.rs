//! How a command finds its server, and what it reports if the server fails.

use crate::command::{directory, posthaste, run, run_command};
use crate::fake_api::{FakeApi, error};

const OVERVIEW: &str = r#"{"pending_count":12,"pending_ready_count":3,"retrying_count":4,"failed_count":2,"cancelled_count":1,"delivered_count":9999,"oldest_pending_age_seconds":185.25}"#;

#[test]
fn overview_prints_a_table_or_the_json_response() {
    let api = FakeApi::responding(200, OVERVIEW);
    let output = run(&["overview", "--server", &api.url]);
    let expected = "\
EVENTS       COUNT
pending         12  oldest: 3 min
  due now        3
  retrying       4
  held           0
failed           2  list them with `posthaste dlq list`
  cancelled      1
delivered     9999
";
    output.assert_stdout(expected);
    run(&["overview", "--server", &api.url, "--json"]).assert_stdout(&format!("{OVERVIEW}\n"));
    assert_eq!(api.request_lines(), ["GET /v1/webhook-outbox/overview"; 2]);
}

#[test]
fn workers_prints_a_table_or_the_json_response() {
    let workers = r#"{"workers":[{"worker_id":"delivery-1","version":"0.1.0","started_at":"2020-01-01T00:00:00.000000Z","heartbeat_at":"2020-01-01T02:00:00.000000Z","heartbeat_age_seconds":3,"in_flight":4}]}"#;
    let api = FakeApi::responding(200, workers);
    let shown = run(&["workers", "--server", &api.url]).stdout;
    assert!(shown.starts_with("WORKER ") && shown.contains("delivery-1"), "{shown}");
    assert!(shown.contains("3 s ago"), "{shown}");
    run(&["workers", "--server", &api.url, "--json"]).assert_stdout(&format!("{workers}\n"));
    assert_eq!(api.request_lines(), ["GET /v1/webhook-outbox/workers"; 2]);
}

#[test]
fn server_is_taken_from_flag_then_environment_then_configuration() {
    let api = FakeApi::responding(200, OVERVIEW);
    let address = api.url.trim_start_matches("http://");
    let overview = || posthaste(&["overview", "--json"]);
    let expected = format!("{OVERVIEW}\n");
    run_command(overview().env("POSTHASTE_SERVER", &api.url)).assert_stdout(&expected);
    run_command(overview().env("POSTHASTE_LISTEN", address)).assert_stdout(&expected);
    let directory = directory("configured");
    std::fs::write(directory.join("posthaste.toml"), format!("listen = \"{address}\"\n")).unwrap();
    run_command(overview().current_dir(&directory)).assert_stdout(&expected);
    let by_flag = ["overview", "--json", "--server", address];
    run_command(posthaste(&by_flag).env("POSTHASTE_SERVER", "http://127.0.0.1:1")).assert_stdout(&expected);
}

#[test]
fn empty_variable_counts_as_unset_and_empty_flag_is_bad_usage() {
    let api = FakeApi::responding(200, OVERVIEW);
    let address = api.url.trim_start_matches("http://");
    let mut overview = posthaste(&["overview", "--json"]);
    overview.env("POSTHASTE_LISTEN", address).env("POSTHASTE_SERVER", "").env("POSTHASTE_API_KEY", "");
    run_command(&mut overview).assert_stdout(&format!("{OVERVIEW}\n"));
    assert_eq!(api.requests()[0].header("authorization"), None);
    run(&["overview", "--server", ""]).assert_failure(2, &["--server"]);
}

#[test]
fn configuration_is_not_read_if_a_server_is_named() {
    let api = FakeApi::responding(200, OVERVIEW);
    let output = run_command(
        posthaste(&["overview", "--json", "--server", &api.url]).env("POSTHASTE_LISTEN", "nowhere"),
    );
    output.assert_stdout(&format!("{OVERVIEW}\n"));
    run_command(posthaste(&["overview"]).env("POSTHASTE_LISTEN", "nowhere"))
        .assert_failure(2, &["POSTHASTE_LISTEN=nowhere"]);
}

#[test]
fn proxy_variables_are_ignored() {
    let api = FakeApi::responding(200, OVERVIEW);
    let mut overview = posthaste(&["overview", "--json", "--server", &api.url]);
    for variable in ["http_proxy", "HTTP_PROXY", "ALL_PROXY"] {
        overview.env(variable, "http://127.0.0.1:1");
    }
    run_command(&mut overview).assert_stdout(&format!("{OVERVIEW}\n"));
}

#[test]
fn key_is_sent_and_never_printed() {
    let refusal = error("forbidden", "this key may not");
    let api = FakeApi::responding(403, &refusal);
    let key = "0123456789abcdef";
    let output = run_command(posthaste(&["overview", "--server", &api.url]).env("POSTHASTE_API_KEY", key));
    output.assert_failure(1, &["posthaste: this key may not (forbidden)", "--key"]);
    assert!(!output.stderr.contains(key));
    run(&["overview", "--server", &api.url, "--key", "other"]).assert_failure(1, &["forbidden"]);
    let sent: Vec<_> =
        api.requests().iter().map(|request| request.header("authorization").map(str::to_owned)).collect();
    assert_eq!(sent, [Some(format!("Bearer {key}")), Some("Bearer other".to_owned())]);
    let help = run_command(posthaste(&["overview", "--help"]).env("POSTHASTE_API_KEY", key)).stdout;
    assert!(!help.contains(key), "{help}");
}

#[test]
fn missing_key_is_reported_with_the_options_that_set_it() {
    let api = FakeApi::responding(401, &error("unauthorized", "an API key is needed"));
    run(&["overview", "--server", &api.url])
        .assert_failure(1, &["an API key is needed (unauthorized)", "--key or POSTHASTE_API_KEY"]);
}

#[test]
fn unreachable_server_is_reported_with_what_to_do() {
    // The system never assigns this port to a listener that requests any free one.
    let server = "http://127.0.0.1:1";
    for json in [&[][..], &["--json"]] {
        let output = run(&[&["overview", "--server", server], json].concat());
        let expected = format!(
            "posthaste: no Posthaste runs at {server}: start it with `posthaste serve`, or name another server with \
             --server (connection refused)\n"
        );
        output.assert_failure(1, &[&expected]);
        assert_eq!(output.stderr, expected);
    }
}

#[test]
fn response_of_another_server_is_recognized() {
    let api = FakeApi::responding(502, "<html>bad gateway</html>");
    run(&["overview", "--server", &api.url]).assert_failure(1, &["not as Posthaste does", "502"]);
    let api = FakeApi::responding(200, "<html>welcome</html>");
    run(&["overview", "--server", &api.url]).assert_failure(1, &["cannot be read"]);
}

#[test]
fn invalid_server_url_or_key_is_bad_usage() {
    run(&["overview", "--server", "ftp://ops.example"]).assert_failure(2, &["ftp://ops.example", "http"]);
    run(&["overview", "--server", "http://127.0.0.1:1", "--key", "a\nb"]).assert_failure(2, &["API key"]);
}

#[test]
fn error_message_is_escaped_for_the_terminal() {
    let api = FakeApi::responding(
        400,
        r#"{"error":{"code":"invalid_request","message":"a\u001b[2Jb\nposthaste: ok"}}"#,
    );
    let output = run(&["overview", "--server", &api.url]);
    output.assert_failure(1, &[r"a\u{1b}[2Jb\nposthaste: ok"]);
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
}
