//! From text to values. What is wrong with a text is said in a few words that never repeat it; the caller adds the
//! setting, the value as far as it may be shown, and the rule.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use posthaste_api::{InvalidKeys, KeyRing};
use posthaste_domain::signature::{Secret, SigningKeys};
use posthaste_sender::{AllowedNetworks, InvalidNetwork, Proxy};
use tracing_subscriber::filter::Targets;
use url::Url;

use super::redacted::Redacted;

/// Who looks names up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dns {
    Own,
    System,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Pretty,
    Json,
}

pub(super) fn whole(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> {
    move |text| {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("it is not a whole number, written in digits alone".to_owned());
        }
        // More digits than fit are out of range too.
        match text.parse() {
            Ok(number) if range.contains(&number) => Ok(number),
            _ => Err("it is out of range".to_owned()),
        }
    }
}

/// For numbers that are used as sizes and counts. The range keeps them small enough for either.
pub(super) fn count(range: RangeInclusive<u32>) -> impl Fn(&str) -> Result<u32, String> {
    let whole = whole(u64::from(*range.start())..=u64::from(*range.end()));
    move |text| whole(text).and_then(|number| u32::try_from(number).map_err(|error| error.to_string()))
}

pub(super) fn size(range: RangeInclusive<u32>) -> impl Fn(&str) -> Result<usize, String> {
    let count = count(range);
    move |text| count(text).and_then(|number| usize::try_from(number).map_err(|error| error.to_string()))
}

/// Digits, and up to three more after a full stop.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if !digits(whole) || !digits(fraction) || fraction.len() > 3 {
        return Err("it is not a number of seconds, such as 60 or 0.5".to_owned());
    }
    let millis = format!("{fraction:0<3}").parse().map(Duration::from_millis);
    match (whole.parse().map(Duration::from_secs), millis) {
        (Ok(whole), Ok(fraction)) => {
            whole.checked_add(fraction).ok_or_else(|| "it is out of range".to_owned())
        }
        _ => Err("it is out of range".to_owned()),
    }
}

pub(super) fn seconds_within(range: RangeInclusive<Duration>) -> impl Fn(&str) -> Result<Duration, String> {
    move |text| {
        let duration = seconds(text)?;
        if range.contains(&duration) { Ok(duration) } else { Err("it is out of range".to_owned()) }
    }
}

pub(super) fn seconds_list(text: &str) -> Result<Vec<Duration>, String> {
    let step =
        |(at, text): (usize, &str)| seconds(text.trim()).map_err(|reason| format!("at step {at}, {reason}"));
    (1..).zip(text.split(',')).map(step).collect()
}

pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("it is neither".to_owned()),
    }
}

pub(super) fn one_of<T: Copy>(words: &[(&str, T)], text: &str) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| "it is none of the words".to_owned())
}

pub(super) fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| match text.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() && !host.is_empty() => {
            "the host is not an address; names are not looked up here".to_owned()
        }
        _ => "it is not an address and a port".to_owned(),
    })
}

/// Whether only this host can connect.
pub(super) fn is_on_loopback(listen: SocketAddr) -> bool {
    listen.ip().to_canonical().is_loopback()
}

pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    if text.starts_with("~/") {
        return Err("~ is not expanded here; write the whole path".to_owned());
    }
    if text.contains('\0') { Err("a path cannot hold a zero byte".to_owned()) } else { Ok(text.into()) }
}

/// Newest first. A secret that is there twice is one that was not replaced.
pub(super) fn signing_secrets(text: &str) -> Result<Vec<Secret>, String> {
    let texts: Vec<&str> = text.split(',').map(str::trim).collect();
    let secret = |(at, text): (usize, &&str)| {
        Secret::parse(text).map_err(|error| match texts.len() {
            1 => error.to_string(),
            count => format!("secret {at} of {count}: {error}"),
        })
    };
    let secrets = (1..).zip(&texts).map(secret).collect::<Result<Vec<_>, _>>()?;
    if texts.iter().collect::<BTreeSet<_>>().len() < texts.len() {
        return Err("the same secret is there twice".to_owned());
    }
    SigningKeys::new(secrets.clone()).map_err(|error| error.to_string())?;
    Ok(secrets)
}

/// The rule follows anyway; what the guard's own message says of it is left out.
pub(super) fn networks(text: &str) -> Result<AllowedNetworks, String> {
    AllowedNetworks::parse(text).map_err(|error| match error {
        InvalidNetwork::Malformed(entry) => format!("{entry:?} is not a network"),
        error => error.to_string(),
    })
}

pub(super) fn proxy(text: &str) -> Result<Proxy, String> {
    Proxy::parse(text).map_err(|error| error.to_string())
}

/// Said by position alone: where the parts of an entry are mixed up, its name may be the key.
pub(super) fn api_keys(text: &str) -> Result<Redacted, String> {
    let reason = match KeyRing::parse(text) {
        Ok(_) => return Ok(Redacted::new(text)),
        Err(InvalidKeys::Empty { position }) => format!("key {position} is empty"),
        Err(InvalidKeys::Form { position }) => format!("key {position} is not of the form name:role:key"),
        Err(InvalidKeys::Name { position }) => {
            format!("key {position} has a name that is empty, too long or not visible ASCII")
        }
        Err(InvalidKeys::Role { position, .. }) => format!("key {position} has an unknown role"),
        Err(InvalidKeys::Key { position, len, .. }) => {
            format!("key {position} has {len} characters, and takes 16 to 512, all visible ASCII")
        }
        Err(InvalidKeys::DuplicateName { position, earlier, .. }) => {
            format!("key {position} has the name of key {earlier}, and actions are recorded by name")
        }
        Err(InvalidKeys::DuplicateKey { position, earlier, .. }) => {
            format!("key {position} is the same as key {earlier}, and every name has its own")
        }
        Err(InvalidKeys::TooMany(count)) => format!("{count} keys are too many"),
    };
    Err(reason)
}

/// A word alone is a level here: a target without one would be a typo that silences everything else.
pub(super) fn log(text: &str) -> Result<Targets, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let entries: Vec<_> = text.split(',').map(str::trim).collect();
    let refusal = || "it is not a level, nor targets with levels".to_owned();
    for entry in &entries {
        let (target, level) = entry.split_once('=').unwrap_or(("posthaste", entry));
        let is_target = !target.is_empty()
            && target.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:-".contains(&byte));
        if !is_target || !LEVELS.contains(&level) {
            return Err(refusal());
        }
    }
    entries.join(",").parse().map_err(|_| refusal())
}

/// Nothing but a place: what else a URL can carry would be a secret, or ignored.
pub(super) fn http_url(text: &str) -> Result<Url, String> {
    if !(text.starts_with("http://") || text.starts_with("https://")) {
        return Err("it does not begin with http:// or https://".to_owned());
    }
    let url = Url::parse(text).map_err(|error| format!("it is not a URL: {error}"))?;
    // Anywhere: before an @ that is not where the URL expects it there may still be a password.
    if text.contains('@') {
        return Err("user names and passwords are not sent; remove everything up to the @".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("parameters are not sent; remove everything from the ? or # on".to_owned());
    }
    Ok(url)
}
