//! Help, completions, bad usage, and a closed standard output.

use std::io;

use crate::command::{posthaste, posthaste_on_terminal, run, run_command};

const COMMANDS: &[&[&str]] = &[
    &[],
    &["serve"],
    &["worker"],
    &["dispatch"],
    &["migrate"],
    &["send"],
    &["listen"],
    &["overview"],
    &["workers"],
    &["dlq"],
    &["dlq", "list"],
    &["dlq", "requeue"],
    &["events"],
    &["events", "list"],
    &["events", "show"],
    &["events", "cancel"],
    &["dlq", "discard"],
    &["destinations"],
    &["destinations", "list"],
    &["destinations", "show"],
    &["destinations", "pause"],
    &["destinations", "resume"],
    &["destinations", "secret"],
    &["apps"],
    &["apps", "list"],
    &["apps", "add"],
    &["apps", "show"],
    &["apps", "update"],
    &["apps", "delete"],
    &["endpoints"],
    &["endpoints", "list"],
    &["endpoints", "add"],
    &["endpoints", "show"],
    &["endpoints", "update"],
    &["endpoints", "disable"],
    &["endpoints", "enable"],
    &["endpoints", "delete"],
    &["endpoints", "secret"],
    &["endpoints", "rotate"],
    &["endpoints", "stats"],
    &["endpoints", "send-example"],
    &["endpoints", "recover"],
    &["endpoints", "replay-missing"],
    &["endpoints", "operation"],
    &["event-types"],
    &["event-types", "list"],
    &["event-types", "add"],
    &["event-types", "show"],
    &["event-types", "update"],
    &["event-types", "archive"],
    &["messages"],
    &["messages", "list"],
    &["messages", "publish"],
    &["messages", "show"],
    &["messages", "resend"],
    &["token"],
    &["operations"],
    &["operations", "list"],
    &["operations", "stop"],
    &["secrets"],
    &["secrets", "reseal"],
    &["doctor"],
    &["openapi"],
    &["config"],
    &["secret"],
    &["secret", "list"],
    &["secret", "rotate"],
];

#[test]
fn the_help_of_every_command_has_an_example() {
    for command in COMMANDS.iter().copied().chain([["completions"].as_slice()]) {
        for flag in ["--help", "-h"] {
            let output = run(&[command, &[flag]].concat());
            assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{command:?}");
            let example = format!("  posthaste {}", command.join(" "));
            assert!(output.stdout.contains("Example"), "{command:?}: {}", output.stdout);
            let has_example = output.stdout.contains(example.trim_end())
                || output.stdout.contains("<(posthaste completions");
            assert!(has_example, "{command:?}: {}", output.stdout);
        }
    }
}

#[test]
fn commands_that_use_the_configuration_have_a_flag_for_every_setting() {
    for command in ["serve", "worker", "dispatch", "doctor", "config"] {
        let help = run(&[command, "--help"]).stdout;
        for setting in posthaste_config::settings() {
            assert!(help.contains(&format!("{} ", setting.flag)), "{command} lacks {}", setting.flag);
        }
        assert!(help.contains("\nConfiguration:\n"), "{help}");
        assert!(!run(&[command, "-h"]).stdout.contains("--retry-base-seconds"), "{command} -h is short");
    }
    assert!(!run(&["overview", "--help"]).stdout.contains("--retry-base-seconds"));
}

#[test]
fn help_of_a_command_that_only_opens_the_database_lists_only_the_settings_of_the_database() {
    let commands = [
        &["secret"][..],
        &["secret", "list"],
        &["secret", "rotate"],
        &["secrets", "reseal"],
        &["operations", "list"],
        &["operations", "stop"],
        &["destinations", "secret"],
        &["token"],
        &["migrate"],
    ];
    for command in commands {
        for flag in ["--help", "-h"] {
            let help = run(&[command, &[flag]].concat()).stdout;
            for setting in posthaste_config::settings() {
                let is_listed = help.contains(&format!("{} ", setting.flag));
                assert_eq!(
                    is_listed,
                    setting.name.starts_with("database_"),
                    "{command:?} {flag}: {}",
                    setting.flag
                );
            }
            assert!(help.contains("--config <FILE>"), "{command:?}: {help}");
        }
    }
}

#[test]
fn settings_that_the_help_of_a_command_omits_are_accepted() {
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let output = run(&["secret", "--signing-secret", secret, "--concurrency", "64"]);
    assert_eq!((output.code, output.stdout.trim_end()), (Some(0), secret), "{}", output.stderr);
}

#[test]
fn an_invalid_flag_of_a_setting_is_bad_usage() {
    let output = run(&["serve", "--retry-base-seconds", "5"]);
    output.assert_failure(2, &["posthaste: --retry-base-seconds", "30"]);
}

#[test]
fn the_default_command_is_serve() {
    let output = run_command(posthaste(&[]).env("POSTHASTE_RETRY_BASE_SECONDS", "5"));
    output.assert_failure(2, &["posthaste: POSTHASTE_RETRY_BASE_SECONDS=5"]);
}

#[test]
fn all_errors_of_the_configuration_are_reported_together() {
    let output = run(&["worker", "--concurrency", "0", "--listen", "nowhere"]);
    output.assert_failure(2, &["posthaste: --concurrency 0", "posthaste: --listen nowhere"]);
}

#[test]
fn a_command_does_not_read_files_that_it_does_not_use() {
    let root = "postgres://app@db.example/shop?sslmode=verify-full&sslrootcert=/no/such/file";
    for (name, value) in [("POSTHASTE_CA_FILE", "/no/such/file"), ("POSTHASTE_DATABASE_URL", root)] {
        let config = run_command(posthaste(&["config"]).env(name, value));
        assert_eq!((config.code, config.stderr.as_str()), (Some(0), ""), "{name}");
        // No server listens on port 1.
        let overview =
            run_command(posthaste(&["overview"]).env(name, value).env("POSTHASTE_LISTEN", "127.0.0.1:1"));
        overview.assert_failure(1, &["127.0.0.1:1"]);
        run_command(posthaste(&["serve"]).env(name, value)).assert_failure(2, &[name, "/no/such/file"]);
    }
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let mut command = posthaste(&["secret"]);
    command.env("POSTHASTE_CA_FILE", "/no/such/file").env("POSTHASTE_SIGNING_SECRET", secret);
    assert_eq!(run_command(&mut command).stdout.trim_end(), secret);
}

#[test]
fn a_named_configuration_file_must_exist() {
    run(&["serve", "--config", "absent.toml"]).assert_failure(2, &["absent.toml"]);
    run(&["--config", "absent.toml", "overview"]).assert_failure(2, &["absent.toml"]);
}

#[test]
fn bad_usage_exits_with_2_and_names_the_argument() {
    let cases: [(&[&str], &str); 14] = [
        (&["sent"], "sent"),
        (&["dispatch"], "`posthaste dispatch --once`, or run `posthaste worker`"),
        (&["send", "--url", "http://a.example/", "--type", "t"], "--data"),
        (&["send", "--url", "http://a.example/", "--type", "t", "--data", "{}", "--file", "f"], "--file"),
        (&["send", "--url", "http://a.example/", "--type", "t", "--data", "{}", "--timeout", "3"], "--wait"),
        (&["listen", "--fail", "2", "--status", "500"], "--status"),
        (&["listen", "--status", "99"], "99"),
        (&["dlq", "list", "--limit", "201"], "201"),
        (&["dlq", "requeue"], "<ID|--all|--destination"),
        (&["dlq", "requeue", "msg_1", "--all"], "--all"),
        (&["completions", "tcsh"], "tcsh"),
        (&["secret", "rotate", "--grace", "5"], "60 s to 31536000 s, this one is 5 s"),
        (&["secret", "rotate", "--grace", "1h"], "a whole number of seconds"),
        (&["listen", "--secret-file", "-", "--secret", "whsec_x"], "--secret-file"),
    ];
    for (arguments, text) in cases {
        run(arguments).assert_failure(2, &[text]);
    }
}

#[test]
fn help_describes_what_the_command_itself_does() {
    const LISTEN_HELP: &str = "Address of the API and the dashboard";
    let worker = run(&["worker", "--help"]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        worker.contains("Address that serves /metrics, /healthz and /readyz, and nothing else"),
        "{worker}"
    );
    assert!(worker.contains("[default: none; the worker does not listen]"), "{worker}");
    assert!(!worker.contains(LISTEN_HELP), "{worker}");
    assert!(run(&["serve", "--help"]).stdout.contains(LISTEN_HELP));
    assert!(run(&["events", "cancel", "--help"]).stdout.contains("Cancel a pending or failed event"));
    assert!(run(&["dispatch", "--help"]).stdout.contains("posthaste dispatch --once [OPTIONS]"));
}

/// The same rule applies to the log, here of a dispatch, and to tables, here of the configuration.
#[test]
fn output_on_a_terminal_is_colored_unless_colors_are_disabled() {
    let directory = tempfile::tempdir().unwrap();
    let is_colored = |command: &[&str], more: &[&str], name: &str, value: &str| {
        let mut command = posthaste_on_terminal(Some(80), &[command, more].concat());
        let output = run_command(command.current_dir(&directory).env(name, value));
        assert_eq!(output.code, Some(0), "{}", output.stdout);
        output.stdout.contains('\u{1b}')
    };
    is_colored(&["migrate"], &[], "TERM", "xterm");
    for command in [&["dispatch", "--once"][..], &["config"]] {
        assert!(is_colored(command, &[], "TERM", "xterm"), "{command:?}");
        assert!(is_colored(command, &[], "NO_COLOR", ""), "{command:?}: an empty variable is not set");
        assert!(!is_colored(command, &[], "NO_COLOR", "1"), "{command:?}");
        assert!(!is_colored(command, &[], "TERM", "dumb"), "{command:?}");
        assert!(!is_colored(command, &["--no-color"], "TERM", "xterm"), "{command:?}");
    }
}

#[test]
fn completions_are_generated_for_each_shell() {
    for (shell, text) in
        [("bash", "complete -F"), ("zsh", "#compdef posthaste"), ("fish", "complete -c posthaste")]
    {
        let output = run(&["completions", shell]);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
        assert!(
            output.stdout.contains(text) && output.stdout.contains("requeue"),
            "{shell}: {}",
            output.stdout
        );
    }
}

#[test]
fn the_openapi_document_is_printed_without_a_server() {
    let output = run(&["openapi"]);
    let document: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert!(document["paths"]["/v1/webhook-outbox/events"].is_object(), "{}", output.stderr);
    let output = run(&["openapi", "--registry"]);
    let document: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert!(document["paths"]["/api/v1/app/{app_id}"].is_object(), "{}", output.stderr);
}

#[test]
fn a_closed_standard_output_is_no_error() {
    for arguments in [["completions", "bash"], ["serve", "--help"]] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let output = run_command(posthaste(&arguments).stdout(writer));
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    }
}
