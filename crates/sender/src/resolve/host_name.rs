//! Parses host names: decides which names can be looked up at all.

use hickory_resolver::proto::rr::Name;

use super::LookupError;

/// Upper bound of the length of a name in text, without the trailing dot.
const NAME_LEN_MAX: usize = 253;
const LABEL_LEN_MAX: usize = 63;

/// Parses a host name and makes it fully qualified. The trailing dot keeps resolvers from trying search domains.
///
/// Refuses every spelling of an IPv4 address, such as `127.1` and `0x7f000001`, which some resolvers would accept as an
/// address. The URL parser turns those into IP literals, which need no lookup.
pub(crate) fn parse_host_name(name: &str) -> Result<Name, LookupError> {
    let invalid = || LookupError::InvalidName(name.to_owned());
    let relative = name.strip_suffix('.').unwrap_or(name);
    if relative.len() > NAME_LEN_MAX || !relative.split('.').all(is_label) {
        return Err(invalid());
    }
    if relative.rsplit('.').next().is_some_and(is_ipv4_label) {
        return Err(invalid());
    }
    let mut name = Name::from_ascii(relative).map_err(|_| invalid())?;
    name.set_fqdn(true);
    Ok(name)
}

fn is_label(label: &str) -> bool {
    (1..=LABEL_LEN_MAX).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Returns whether a last label makes the whole name an IPv4 address, by the rule of the URL standard.
fn is_ipv4_label(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    label.bytes().all(|byte| byte.is_ascii_digit())
        || hexadecimal.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_gets_one_trailing_dot() {
        assert_eq!(parse_host_name("receiver.example").unwrap().to_ascii(), "receiver.example.");
        assert_eq!(parse_host_name("receiver.example.").unwrap().to_ascii(), "receiver.example.");
        assert_eq!(parse_host_name("receiver").unwrap().to_ascii(), "receiver.");
        assert_eq!(parse_host_name("_hooks.a-b.xn--bcher-kva.example").unwrap().num_labels(), 4);
    }

    #[test]
    fn invalid_names_are_refused() {
        let long_label = format!("{}.example", "a".repeat(64));
        let long_name = vec!["a".repeat(63); 4].join(".");
        let refused = [
            "",
            ".",
            "..",
            ".example",
            "a..example",
            "example..",
            "a b.example",
            "a\0.example",
            "a\n.example",
            "b\u{fc}cher.example",
            "a\\.example",
            "a/b",
            "user@example",
            "*.example",
            &long_label,
            &long_name,
        ];
        for name in refused {
            assert_eq!(parse_host_name(name), Err(LookupError::InvalidName(name.to_owned())), "{name:?}");
        }
    }

    #[test]
    fn no_spelling_of_an_ip_address_is_a_host_name() {
        for name in [
            "127.0.0.1",
            "127.0.0.1.",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0X7F.1",
            "0x",
            "0177.0.0.1",
            "::1",
        ] {
            assert!(parse_host_name(name).is_err(), "{name}");
        }
        assert!(parse_host_name("1.2.3.4.example").is_ok());
        assert!(parse_host_name("0xreceiver").is_ok());
    }

    #[test]
    fn the_longest_name_is_accepted() {
        let name = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
        assert_eq!(name.len(), NAME_LEN_MAX);
        assert!(parse_host_name(&name).is_ok());
        assert!(parse_host_name(&format!("{name}b")).is_err());
    }

    proptest! {
        #[test]
        fn parsing_never_panics(name in any::<String>()) {
            let _ = parse_host_name(&name);
        }
    }
}
