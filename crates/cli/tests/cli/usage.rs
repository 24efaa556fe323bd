//! Help, completions, bad usage, and output that nobody reads.

use std::io;

use crate::command::{finish, on_terminal, posthaste, run};

const COMMANDS: [&[&str]; 19] = [
    &[],
    &["serve"],
    &["worker"],
    &["dispatch"],
    &["migrate"],
    &["send"],
    &["listen"],
    &["overview"],
    &["dlq"],
    &["dlq", "list"],
    &["dlq", "requeue"],
    &["events"],
    &["events", "list"],
    &["events", "show"],
    &["events", "cancel"],
    &["doctor"],
    &["openapi"],
    &["config"],
    &["secret"],
];

#[test]
fn the_help_of_every_command_has_an_example() {
    for command in COMMANDS.into_iter().chain([["completions"].as_slice()]) {
        for flag in ["--help", "-h"] {
            let ran = run(&[command, &[flag]].concat());
            assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{command:?}");
            let example = format!("  posthaste {}", command.join(" "));
            assert!(ran.stdout.contains("Example"), "{command:?}: {}", ran.stdout);
            let typed =
                ran.stdout.contains(example.trim_end()) || ran.stdout.contains("<(posthaste completions");
            assert!(typed, "{command:?}: {}", ran.stdout);
        }
    }
}

#[test]
fn commands_that_use_the_configuration_take_every_setting_as_a_flag() {
    for command in ["serve", "worker", "dispatch", "migrate", "doctor", "config", "secret"] {
        let help = run(&[command, "--help"]).stdout;
        for setting in posthaste_config::SETTINGS {
            assert!(help.contains(&format!("{} ", setting.flag)), "{command} lacks {}", setting.flag);
        }
        assert!(help.contains("\nConfiguration:\n"), "{help}");
        assert!(!run(&[command, "-h"]).stdout.contains("--retry-base-seconds"), "{command} -h is short");
    }
    assert!(!run(&["overview", "--help"]).stdout.contains("--retry-base-seconds"));
}

#[test]
fn a_setting_given_as_a_flag_is_judged_by_the_configuration() {
    let ran = run(&["serve", "--retry-base-seconds", "5"]);
    ran.refused(2, &["posthaste: --retry-base-seconds", "30"]);
}

#[test]
fn without_a_command_it_serves() {
    let ran = finish(posthaste(&[]).env("POSTHASTE_RETRY_BASE_SECONDS", "5"));
    ran.refused(2, &["posthaste: POSTHASTE_RETRY_BASE_SECONDS=5"]);
}

#[test]
fn everything_wrong_with_the_configuration_is_told_at_once() {
    let ran = run(&["worker", "--concurrency", "0", "--listen", "nowhere"]);
    ran.refused(2, &["posthaste: --concurrency 0", "posthaste: --listen nowhere"]);
}

#[test]
fn files_that_a_command_does_not_use_are_not_looked_at() {
    let root = "postgres://app@db.example/shop?sslmode=verify-full&sslrootcert=/no/such/file";
    for (name, value) in [("POSTHASTE_CA_FILE", "/no/such/file"), ("POSTHASTE_DATABASE_URL", root)] {
        let shown = finish(posthaste(&["config"]).env(name, value));
        assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""), "{name}");
        // Nobody listens on port 1.
        let asked = finish(posthaste(&["overview"]).env(name, value).env("POSTHASTE_LISTEN", "127.0.0.1:1"));
        asked.refused(1, &["127.0.0.1:1"]);
        finish(posthaste(&["serve"]).env(name, value)).refused(2, &[name, "/no/such/file"]);
    }
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let mut asked = posthaste(&["secret"]);
    asked.env("POSTHASTE_CA_FILE", "/no/such/file").env("POSTHASTE_SIGNING_SECRET", secret);
    assert_eq!(finish(&mut asked).stdout.trim_end(), secret);
}

#[test]
fn a_configuration_file_that_is_named_must_be_there() {
    run(&["serve", "--config", "absent.toml"]).refused(2, &["absent.toml"]);
    run(&["--config", "absent.toml", "overview"]).refused(2, &["absent.toml"]);
}

#[test]
fn bad_usage_exits_2_and_names_what_is_wrong() {
    let cases: [(&[&str], &str); 11] = [
        (&["sent"], "sent"),
        (&["dispatch"], "`posthaste dispatch --once`, or run `posthaste worker`"),
        (&["send", "--url", "http://a.example/", "--type", "t"], "--data"),
        (&["send", "--url", "http://a.example/", "--type", "t", "--data", "{}", "--file", "f"], "--file"),
        (&["send", "--url", "http://a.example/", "--type", "t", "--data", "{}", "--timeout", "3"], "--wait"),
        (&["listen", "--fail", "2", "--status", "500"], "--status"),
        (&["listen", "--status", "99"], "99"),
        (&["dlq", "list", "--limit", "201"], "201"),
        (&["dlq", "requeue"], "<ID|--all>"),
        (&["dlq", "requeue", "msg_1", "--all"], "--all"),
        (&["completions", "tcsh"], "tcsh"),
    ];
    for (arguments, told) in cases {
        run(arguments).refused(2, &[told]);
    }
}

#[test]
fn help_says_what_a_command_does_and_no_more() {
    let worker = run(&["worker", "--help"]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(worker.contains("Where /metrics, /healthz and /readyz answer, and nothing else"), "{worker}");
    assert!(worker.contains("[default: it does not listen]"), "{worker}");
    assert!(!worker.contains("Where the API and the dashboard answer"), "{worker}");
    assert!(run(&["serve", "--help"]).stdout.contains("Where the API and the dashboard answer"));
    assert!(run(&["events", "cancel", "--help"]).stdout.contains("End a pending or failed event"));
    assert!(run(&["dispatch", "--help"]).stdout.contains("posthaste dispatch --once [OPTIONS]"));
}

/// One rule for all that a process writes: the log of a dispatch, and the table of a configuration.
#[test]
fn colours_show_on_a_terminal_unless_they_are_not_wanted() {
    let directory = tempfile::tempdir().unwrap();
    let is_coloured = |command: &[&str], more: &[&str], name: &str, value: &str| {
        let mut command = on_terminal(Some(80), &[command, more].concat());
        let ran = finish(command.current_dir(&directory).env(name, value));
        assert_eq!(ran.code, Some(0), "{}", ran.stdout);
        ran.stdout.contains('\u{1b}')
    };
    for command in [&["dispatch", "--once"][..], &["config"]] {
        assert!(is_coloured(command, &[], "TERM", "xterm"), "{command:?}");
        assert!(is_coloured(command, &[], "NO_COLOR", ""), "{command:?}: an empty variable is not set");
        assert!(!is_coloured(command, &[], "NO_COLOR", "1"), "{command:?}");
        assert!(!is_coloured(command, &[], "TERM", "dumb"), "{command:?}");
        assert!(!is_coloured(command, &["--no-color"], "TERM", "xterm"), "{command:?}");
    }
}

#[test]
fn completions_are_made_for_each_shell() {
    for (shell, told) in
        [("bash", "complete -F"), ("zsh", "#compdef posthaste"), ("fish", "complete -c posthaste")]
    {
        let ran = run(&["completions", shell]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        assert!(ran.stdout.contains(told) && ran.stdout.contains("requeue"), "{shell}: {}", ran.stdout);
    }
}

#[test]
fn the_openapi_document_is_printed_without_a_server() {
    let ran = run(&["openapi"]);
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(document["paths"]["/v1/webhook-outbox/events"].is_object(), "{}", ran.stderr);
}

#[test]
fn output_that_nobody_reads_is_no_error() {
    for arguments in [["completions", "bash"], ["serve", "--help"]] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let ran = finish(posthaste(&arguments).stdout(writer));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    }
}
