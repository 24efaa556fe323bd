//! The reference at `/docs`, from this process alone.

use crate::stage::Stage;

#[tokio::test]
async fn the_page_loads_nothing_from_anywhere_else() {
    let stage = Stage::on_memory().await;
    let page = stage.get("/docs").await;
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(!page.text().contains("://"), "{}", page.text());
    assert!(!page.text().contains("<script>"), "scripts are files: {}", page.text());
    for script in ["/docs/scalar.js", "/docs/start.js"] {
        assert!(page.text().contains(&format!("src=\"{script}\"")));
        let answer = stage.get(script).await;
        assert_eq!(answer.status.as_u16(), 200);
        assert_eq!(answer.header("content-type"), Some("text/javascript; charset=utf-8"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
}

#[tokio::test]
async fn the_policy_allows_this_origin_and_no_inline_script() {
    let policy = Stage::on_memory().await.get("/docs").await;
    let policy = policy.header("content-security-policy").unwrap();
    for rule in ["default-src 'none'", "script-src 'self';", "connect-src 'self'", "frame-ancestors 'none'"] {
        assert!(policy.contains(rule), "{policy}");
    }
    assert!(!policy.contains("://") && !policy.contains("unsafe-eval"), "{policy}");
}

#[tokio::test]
async fn scalar_is_whole_and_told_to_stay_offline() {
    let stage = Stage::on_memory().await;
    let scalar = stage.get("/docs/scalar.js").await;
    assert!(scalar.body.len() > 1_000_000 && scalar.text().contains("createApiReference"));
    assert_eq!(scalar.header("cache-control"), Some("private, max-age=3600"));
    let start = stage.get("/docs/start.js").await;
    for setting in [
        "withDefaultFonts: false",
        "telemetry: false",
        "showDeveloperTools: \"never\"",
        "url: \"/openapi.json\"",
    ] {
        assert!(start.text().contains(setting), "{setting}");
    }
}
