use super::*;

fn parse(text: &str) -> Proxy {
    Proxy::parse(text).unwrap()
}

#[test]
fn a_proxy_is_a_scheme_a_host_and_a_port() {
    let proxy = parse("http://proxy.example:80");
    assert_eq!((proxy.host(), proxy.port()), (&Host::Domain("proxy.example".to_owned()), 80));
    assert_eq!(parse("SOCKS5://127.0.0.1").host(), &Host::<String>::Ipv4([127, 0, 0, 1].into()));
    assert_eq!(parse("socks5://[::1]").port(), SOCKS5_PORT);
    assert_eq!(parse("socks5://proxy.example:9050/").port(), 9_050);
}

#[test]
fn only_the_schemes_for_names_pass_names_to_the_proxy() {
    assert!(!parse("http://proxy.example:3128").resolves_names());
    assert!(!parse("socks5://proxy.example").resolves_names());
    assert!(parse("httph://proxy.example:3128").resolves_names());
    assert!(parse("socks5h://proxy.example").resolves_names());
}

#[test]
fn credentials_are_percent_decoded() {
    let credentials = parse("http://us%65r:p%40ss%3a%zz@proxy.example:3128").credentials.unwrap();
    assert_eq!(
        (credentials.user.as_slice(), credentials.password.as_slice()),
        (&b"user"[..], &b"p@ss:%zz"[..])
    );
    assert!(parse("http://proxy.example:3128").credentials.is_none());
    assert!(parse("http://user@proxy.example:3128").credentials.unwrap().password.is_empty());
}

#[test]
fn an_invalid_proxy_url_is_refused_with_the_rule() {
    let rule = |text: &str| Proxy::parse(text).unwrap_err().to_string();
    assert!(rule("proxy.example:3128").contains("write it as http://host:port"));
    assert!(rule("http://").contains("not a URL"));
    assert!(rule("http://:3128").contains("not a URL"));
    assert!(rule("http://proxy.example:99999").contains("invalid port"));
    assert!(rule("https://proxy.example:3128").contains("TLS to the proxy"));
    assert!(rule("http://proxy.example").contains("no port"));
    assert!(rule("socks5://proxy.example:0").contains("no port"));
    assert!(rule("http://proxy.example:3128/path").contains("after the port"));
    assert!(rule("http://proxy.example:3128?query").contains("after the port"));
    assert!(rule("http://us%3Aer:pass@proxy.example:3128").contains("colon"));
    assert!(rule("socks5://user@proxy.example").contains("needs both"));
    assert!(rule(&format!("socks5://user:{}@proxy.example", "p".repeat(256))).contains("255 bytes"));
}

#[test]
fn errors_and_debug_output_never_contain_a_password() {
    let refused = [
        "user:hunter2@proxy.example:3128",
        "hunter2://proxy.example",
        "https://user:hunter2@proxy.example:3128",
        "http://user:hunter2@proxy.example",
        "http://user:hunter2@proxy.example:3128/path",
        "http://user:hunter2@proxy example:3128",
        "http://us%3aer:hunter2@proxy.example:3128",
        "socks5://:hunter2@proxy.example",
    ];
    for text in refused {
        let error = Proxy::parse(text).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
    let debug = format!("{:?}", parse("http://user:hunter2@proxy.example:3128"));
    assert!(
        debug.contains("proxy.example") && !debug.contains("hunter2") && !debug.contains("user"),
        "{debug}"
    );
}

#[tokio::test]
async fn an_invalid_name_is_not_sent_to_the_proxy() {
    for proxy in ["httph://proxy.example:3128", "socks5h://proxy.example:1080"] {
        let refused = [
            "",
            "a b",
            "a\r\nb",
            "a\0b",
            "a:1",
            "b\u{fc}cher.example",
            "a..example",
            "127.1",
            &"a".repeat(64),
            &vec!["a".repeat(63); 4].join("."),
        ];
        for name in refused {
            let attempt = scripted::open_tunnel(proxy, TunnelTarget::Name { name, port: 443 }, b"").await;
            assert_eq!(attempt.request, b"", "{name:?}");
            assert!(attempt.detail().contains("not a valid host name"), "{name:?}");
        }
    }
}
