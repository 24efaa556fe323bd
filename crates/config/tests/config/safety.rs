//! Whatever is written, loading neither panics nor tells a secret.

use posthaste_config::{Effective, SETTINGS, Secrecy, Setting};
use proptest::prelude::*;

use crate::Said;

/// Everything that is ever shown of what was said.
fn shown(said: &Said) -> String {
    match said.load() {
        Ok(config) => {
            let rows: Vec<_> = config.settings.iter().map(Effective::row).collect();
            format!("{config:?} {rows:?} {} {:?}", config.to_json(), config.warnings)
        }
        Err(errors) => format!("{errors:?}"),
    }
}

fn settings(secrecy: Secrecy) -> impl Iterator<Item = &'static Setting> {
    SETTINGS.into_iter().filter(move |setting| setting.secrecy == secrecy)
}

/// Text that is nearly a value of one of the forms.
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

fn in_file() -> impl Strategy<Value = String> {
    let names: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
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
    fn any_text_is_read_or_refused(
        values in proptest::collection::vec(near_value(), SETTINGS.len()),
        layers in proptest::collection::vec(0..4, SETTINGS.len()),
        file in in_file(),
    ) {
        let mut said = Said::nothing().file(file);
        for ((setting, value), layer) in SETTINGS.into_iter().zip(&values).zip(layers) {
            // Variables of a process hold no zero byte.
            said = match layer {
                0 => said.flag(setting.name, value),
                1 => said.env(setting.env, value.replace('\0', "")),
                2 => said.env(setting.env_also.unwrap_or(setting.env), value.replace('\0', "")),
                _ => said,
            };
        }
        for message in said.load().err().into_iter().flatten() {
            prop_assert!(message.chars().count() < 2_000 && !message.contains('\n'), "{}", message);
        }
    }

    #[test]
    fn a_secret_is_shown_by_nothing(
        secret in "[A-Za-z0-9]{16,43}",
        form in "(whsec_)?(X|X=|X,X|a:viewer:X|X:viewer:a|a:X|a:viewer:X,X|,X|X[!@ ]|\\[X)",
        how in 0..8,
    ) {
        let value = form.replace('X', &secret);
        for setting in settings(Secrecy::Secret) {
            let name = setting.name;
            let said = match how {
                0 => Said::nothing().flag(name, &value),
                1 => Said::nothing().env(setting.env, value.as_str()),
                2 => Said::nothing().file(format!("{name} = '{value}'")),
                3 => Said::nothing().file(format!("{name} = ['{value}', '{value}']")),
                4 => Said::nothing().file(format!("{name} = {value}")),
                5 => Said::nothing().file(format!("{name} = '{value}")),
                6 => Said::nothing().file(format!("{name} = '{value}' '{value}'\n{name} = \"\\{value}\"")),
                _ => Said::nothing().file(format!("{name} = [[{{a = '{value}'}}]]")),
            };
            let shown = shown(&said);
            prop_assert!(!shown.contains(&secret), "{}", shown);
        }
    }

    #[test]
    fn a_password_in_a_url_is_shown_by_nothing(
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
        for setting in settings(Secrecy::Credentials) {
            let said = if env {
                Said::nothing().env(setting.env, url.as_str())
            } else {
                Said::nothing().file(format!("{} = '{url}'", setting.name))
            };
            let shown = shown(&said);
            prop_assert!(!shown.contains(&password), "{}: {}", url, shown);
        }
    }
}
