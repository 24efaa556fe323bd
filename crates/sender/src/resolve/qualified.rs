//! Which names can be looked up at all.

use hickory_resolver::proto::rr::Name;

use super::LookupError;

/// Longest name in text, without the final dot.
const NAME_LEN_MAX: usize = 253;
const LABEL_LEN_MAX: usize = 63;

/// The name with its final dot, which keeps every resolver from trying search domains.
///
/// Refuses what is not a host's name. That includes all spellings of an IPv4 address, such as `127.1` and
/// `0x7f000001`, which some resolvers read as one: literals are judged without a lookup.
pub(crate) fn qualified(name: &str) -> Result<Name, LookupError> {
    let invalid = || LookupError::InvalidName(name.to_owned());
    let relative = name.strip_suffix('.').unwrap_or(name);
    if relative.len() > NAME_LEN_MAX || !relative.split('.').all(is_label) {
        return Err(invalid());
    }
    if relative.rsplit('.').next().is_some_and(is_number) {
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

/// Whether a last label makes the whole name an IPv4 address, by the rule of the URL standard.
fn is_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    label.bytes().all(|byte| byte.is_ascii_digit())
        || hexadecimal.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_gets_its_final_dot_once() {
        assert_eq!(qualified("receiver.example").unwrap().to_ascii(), "receiver.example.");
        assert_eq!(qualified("receiver.example.").unwrap().to_ascii(), "receiver.example.");
        assert_eq!(qualified("receiver").unwrap().to_ascii(), "receiver.");
        assert_eq!(qualified("_hooks.a-b.xn--bcher-kva.example").unwrap().num_labels(), 4);
    }

    #[test]
    fn what_is_no_name_is_refused() {
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
            assert_eq!(qualified(name), Err(LookupError::InvalidName(name.to_owned())), "{name:?}");
        }
    }

    #[test]
    fn an_address_is_no_name_however_it_is_spelled() {
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
            assert!(qualified(name).is_err(), "{name}");
        }
        assert!(qualified("1.2.3.4.example").is_ok());
        assert!(qualified("0xreceiver").is_ok());
    }

    #[test]
    fn the_longest_name_is_accepted() {
        let name = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
        assert_eq!(name.len(), NAME_LEN_MAX);
        assert!(qualified(&name).is_ok());
        assert!(qualified(&format!("{name}b")).is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(name in any::<String>()) {
            let _ = qualified(&name);
        }
    }
}
