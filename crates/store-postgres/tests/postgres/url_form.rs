//! SQL and Rust normalize a destination URL to the same text; otherwise one receiver would become two destinations.

use std::sync::Mutex;

use posthaste_domain::DestinationUrl;
use posthaste_store_postgres::tokio_postgres::Client;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::fixture::*;
use crate::support::PostgresHarness;

/// The URL as SQL normalizes it, or none if SQL rejects it.
async fn normalize_in_sql(client: &Client, url: &str) -> Option<String> {
    client.query_one("SELECT app.webhook_normalized_url($1)", &[&url]).await.ok().map(|row| row.get(0))
}

/// The URL as Rust normalizes it, or none if Rust rejects it.
fn normalize_in_rust(url: &str) -> Option<String> {
    DestinationUrl::parse(url).ok().map(|url| url.as_str().to_owned())
}

#[tokio::test]
async fn sql_and_rust_normalize_equivalent_urls_to_the_same_text() {
    let harness = PostgresHarness::start().await;
    let client = client(&harness.database.url).await;
    let cases = [
        ("HTTPS://Receiver.EXAMPLE:443/Hook", "https://receiver.example/Hook"),
        ("http://receiver.example:80", "http://receiver.example/"),
        ("https://receiver.example:0080/", "https://receiver.example:80/"),
        ("https://receiver.example:/", "https://receiver.example/"),
        ("https://receiver.example?a=b", "https://receiver.example/?a=b"),
        ("https://receiver.example/a?", "https://receiver.example/a?"),
        ("https://[2001:DB8:0:0:0:0:0:1]:8443/x", "https://[2001:db8::1]:8443/x"),
        ("https://127.0.0.1/x", "https://127.0.0.1/x"),
        ("https://receiver.example./x", "https://receiver.example./x"),
        ("https://a_b.example//x//", "https://a_b.example//x//"),
        ("https://receiver.example/%2f%zz", "https://receiver.example/%2f%zz"),
    ];
    for (url, normalized) in cases {
        assert_eq!(normalize_in_sql(&client, url).await.as_deref(), Some(normalized), "{url}");
        assert_eq!(normalize_in_rust(url).as_deref(), Some(normalized), "{url}");
    }
}

#[tokio::test]
async fn sql_rejects_an_unusual_url_or_normalizes_it_like_rust() {
    let harness = PostgresHarness::start().await;
    let client = client(&harness.database.url).await;
    // One byte too long with the slash that normalization adds.
    let long = format!("https://{}", "a".repeat(2_040));
    let cases = [
        "https://receiver.example/?a='b'",
        "https://receiver.example/it's",
        "https://127.0.0.1./x",
        "https://[::ffff:127.0.0.1]/x",
        "https://[::127.0.0.1]/x",
        "https://[127.0.0.1]/x",
        "https://[1:0:0:2:0:0:0:3]/x",
        "https://[1:0:2:0:3:0:4:0]/x",
        "https://[::]/x",
        "https://[::0.0.0.2]/x",
        "https://[::ffff:0:102]/x",
        "https://xn--bcher-kva.example/x",
        "https://receiver.example/[x]?[y]",
        "https://receiver.example/a|b^c",
        &*long,
    ];
    let mut differing = Vec::new();
    for url in cases {
        let (sql, rust) = (normalize_in_sql(&client, url).await, normalize_in_rust(url));
        if sql.is_some() && sql != rust {
            differing.push(format!("{url:.60}\n  SQL:  {:.60?}\n  Rust: {:.60?}", sql, rust));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// Random URLs, valid and invalid.
fn urls() -> impl Strategy<Value = String> {
    let scheme = prop_oneof![Just("https"), Just("http"), Just("HTTPS"), Just("Http"), Just("ftp")];
    let label = "[a-zA-Z0-9_-]{1,6}";
    let host = prop_oneof![
        6 => proptest::collection::vec(label, 1..4).prop_map(|labels| labels.join(".")),
        2 => proptest::collection::vec(0..300_u16, 4).prop_map(|parts| {
            parts.iter().map(u16::to_string).collect::<Vec<_>>().join(".")
        }),
        2 => proptest::collection::vec(prop_oneof![3 => Just(0_u16), 1 => Just(1), 3 => any::<u16>()], 8).prop_map(|parts| {
            format!("[{}]", parts.iter().map(|part| format!("{part:X}")).collect::<Vec<_>>().join(":"))
        }),
        1 => "\\[[0-9a-f:.]{0,12}\\]",
        1 => "[ -~]{0,8}",
    ];
    let dot = prop_oneof![9 => Just(""), 1 => Just(".")];
    let port = prop_oneof![
        4 => Just(String::new()),
        1 => Just(":443".to_owned()),
        1 => Just(":80".to_owned()),
        1 => "[:][0-9]{0,6}",
    ];
    let segment =
        prop_oneof![4 => "[a-z0-9%.~!$&'()*+,;=:@_-]{0,8}", 1 => Just("..".to_owned()), 1 => "[ -~]{0,6}"];
    let path = proptest::collection::vec(segment, 0..4)
        .prop_map(|parts| parts.iter().map(|part| format!("/{part}")).collect::<String>());
    let query = prop_oneof![2 => Just(String::new()), 2 => "[?][a-z0-9%.~!$&'()*+,;=:@/?_-]{0,10}", 1 => "[?][ -~]{0,8}"];
    (scheme, host, dot, port, path, query).prop_map(|(scheme, host, dot, port, path, query)| {
        format!("{scheme}://{host}{dot}{port}{path}{query}")
    })
}

#[test]
fn every_url_that_sql_accepts_is_normalized_like_in_rust() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (harness, client) = runtime.block_on(async {
        let harness = PostgresHarness::start().await;
        let client = client(&harness.database.url).await;
        (harness, client)
    });
    let config = Config { cases: 3_000, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let accepted = Mutex::new(0);
    TestRunner::new_with_rng(config, rng)
        .run(&urls(), |url| {
            if let Some(normalized) = runtime.block_on(normalize_in_sql(&client, &url)) {
                *accepted.lock().unwrap() += 1;
                prop_assert_eq!(normalize_in_rust(&url), Some(normalized), "{}", url);
            }
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    let accepted = accepted.into_inner().unwrap();
    assert!(accepted > 500, "of 3,000 URLs SQL accepted only {accepted}, too few to compare");
    runtime.block_on(async { drop(harness) });
}
