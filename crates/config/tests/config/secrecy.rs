//! Properties over generated input: parsing never panics and never shows a secret.

use posthaste_config::{EffectiveSetting, Secrecy, Setting, settings};
use proptest::prelude::*;

use crate::UserInput;

/// Returns everything that is shown of a configuration.
fn all_output(input: &UserInput) -> String {
    match input.parse() {
        Ok(config) => {
            let rows: Vec<_> = config.settings.iter().map(EffectiveSetting::row).collect();
            format!("{config:?} {rows:?} {} {:?}", config.to_json(), config.warnings)
        }
        Err(errors) => format!("{errors:?}"),
    }
}

fn settings_with(secrecy: Secrecy) -> impl Iterator<Item = &'static Setting> {
    settings().filter(move |setting| setting.secrecy == secrecy)
}

/// Generates texts that resemble values of the settings.
fn near_value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9.,+-]{0,30}",
        "(true|false|own|json|exponential|schedule|info|[a-z]{1,9}),?",
        "(sqlite|postgres|http|socks5)://[a-z0-9:@/?#&=%.,\\[\\]]{0,30}",
        "[0-9a-f:.\\[\\]/,]{0,30}",
        "whsec_[A-Za-z0-9+/=,]{0,100}",
        any::<String>(),
    ]
}

/// Generates texts that resemble configuration files.
fn near_file() -> impl Strategy<Value = String> {
    let names: Vec<_> = settings().map(|setting| setting.name).collect();
    let line =
        (proptest::sample::select(names), near_value(), 0..6).prop_map(|(name, value, how)| match how {
            0 => format!("{name} = {value}"),
            1 => format!("{name} = {value:?}"),
            2 => format!("{name} = '{value}'"),
            3 => format!("{name} = [{value}]"),
            4 => format!("[{name}]\nx = 1"),
            _ => value,
        });
    prop_oneof![
        proptest::collection::vec(line, 0..6).prop_map(|lines| lines.join("\n")),
        any::<String>(),
        "[a-z_=\\[\\]{}'\"#0-9 \\n.]{0,80}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_text_is_parsed_or_rejected(
        values in proptest::collection::vec(near_value(), settings().len()),
        layers in proptest::collection::vec(0..4, settings().len()),
        file in near_file(),
    ) {
        let mut input = UserInput::new().file(file);
        for ((setting, value), layer) in settings().zip(&values).zip(layers) {
            // An environment variable cannot contain a zero byte.
            input = match layer {
                0 => input.flag(setting.name, value),
                1 => input.env(&setting.env, value.replace('\0', "")),
                2 => input.env(setting.env_alias.unwrap_or(&setting.env), value.replace('\0', "")),
                _ => input,
            };
        }
        for message in input.parse().err().into_iter().flatten() {
            prop_assert!(message.chars().count() < 2_000 && !message.contains('\n'), "{}", message);
        }
    }

    #[test]
    fn secret_is_never_shown(
        secret in "[A-Za-z0-9]{16,43}",
        form in "(whsec_)?(X|X=|X,X|a:viewer:X|X:viewer:a|a:X|a:viewer:X,X|,X|X[!@ ]|\\[X)",
        how in 0..8,
    ) {
        let value = form.replace('X', &secret);
        for setting in settings_with(Secrecy::Secret) {
            let name = setting.name;
            let input = match how {
                0 => UserInput::new().flag(name, &value),
                1 => UserInput::new().env(&setting.env, value.as_str()),
                2 => UserInput::new().file(format!("{name} = '{value}'")),
                3 => UserInput::new().file(format!("{name} = ['{value}', '{value}']")),
                4 => UserInput::new().file(format!("{name} = {value}")),
                5 => UserInput::new().file(format!("{name} = '{value}")),
                6 => UserInput::new().file(format!("{name} = '{value}' '{value}'\n{name} = \"\\{value}\"")),
                _ => UserInput::new().file(format!("{name} = [[{{a = '{value}'}}]]")),
            };
            let shown = all_output(&input);
            prop_assert!(!shown.contains(&secret), "{}", shown);
        }
    }

    #[test]
    fn password_in_a_url_is_never_shown(
        password in "[A-Za-z0-9]{12,20}",
        scheme in "(postgres|postgresql|http|https|httph|socks5|socks5h|mysql|Postgres)",
        before in "[a-z]{0,5}:([@/?#:&=%,\\[\\]!]{0,2})",
        after in "([@/?#:&=%,\\[\\]! ]{0,2})@(host\\.example)?(:[0-9]{1,6})?(/[a-z]{0,4})?([?]x=y)?",
        parameter in proptest::bool::ANY,
        env in proptest::bool::ANY,
    ) {
        let url = if parameter {
            format!("{scheme}://host.example/db?password={password}&sslmode=disable")
        } else {
            format!("{scheme}://{before}{password}{after}")
        };
        for setting in settings_with(Secrecy::Credentials) {
            let input = if env {
                UserInput::new().env(&setting.env, url.as_str())
            } else {
                UserInput::new().file(format!("{} = '{url}'", setting.name))
            };
            let shown = all_output(&input);
            prop_assert!(!shown.contains(&password), "{}: {}", url, shown);
        }
    }
}
