//! Finding the server, and what is told when it does not answer as it should.

use crate::command::{directory, finish, posthaste, run};
use crate::fake_api::{FakeApi, error};

const OVERVIEW: &str = r#"{"pending_count":12,"pending_ready_count":3,"retrying_count":4,"failed_count":2,"delivered_count":9999,"oldest_pending_age_seconds":185.25}"#;

#[test]
fn the_overview_is_a_table_for_people_and_the_answer_for_programs() {
    let api = FakeApi::answering(200, OVERVIEW);
    let ran = run(&["overview", "--server", &api.url]);
    let expected = "\
EVENTS      COUNT
pending        12  the oldest for 3 min
  due now       3
  retrying      4
failed          2  see them with `posthaste dlq list`
delivered    9999
";
    ran.printed(expected);
    run(&["overview", "--server", &api.url, "--json"]).printed(&format!("{OVERVIEW}\n"));
    assert_eq!(api.lines(), ["GET /v1/webhook-outbox/overview"; 2]);
}

#[test]
fn the_server_is_found_by_flag_then_environment_then_configuration() {
    let api = FakeApi::answering(200, OVERVIEW);
    let address = api.url.trim_start_matches("http://");
    let overview = || posthaste(&["overview", "--json"]);
    let answered = format!("{OVERVIEW}\n");
    finish(overview().env("POSTHASTE_SERVER", &api.url)).printed(&answered);
    finish(overview().env("POSTHASTE_LISTEN", address)).printed(&answered);
    let directory = directory("configured");
    std::fs::write(directory.join("posthaste.toml"), format!("listen = \"{address}\"\n")).unwrap();
    finish(overview().current_dir(&directory)).printed(&answered);
    let by_flag = ["overview", "--json", "--server", address];
    finish(posthaste(&by_flag).env("POSTHASTE_SERVER", "http://127.0.0.1:1")).printed(&answered);
}

#[test]
fn an_empty_variable_is_not_set_and_an_empty_flag_is_a_mistake() {
    let api = FakeApi::answering(200, OVERVIEW);
    let address = api.url.trim_start_matches("http://");
    let mut overview = posthaste(&["overview", "--json"]);
    overview.env("POSTHASTE_LISTEN", address).env("POSTHASTE_SERVER", "").env("POSTHASTE_API_KEY", "");
    finish(&mut overview).printed(&format!("{OVERVIEW}\n"));
    assert_eq!(api.asked()[0].header("authorization"), None);
    run(&["overview", "--server", ""]).refused(2, &["--server"]);
}

#[test]
fn a_server_that_is_named_makes_the_configuration_unimportant() {
    let api = FakeApi::answering(200, OVERVIEW);
    let ran =
        finish(posthaste(&["overview", "--json", "--server", &api.url]).env("POSTHASTE_LISTEN", "nowhere"));
    ran.printed(&format!("{OVERVIEW}\n"));
    finish(posthaste(&["overview"]).env("POSTHASTE_LISTEN", "nowhere"))
        .refused(2, &["POSTHASTE_LISTEN=nowhere"]);
}

#[test]
fn the_key_is_sent_and_never_shown() {
    let refusal = error("forbidden", "this key may not");
    let api = FakeApi::answering(403, &refusal);
    let key = "0123456789abcdef";
    let ran = finish(posthaste(&["overview", "--server", &api.url]).env("POSTHASTE_API_KEY", key));
    ran.refused(1, &["posthaste: this key may not (forbidden)", "--key"]);
    assert!(!ran.stderr.contains(key));
    run(&["overview", "--server", &api.url, "--key", "other"]).refused(1, &["forbidden"]);
    let sent: Vec<_> =
        api.asked().iter().map(|asked| asked.header("authorization").map(str::to_owned)).collect();
    assert_eq!(sent, [Some(format!("Bearer {key}")), Some("Bearer other".to_owned())]);
    let help = finish(posthaste(&["overview", "--help"]).env("POSTHASTE_API_KEY", key)).stdout;
    assert!(!help.contains(key), "{help}");
}

#[test]
fn a_server_that_asks_for_a_key_says_so() {
    let api = FakeApi::answering(401, &error("unauthorized", "an API key is needed"));
    run(&["overview", "--server", &api.url])
        .refused(1, &["an API key is needed (unauthorized)", "--key or POSTHASTE_API_KEY"]);
}

#[test]
fn nobody_there_is_told_with_what_to_do() {
    // A port that is never given to whoever asks for any.
    let server = "http://127.0.0.1:1";
    for json in [&[][..], &["--json"]] {
        let ran = run(&[&["overview", "--server", server], json].concat());
        let told = format!(
            "posthaste: no Posthaste answers at {server}: start it with `posthaste serve`, or name another with \
             --server (connection refused)\n"
        );
        ran.refused(1, &[&told]);
        assert_eq!(ran.stderr, told);
    }
}

#[test]
fn something_else_at_that_address_is_noticed() {
    let api = FakeApi::answering(502, "<html>bad gateway</html>");
    run(&["overview", "--server", &api.url]).refused(1, &["not as Posthaste does", "502"]);
    let api = FakeApi::answering(200, "<html>welcome</html>");
    run(&["overview", "--server", &api.url]).refused(1, &["cannot be read"]);
}

#[test]
fn what_is_no_server_is_bad_usage() {
    run(&["overview", "--server", "ftp://ops.example"]).refused(2, &["ftp://ops.example", "http"]);
    run(&["overview", "--server", "http://127.0.0.1:1", "--key", "a\nb"]).refused(2, &["API key"]);
}

#[test]
fn an_error_cannot_act_on_the_terminal() {
    let api = FakeApi::answering(
        400,
        r#"{"error":{"code":"invalid_request","message":"a\u001b[2Jb\nposthaste: ok"}}"#,
    );
    let ran = run(&["overview", "--server", &api.url]);
    ran.refused(1, &[r"a\u{1b}[2Jb\nposthaste: ok"]);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
}
