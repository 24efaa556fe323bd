//! The parsers of values. Their errors are short reasons that never repeat the text; the caller adds the setting, the
//! masked value and the rule.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use posthaste::{InvalidSchemaName, SchemaName};
use posthaste_api::{KeyRing, TokenSecret};
use posthaste_domain::WorkerId;
use posthaste_domain::seal::MasterKeys;
use posthaste_domain::signature::{Secret, SigningKeys};
use posthaste_sender::{AllowedNetworks, DeniedNetworks, InvalidNetwork, Proxy};
use tracing_subscriber::filter::Targets;
use url::{Host, Url};

/// The resolver of receivers' host names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dns {
    /// Posthaste's own resolver.
    Own,
    /// The operating system's resolver.
    System,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Coloured lines for people.
    Pretty,
    /// One JSON object per line.
    Json,
}

/// How the delays between attempts grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryStrategy {
    /// Every delay is twice the one before it.
    Exponential,
    /// Delays are listed one by one.
    Schedule,
}

pub(crate) const OUT_OF_RANGE: &str = "it is out of range";

/// Parses a whole number within a range.
pub(crate) fn whole_number<T: TryFrom<u32>>(text: &str, range: &RangeInclusive<u32>) -> Result<T, String> {
    if !is_digits(text) {
        return Err("it is not a whole number, written in digits alone".to_owned());
    }
    // A number with too many digits for the type is out of range as well.
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| OUT_OF_RANGE.to_owned())
}

/// Parses a number of seconds: digits, and up to three more after a decimal point.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if !is_digits(whole) || !is_digits(fraction) || fraction.len() > 3 {
        return Err("it is not a number of seconds, such as 60 or 0.5".to_owned());
    }
    let whole = whole.parse().map(Duration::from_secs).ok();
    let fraction = format!("{fraction:0<3}").parse().map(Duration::from_millis).ok();
    let sum = whole.zip(fraction).and_then(|(whole, fraction)| whole.checked_add(fraction));
    sum.ok_or_else(|| OUT_OF_RANGE.to_owned())
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Formats a duration as [`seconds`] parses it.
pub(crate) fn seconds_text(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => duration.as_secs().to_string(),
        millis => format!("{}.{millis:03}", duration.as_secs()),
    }
}

/// Parses numbers of seconds, separated by commas.
pub(crate) fn seconds_list(text: &str) -> Result<Vec<Duration>, String> {
    let step = |(position, text): (usize, &str)| {
        seconds(text.trim()).map_err(|reason| format!("at step {position}, {reason}"))
    };
    (1..).zip(text.split(',')).map(step).collect()
}

/// Parses the name of a choice into its value. Any other text is an error.
pub(crate) fn one_of<T: Copy>(choices: &[(&str, T)], text: &str) -> Result<T, String> {
    let found = choices.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| "it is not one of the valid values".to_owned())
}

/// Parses an IP address and a port.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| match text.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() && !host.is_empty() => {
            "the host is not an IP address; host names are not resolved here".to_owned()
        }
        _ => "it is not an address and a port".to_owned(),
    })
}

/// Parses the path of a file.
pub(crate) fn path(text: &str) -> Result<PathBuf, String> {
    if text.starts_with("~/") {
        return Err("~ is not expanded here; write the whole path".to_owned());
    }
    if text.contains('\0') { Err("a path cannot contain a zero byte".to_owned()) } else { Ok(text.into()) }
}

/// Parses the name of a PostgreSQL schema.
pub(crate) fn schema_name(text: &str) -> Result<SchemaName, String> {
    text.parse().map_err(|error: InvalidSchemaName| error.to_string())
}

/// Parses a worker's name.
pub(crate) fn worker_id(text: &str) -> Result<WorkerId, String> {
    WorkerId::new(text).map_err(|error| error.to_string())
}

/// Parses signing secrets, newest first. Rejects a repeated secret: in a rotation, one secret was not replaced.
pub(crate) fn signing_keys(text: &str) -> Result<SigningKeys, String> {
    let texts: Vec<&str> = text.split(',').map(str::trim).collect();
    let secret = |(position, text): (usize, &&str)| {
        Secret::parse(text).map_err(|error| match texts.len() {
            1 => error.to_string(),
            count => format!("secret {position} of {count}: {error}"),
        })
    };
    let secrets = (1..).zip(&texts).map(secret).collect::<Result<Vec<_>, _>>()?;
    if texts.iter().collect::<BTreeSet<_>>().len() < texts.len() {
        return Err("it lists the same secret twice".to_owned());
    }
    SigningKeys::new(secrets).map_err(|error| error.to_string())
}

/// Parses master keys, the one that seals first.
pub(crate) fn master_keys(text: &str) -> Result<Arc<MasterKeys>, String> {
    MasterKeys::parse(text).map(Arc::new).map_err(|error| error.to_string())
}

/// Parses the secret of tokens.
pub(crate) fn token_secret(text: &str) -> Result<Arc<TokenSecret>, String> {
    TokenSecret::new(text).map(Arc::new).map_err(|error| error.to_string())
}

/// Parses allowed networks. An error omits the rule, which the caller adds.
pub(crate) fn networks(text: &str) -> Result<AllowedNetworks, String> {
    AllowedNetworks::parse(text).map_err(|error| network_error(&error))
}

/// Parses denied networks. An error omits the rule, which the caller adds.
pub(crate) fn denied_networks(text: &str) -> Result<DeniedNetworks, String> {
    DeniedNetworks::parse(text).map_err(|error| network_error(&error))
}

fn network_error(error: &InvalidNetwork) -> String {
    match error {
        InvalidNetwork::Malformed(entry) => format!("{entry:?} is not a network"),
        error => error.to_string(),
    }
}

/// Parses the URL of a proxy.
pub(crate) fn proxy(text: &str) -> Result<Proxy, String> {
    Proxy::parse(text).map_err(|error| error.to_string())
}

/// Parses API keys. Errors identify a key by its position and not by its name, because a misplaced key may stand in the
/// name's position.
pub(crate) fn api_keys(text: &str) -> Result<KeyRing, String> {
    KeyRing::parse(text).map_err(|error| error.to_string())
}

/// Parses a log level, or levels by target. A word alone must be a level: a mistyped level would otherwise be a target
/// and silence everything else.
pub(crate) fn log_targets(text: &str) -> Result<Targets, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let entries: Vec<_> = text.split(',').map(str::trim).collect();
    let is_valid = |entry: &&str| {
        let (target, level) = entry.split_once('=').unwrap_or(("posthaste", entry));
        let is_target = !target.is_empty()
            && target.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:-".contains(&byte));
        is_target && LEVELS.contains(&level)
    };
    let targets = entries.iter().all(is_valid).then(|| entries.join(",").parse().ok()).flatten();
    targets.ok_or_else(|| "it is not a level, nor a list of targets with levels".to_owned())
}

/// Parses origins that may frame a page, separated by commas.
pub(crate) fn frame_origins(text: &str) -> Result<Vec<String>, String> {
    text.split(',').map(|entry| frame_origin(entry.trim())).collect()
}

/// Parses one origin. Characters that would end it in a content security policy are not those of a host.
fn frame_origin(text: &str) -> Result<String, String> {
    let url = Url::parse(text).map_err(|error| format!("{text:?} is not an origin: {error}"))?;
    let host = url.host_str().unwrap_or_default();
    let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    if !matches!(url.scheme(), "http" | "https") || host.is_empty() || !host.bytes().all(is_host_byte) {
        return Err(format!("{text:?} is not an origin of a web page"));
    }
    let origin = url.origin().ascii_serialization();
    if text.trim_end_matches('/') != origin {
        return Err(format!("{text:?} is not written as an origin; write {origin}"));
    }
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    };
    match url.scheme() == "https" || is_loopback {
        true => Ok(origin),
        false => Err(format!("{text:?} is not encrypted; use https")),
    }
}

/// Parses an HTTP URL without credentials or parameters, which would be a secret or be ignored.
pub(crate) fn http_url(text: &str) -> Result<Url, String> {
    if !(text.starts_with("http://") || text.starts_with("https://")) {
        return Err("it does not begin with http:// or https://".to_owned());
    }
    let url = Url::parse(text).map_err(|error| format!("it is not a URL: {error}"))?;
    // An @ anywhere: the text before a misplaced @ may still be a password.
    if text.contains('@') {
        return Err("user names and passwords are not sent; remove everything up to the @".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("parameters are not sent; remove everything from the ? or # on".to_owned());
    }
    Ok(url)
}
