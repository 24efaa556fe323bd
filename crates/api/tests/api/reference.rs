//! The API reference at `/docs`, served without external files.

use crate::test_api::TestApi;

#[tokio::test]
async fn the_page_loads_files_of_this_origin_only() {
    let api = TestApi::on_memory().await;
    let page = api.get("/docs").await;
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(!page.text().contains("://"), "{}", page.text());
    assert!(!page.text().contains("<script>"), "inline script: {}", page.text());
    for script in ["/docs/scalar.js", "/docs/start.js"] {
        assert!(page.text().contains(&format!("src=\"{script}\"")));
        let response = api.get(script).await;
        assert_eq!(response.status.as_u16(), 200);
        assert_eq!(response.header("content-type"), Some("text/javascript; charset=utf-8"));
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
    }
}

#[tokio::test]
async fn the_policy_allows_this_origin_and_no_inline_script() {
    let policy = TestApi::on_memory().await.get("/docs").await;
    let policy = policy.header("content-security-policy").unwrap();
    for rule in ["default-src 'none'", "script-src 'self';", "connect-src 'self'", "frame-ancestors 'none'"] {
        assert!(policy.contains(rule), "{policy}");
    }
    assert!(!policy.contains("://") && !policy.contains("unsafe-eval"), "{policy}");
}

#[tokio::test]
async fn scalar_is_complete_and_configured_to_stay_offline() {
    let api = TestApi::on_memory().await;
    let scalar = api.get("/docs/scalar.js").await;
    assert!(scalar.body.len() > 1_000_000 && scalar.text().contains("createApiReference"));
    assert_eq!(scalar.header("cache-control"), Some("private, max-age=3600"));
    let start = api.get("/docs/start.js").await;
    for setting in [
        "withDefaultFonts: false",
        "telemetry: false",
        "showDeveloperTools: \"never\"",
        "url: \"/openapi.json\"",
    ] {
        assert!(start.text().contains(setting), "{setting}");
    }
}
