//! What a start says, to whom, and what it keeps to itself.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::{Args as _, FromArgMatches as _};
use posthaste_config::{Sources, load};

use crate::cli::SettingFlags;

use super::*;

const LOOPBACK: &str = "127.0.0.1:8600";
const KEYS: &str = "POSTHASTE_API_KEYS=orders:producer:0123456789abcdef";

/// As `posthaste serve` with these flags and variables makes it.
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
        args.settings.given().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let listen = format!("POSTHASTE_LISTEN={address}");
    let variable = |text: &&str| {
        let (name, value) = text.split_once('=').unwrap();
        (OsString::from(name), OsString::from(value))
    };
    let env: BTreeMap<_, _> = [listen.as_str()].iter().chain(env).map(variable).collect();
    let config = load(&Sources { flags: &flags, env: &env, ..Sources::NONE }).unwrap();
    Banner::of(&args, file, &config, address.parse().unwrap())
}

fn banner(flags: &[&str], env: &[&str]) -> Banner {
    banner_at(LOOPBACK, flags, env)
}

#[track_caller]
fn listen(flags: &[&str], env: &[&str]) -> String {
    banner(flags, env).first_event.expect("it can be tried").listen
}

#[test]
fn people_are_told_where_it_is_where_its_data_are_and_what_to_try() {
    let here = std::env::current_dir().unwrap();
    let expected = format!(
        "\
Posthaste {version} listens on http://127.0.0.1:8600/
  data     {here}/posthaste.db (SQLite)
  docs     http://127.0.0.1:8600/docs
  try      a receiver, in another terminal in this directory:
             posthaste listen --secret \"$(posthaste secret)\"
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
fn programs_get_the_same_as_one_line_of_json() {
    let line = banner(&[], &[]).line("2026-01-31T16:31:02Z".to_owned());
    assert_eq!(line.lines().count(), 1);
    let told: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(told["url"], "http://127.0.0.1:8600/");
    assert!(told["data"].as_str().unwrap().ends_with("/posthaste.db (SQLite)"), "{told}");
    assert_eq!(told["try"][0], "posthaste listen --secret \"$(posthaste secret)\"");
    let curl = told["try"][1].as_str().unwrap();
    assert!(curl.starts_with("curl http://127.0.0.1:8600/v1/webhook-outbox/events -H "), "{curl}");
    let silent = banner(&["--no-worker"], &[]).line(String::new());
    assert!(!silent.contains("\"try\""), "{silent}");
}

#[test]
fn what_was_given_as_a_flag_is_repeated_so_that_the_secret_is_found() {
    assert_eq!(
        listen(&["--config", "my own.toml", "--database-url", "sqlite://it's.db"], &[]),
        r#"posthaste listen --secret "$(posthaste secret --config 'my own.toml' --database-url 'sqlite://it'\''s.db')""#
    );
    let plain = "postgres://me@127.0.0.1/hooks";
    assert_eq!(
        listen(&["--database-url", plain], &[]),
        format!("posthaste listen --secret \"$(posthaste secret --database-url {plain})\"")
    );
}

#[test]
fn secrets_that_were_given_as_flags_are_not_shown() {
    let with_password = listen(&["--database-url", "postgres://me:hunter2@127.0.0.1/hooks"], &[]);
    assert_eq!(
        with_password,
        "posthaste listen --secret \"$(posthaste secret --database-url YOUR_DATABASE_URL)\""
    );
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    assert_eq!(listen(&["--signing-secret", secret], &[]), "posthaste listen --secret YOUR_SIGNING_SECRET");
    let shown = banner(&[], &[KEYS]).text();
    assert!(shown.contains("Bearer YOUR_KEY") && !shown.contains("0123456789abcdef"), "{shown}");
}

#[test]
fn an_environment_is_not_repeated_and_said_to_be_needed() {
    let shown = banner(&[], &["POSTHASTE_DATABASE_URL=sqlite://other.db"]).text();
    assert!(shown.contains("in another terminal in this directory, with this environment:"), "{shown}");
    assert!(shown.contains("\"$(posthaste secret)\""), "{shown}");
}

#[test]
fn nothing_is_to_be_tried_that_would_not_arrive() {
    assert!(banner(&["--no-worker"], &[]).first_event.is_none(), "nobody sends");
    assert!(banner(&["--allow-private-networks", "false"], &[]).first_event.is_none(), "it is forbidden");
    assert!(banner(&["--egress-proxy", "http://127.0.0.1:3128"], &[]).first_event.is_none());
    assert!(banner_at("0.0.0.0:8600", &[], &[KEYS]).first_event.is_none(), "loopback is closed");
    let opened = ["--allow-private-networks", "127.0.0.0/8"];
    assert!(banner_at("0.0.0.0:8600", &opened, &[KEYS]).first_event.is_some());
}

#[test]
fn a_service_on_every_address_is_shown_where_this_machine_reaches_it() {
    let shown = banner_at("0.0.0.0:8600", &[], &[KEYS]).text();
    let first = shown.lines().next().unwrap();
    assert!(first.ends_with(" listens on http://127.0.0.1:8600/ and on every other address of this host"));
    assert!(shown.contains("http://127.0.0.1:8600/docs") && !shown.contains("0.0.0.0"), "{shown}");
    assert!(banner_at("[::]:8600", &[], &[KEYS]).text().contains("http://[::1]:8600/docs"));
}
