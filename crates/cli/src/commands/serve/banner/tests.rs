//! Tests of the banner: its text, its JSON, its commands, and the secrets that it hides.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::{Args as _, FromArgMatches as _};
use posthaste_config::{Sources, load};

use crate::cli::SettingFlags;

use super::*;

const LOOPBACK: &str = "127.0.0.1:8600";
const KEYS: &str = "POSTHASTE_API_KEYS=orders:producer:0123456789abcdef";

/// Returns the banner of `posthaste serve` with this address, these flags and these variables.
fn banner_at(address: &str, flags: &[&str], env: &[&str]) -> Banner {
    let (file, flags) = match flags {
        ["--config", file, rest @ ..] => (Some(Path::new(*file)), rest),
        flags => (None, flags),
    };
    let (no_worker, flags) = match flags {
        ["--no-worker", rest @ ..] => (true, rest),
        flags => (false, flags),
    };
    let command = SettingFlags::augment_args(clap::Command::new("serve"));
    let matches = command.get_matches_from([&["serve"], flags].concat());
    let args = ServeArgs { no_worker, settings: SettingFlags::from_arg_matches(&matches).unwrap() };
    let flags: BTreeMap<_, _> =
        args.settings.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let listen = format!("POSTHASTE_LISTEN={address}");
    let variable = |text: &&str| {
        let (name, value) = text.split_once('=').unwrap();
        (OsString::from(name), OsString::from(value))
    };
    let env: BTreeMap<_, _> = [listen.as_str()].iter().chain(env).map(variable).collect();
    let config = load(&Sources { flags: &flags, env: &env, ..Sources::NONE }).unwrap();
    Banner::new(&args, file, &config, address.parse().unwrap())
}

fn banner(flags: &[&str], env: &[&str]) -> Banner {
    banner_at(LOOPBACK, flags, env)
}

#[track_caller]
fn listen_command(flags: &[&str], env: &[&str]) -> String {
    banner(flags, env).first_event.expect("the banner has commands to try").listen
}

#[test]
fn the_text_names_url_database_and_commands_to_try() {
    let here = std::env::current_dir().unwrap();
    let expected = format!(
        "\
Posthaste {version} listens on http://127.0.0.1:8600/
  data     {here}/posthaste.db (SQLite)
  docs     http://127.0.0.1:8600/docs
  try      a receiver, in another terminal in this directory:
             posthaste secret | posthaste listen --secret-file -
           then
             curl http://127.0.0.1:8600/v1/webhook-outbox/events \\
               -H 'content-type: application/json' \\
               -d '{{\"destination_url\": \"http://127.0.0.1:8700/\", \"event_type\": \"invoice.paid\", \"payload\": \
         {{\"invoice\": 17}}}}'
",
        version = env!("CARGO_PKG_VERSION"),
        here = here.display(),
    );
    assert_eq!(banner(&[], &[]).text(), expected);
}

#[test]
fn the_json_is_one_line_with_the_same_contents() {
    let line = banner(&[], &[]).json_line("2026-01-31T16:31:02Z".to_owned());
    assert_eq!(line.lines().count(), 1);
    let object: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(object["url"], "http://127.0.0.1:8600/");
    assert!(object["data"].as_str().unwrap().ends_with("/posthaste.db (SQLite)"), "{object}");
    assert_eq!(object["try"][0], "posthaste secret | posthaste listen --secret-file -");
    let curl = object["try"][1].as_str().unwrap();
    assert!(curl.starts_with("curl http://127.0.0.1:8600/v1/webhook-outbox/events -H "), "{curl}");
    let without_worker = banner(&["--no-worker"], &[]).json_line(String::new());
    assert!(!without_worker.contains("\"try\""), "{without_worker}");
}

#[test]
fn flags_that_determine_the_secret_are_repeated() {
    assert_eq!(
        listen_command(&["--config", "my own.toml", "--database-url", "sqlite://it's.db"], &[]),
        r"posthaste secret --config 'my own.toml' --database-url 'sqlite://it'\''s.db' | posthaste listen --secret-file -"
    );
    let plain = "postgres://me@127.0.0.1/hooks";
    assert_eq!(
        listen_command(&["--database-url", plain], &[]),
        format!("posthaste secret --database-url {plain} | posthaste listen --secret-file -")
    );
    let shown = banner(&["--database-url", plain, "--database-schema", "billing"], &[]).text();
    assert!(
        shown.contains(&format!("posthaste secret --database-url {plain} --database-schema billing")),
        "{shown}"
    );
    assert!(shown.contains(&format!("{plain} (schema billing)")), "{shown}");
}

#[test]
fn secrets_in_flags_are_not_shown() {
    let with_password = listen_command(&["--database-url", "postgres://me:hunter2@127.0.0.1/hooks"], &[]);
    assert_eq!(
        with_password,
        "posthaste secret --database-url YOUR_DATABASE_URL | posthaste listen --secret-file -"
    );
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let with_secret = listen_command(&["--signing-secret", secret], &[]);
    assert_eq!(with_secret, "posthaste listen --secret-file FILE_WITH_YOUR_SIGNING_SECRET");
    let shown = banner(&["--allow-private-networks", "true"], &[KEYS]).text();
    assert!(shown.contains("Bearer YOUR_KEY") && !shown.contains("0123456789abcdef"), "{shown}");
}

#[test]
fn a_required_environment_is_mentioned_and_not_repeated() {
    let shown = banner(&[], &["POSTHASTE_DATABASE_URL=sqlite://other.db"]).text();
    assert!(shown.contains("in another terminal in this directory, with this environment:"), "{shown}");
    assert!(shown.contains("posthaste secret | posthaste listen"), "{shown}");
}

#[test]
fn there_are_no_commands_if_the_event_would_not_arrive() {
    assert!(banner(&["--no-worker"], &[]).first_event.is_none(), "there is no worker");
    assert!(
        banner(&["--allow-private-networks", "false"], &[]).first_event.is_none(),
        "loopback is forbidden"
    );
    assert!(banner(&["--egress-proxy", "http://127.0.0.1:3128"], &[]).first_event.is_none());
    assert!(banner_at("0.0.0.0:8600", &[], &[KEYS]).first_event.is_none(), "loopback is forbidden");
    let allowed = ["--allow-private-networks", "127.0.0.0/8"];
    assert!(banner_at("0.0.0.0:8600", &allowed, &[KEYS]).first_event.is_some());
}

#[test]
fn a_server_on_every_address_is_shown_with_a_loopback_url() {
    let shown = banner_at("0.0.0.0:8600", &[], &[KEYS]).text();
    let first = shown.lines().next().unwrap();
    assert!(first.ends_with(" listens on http://127.0.0.1:8600/ and on every other address of this host"));
    assert!(shown.contains("http://127.0.0.1:8600/docs") && !shown.contains("0.0.0.0"), "{shown}");
    assert!(banner_at("[::]:8600", &[], &[KEYS]).text().contains("http://[::1]:8600/docs"));
}
