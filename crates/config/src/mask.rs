//! Masks secrets in values that are shown: in messages, in logs and by `posthaste config`. Messages and logs show the
//! start of a long value; `posthaste config` prints all of it.
//!
//! A secret is never shown, not even its length. Of a URL, the user name of a database and harmless parameters are shown;
//! every part that is not recognised is treated as a password.

use super::setting::{Secrecy, Setting};

pub(crate) const MASK: &str = "***";

/// Maximum number of characters of a value that a message shows.
const SHOWN_CHARS_MAX: usize = 80;

/// URL schemes whose structure is known. A URL with another scheme is masked as a whole.
const SCHEMES_SHOWN: [&str; 7] = ["postgres", "postgresql", "http", "https", "httph", "socks5", "socks5h"];

/// Schemes that users may write by mistake. Of such a URL, only the scheme is shown: any other text before `://` may be part
/// of a password.
const SCHEMES_NAMED: [&str; 11] = [
    "cockroachdb",
    "file",
    "ftp",
    "jdbc",
    "mariadb",
    "mongodb",
    "mssql",
    "mysql",
    "oracle",
    "redis",
    "sqlserver",
];

/// Parameters of database URLs that contain no secret.
const PARAMETERS_SHOWN: [&str; 18] = [
    "application_name",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "load_balance_hosts",
    "port",
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
];

/// Returns the whole value with its secrets masked.
pub(crate) fn mask_value(setting: &Setting, text: &str) -> String {
    match setting.secrecy {
        Secrecy::Public => text.to_owned(),
        Secrecy::Credentials => mask_url(text),
        Secrecy::Secret => MASK.to_owned(),
    }
}

/// Returns whether a value contains a secret.
pub(crate) fn contains_secret(setting: &Setting, text: &str) -> bool {
    mask_value(setting, text).contains(MASK)
}

/// Returns a value for a message: masked, shortened, on one line.
pub(crate) fn display_text(setting: &Setting, text: &str) -> String {
    shorten(&mask_value(setting, text))
}

/// Cuts a text to [`SHOWN_CHARS_MAX`] characters and escapes its control characters.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => escape_controls(&text[..end]) + "…",
        None => escape_controls(text),
    }
}

/// Escapes control characters, so that the text stays on one line.
pub(crate) fn escape_controls(text: &str) -> String {
    let mut shown = String::new();
    for char in text.chars() {
        if char.is_control() { shown.extend(char.escape_default()) } else { shown.push(char) }
    }
    shown
}

/// Masks the credentials, unknown parameters and the fragment of a URL.
fn mask_url(text: &str) -> String {
    if text.starts_with("sqlite:") {
        return text.to_owned();
    }
    let known_scheme = text.split_once("://").filter(|(scheme, _)| SCHEMES_SHOWN.contains(scheme));
    let Some((scheme, rest)) = known_scheme else { return mask_unknown_url(text) };
    // Splits at the last @, because a password may contain an @ that is not escaped.
    let (user, rest) = match rest.rsplit_once('@') {
        Some((credentials, rest)) => (format!("{}@", mask_user(scheme, credentials)), rest),
        None => (String::new(), rest),
    };
    let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
    let (location, query) = match rest.split_once('?') {
        Some((location, query)) => (location, format!("?{}", mask_query(scheme, query))),
        None => (rest, String::new()),
    };
    let authority = location.split('/').next().unwrap_or_default();
    if !authority.split(',').all(is_host) {
        return format!("{scheme}://{MASK}");
    }
    format!("{scheme}://{user}{location}{query}")
}

/// Masks a URL of an unknown structure as a whole, except for the scheme if that is a well-known one.
fn mask_unknown_url(text: &str) -> String {
    match text.split_once("://") {
        Some((scheme, _)) if SCHEMES_NAMED.contains(&scheme) => format!("{scheme}://{MASK}"),
        _ => MASK.to_owned(),
    }
}

/// Returns whether a text is a host with or without a port. Any other text before the path may be a password without
/// its @.
fn is_host(text: &str) -> bool {
    let after_host = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((_, after)) => after,
        None => text.find(':').map_or("", |at| &text[at..]),
    };
    let port = after_host.strip_prefix(':').unwrap_or(after_host);
    port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Masks the credentials of a URL. Keeps the user name of a database; in other URLs, the user name may be a token.
fn mask_user(scheme: &str, credentials: &str) -> String {
    let is_name = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
    };
    match credentials.split_once(':') {
        Some((user, _)) if is_postgres(scheme) && is_name(user) => format!("{user}:{MASK}"),
        None if is_postgres(scheme) && is_name(credentials) => credentials.to_owned(),
        _ => MASK.to_owned(),
    }
}

/// Masks every parameter of a query that is not known to be harmless.
fn mask_query(scheme: &str, query: &str) -> String {
    let is_shown = |name: &str| is_postgres(scheme) && PARAMETERS_SHOWN.contains(&name);
    let shown = |pair: &str| match pair.split_once('=') {
        // A second = starts another parameter whose & is missing.
        Some((name, value)) if is_shown(name) && !value.contains('=') => pair.to_owned(),
        Some(("password", _)) => format!("password={MASK}"),
        _ => MASK.to_owned(),
    };
    query.split('&').map(shown).collect::<Vec<_>>().join("&")
}

fn is_postgres(scheme: &str) -> bool {
    scheme.starts_with("postgres")
}

#[cfg(test)]
mod tests {
    use super::super::settings::setting;
    use super::*;

    fn shown_as(name: &str, text: &str) -> String {
        display_text(setting(name).unwrap(), text)
    }

    #[test]
    fn database_url_is_shown_without_its_password() {
        for (text, expected) in [
            ("sqlite:///var/lib/posthaste.db", "sqlite:///var/lib/posthaste.db"),
            ("postgres://db.example/shop", "postgres://db.example/shop"),
            ("postgres://app@db.example/shop", "postgres://app@db.example/shop"),
            ("postgres://app:hunter2@db.example/shop", "postgres://app:***@db.example/shop"),
            ("postgres://app:hun@ter2@db.example/shop", "postgres://app:***@db.example/shop"),
            ("postgres://app:hun/t?e#r2@one:1,two:2/shop", "postgres://app:***@one:1,two:2/shop"),
            ("postgres://hun%20ter2@db.example", "postgres://***@db.example"),
            ("postgres:///shop?host=/run/pg&password=hunter2", "postgres:///shop?host=/run/pg&password=***"),
            ("postgres:///shop?p%61ssword=hunter2&sslmode=disable", "postgres:///shop?***&sslmode=disable"),
            ("postgres:///shop?sslmode=disablepassword=hunter2", "postgres:///shop?***"),
            ("postgres:///shop#hunter2", "postgres:///shop"),
            ("postgres:///shop?sslmode=disable#hunter2", "postgres:///shop?sslmode=disable"),
            ("postgres://app:hunter2%40db.example/shop", "postgres://***"),
            ("postgres://[::1]:5432/shop", "postgres://[::1]:5432/shop"),
            ("postgres:///shop?options=-cfoo%3Dhunter2", "postgres:///shop?***"),
            ("mysql://root:hunter2@db.example", "mysql://***"),
            ("hunter2://", "***"),
            ("host=db.example password=hunter2", "***"),
            ("app:hunter2@db.example/shop", "***"),
            ("app:hunter2@db.example://", "***"),
        ] {
            assert_eq!(shown_as("database_url", text), expected, "{text}");
        }
    }

    #[test]
    fn parameters_that_tune_a_connection_are_shown() {
        let setting = setting("database_url").unwrap();
        for parameter in [
            "keepalives=1",
            "keepalives_idle=30",
            "keepalives_interval=5",
            "keepalives_retries=3",
            "tcp_user_timeout=10",
            "connect_timeout=5",
            "channel_binding=require",
            "load_balance_hosts=random",
            "target_session_attrs=read-write",
            "sslnegotiation=direct",
            "application_name=shop",
        ] {
            let url = format!("postgres://app@db.example/shop?{parameter}");
            assert!(!contains_secret(setting, &url), "{url}");
            assert!(contains_secret(setting, &format!("{url}&password=hunter2")), "{url}");
        }
    }

    #[test]
    fn proxy_url_is_shown_without_its_credentials() {
        assert_eq!(
            shown_as("egress_proxy", "http://token:hunter2@proxy.example:3128"),
            "http://***@proxy.example:3128"
        );
        assert_eq!(shown_as("egress_proxy", "socks5://token@proxy.example"), "socks5://***@proxy.example");
    }

    #[test]
    fn mask_hides_the_length_of_a_secret() {
        assert_eq!(shown_as("signing_secret", "x"), shown_as("signing_secret", "whsec_ABCDEFG"));
    }

    #[test]
    fn displayed_value_is_one_short_line() {
        assert_eq!(shown_as("listen", "a\nb\u{1b}[2Jc"), "a\\nb\\u{1b}[2Jc");
        assert!(shown_as("listen", &"x".repeat(1_000_000)).len() < 100);
    }
}
