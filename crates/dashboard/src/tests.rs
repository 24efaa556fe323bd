//! Checks of the embedded files: references, inline content, unsafe functions, size and caching.

use super::*;

/// The limit of the bytes that the first load transfers, compressed.
const BYTES_MAX: usize = 150 * 1000;
const VENDOR: &str = "vendor/";

fn text(name: &str) -> String {
    String::from_utf8(file(name).data.into_owned()).expect("every asset is text")
}

/// Returns the names of our own files with this extension.
fn names(extension: &str) -> Vec<String> {
    let names = EmbeddedFiles::iter().map(Cow::into_owned);
    let names: Vec<_> = names.filter(|name| name.ends_with(extension) && !name.starts_with(VENDOR)).collect();
    assert!(!names.is_empty(), "no asset ends in {extension}");
    names
}

/// Returns the text between each `before` and the next `after`.
fn between<'a>(text: &'a str, before: &str, after: char) -> Vec<&'a str> {
    let starts = text.split(before).skip(1);
    starts.map(|rest| rest.split(after).next().expect("a split has a first part")).collect()
}

/// Returns the opening tags of a page, without their brackets.
fn tags(html: &str) -> Vec<&str> {
    let tags = between(html, "<", '>').into_iter();
    tags.filter(|tag| !tag.starts_with(['!', '/'])).collect()
}

/// Returns the names and values of a tag's attributes. An attribute without a value has an empty one.
fn attributes(tag: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = tag.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start());
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let name = &rest[..end];
        let (value, after) = match rest[end..].strip_prefix("=\"") {
            Some(quoted) => quoted.split_once('"').expect("a value's quote is closed"),
            None => {
                assert!(!rest[end..].starts_with('='), "values are quoted: <{tag}>");
                ("", &rest[end..])
            }
        };
        found.push((name, value));
        rest = after.trim_start();
    }
    found
}

#[test]
fn every_file_that_the_page_refers_to_exists() {
    let page = String::from_utf8(page().bytes.into_owned()).unwrap();
    let mut found = 0;
    for tag in tags(&page) {
        for (name, value) in attributes(tag) {
            if !["src", "href"].contains(&name) || value.starts_with('#') || value == "docs" {
                continue;
            }
            let asset = asset(value).unwrap_or_else(|| panic!("<{tag}> refers to a missing file"));
            assert!(asset.cacheable, "{value} contains no version");
            found += 1;
        }
    }
    assert!(found >= 4, "found {found} references; expected a style sheet, a script and icons");
}

#[test]
fn every_imported_module_exists_and_every_module_is_imported() {
    let mut imported = vec!["app.js".to_owned()];
    for module in names(".js") {
        let source = text(&module);
        for path in between(&source, " from \"", '"') {
            let name = path
                .strip_prefix("./")
                .unwrap_or_else(|| panic!("{module} imports {path}, which is not in its folder"));
            assert!(EmbeddedFiles::get(name).is_some(), "{module} imports {path}, which is missing");
            imported.push(name.to_owned());
        }
        // Comments name types as `import("./module.js").Type`.
        let code = source.lines().filter(|line| !line.trim_start().starts_with(['/', '*']));
        for line in code {
            for unsupported in ["import(", "import \""] {
                assert!(!line.contains(unsupported), "{module}: this test understands `import … from` only");
            }
        }
    }
    for module in names(".js") {
        assert!(imported.contains(&module), "no module imports {module}");
    }
}

#[test]
fn every_imported_name_is_exported() {
    for module in names(".js") {
        let source = text(&module);
        for import in between(&source, "import {", ';') {
            let (list, path) = import.split_once('}').expect("an import's brace is closed");
            let from = text(path.trim_start_matches(" from \"./").trim_end_matches('"'));
            for name in list.split(',').map(|name| name.trim().split(' ').next().unwrap_or_default()) {
                let kinds = ["function", "async function", "class", "const"];
                let exported = kinds.iter().any(|kind| {
                    between(&from, &format!("export {kind} {name}"), '\n')
                        .iter()
                        .any(|rest| rest.starts_with(['(', ' ']))
                });
                assert!(exported, "{module} imports {name}, which {path} does not export");
            }
        }
    }
}

#[test]
fn every_element_that_a_module_uses_is_on_the_page_once() {
    let page = text(PAGE);
    let ids: Vec<_> = tags(&page)
        .into_iter()
        .flat_map(attributes)
        .filter_map(|(name, value)| (name == "id").then_some(value))
        .collect();
    for module in names(".js") {
        for id in between(&text(&module), "byId(\"", '"') {
            assert_eq!(ids.iter().filter(|known| **known == id).count(), 1, "{module} uses #{id}");
        }
    }
}

#[test]
fn labels_and_descriptions_refer_to_elements_of_the_page() {
    let page = text(PAGE);
    let all: Vec<_> = tags(&page).into_iter().flat_map(attributes).collect();
    for (name, value) in &all {
        if ["for", "aria-labelledby", "aria-describedby"].contains(name) {
            assert!(all.contains(&("id", value)), "{name}=\"{value}\" refers to a missing element");
        }
    }
}

#[test]
fn the_page_has_no_inline_scripts_and_styles() {
    let page = text(PAGE);
    assert_eq!(
        page.matches("<script").count(),
        page.matches("></script>").count(),
        "a script has inline content"
    );
    for tag in tags(&page) {
        assert!(!tag.starts_with("style"), "<{tag}>: styles are in style.css");
        for (name, value) in attributes(tag) {
            assert!(name != "style", "<{tag}>");
            assert!(!name.starts_with("on"), "<{tag}>: handlers are in modules");
            assert!(!value.trim_start().to_ascii_lowercase().starts_with("javascript:"), "<{tag}>");
        }
    }
}

#[test]
fn no_module_turns_text_into_markup_or_code() {
    let forbidden = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "setHTML",
        "DOMParser",
        "createContextualFragment",
        "document.write",
        "srcdoc",
        "eval(",
        "new Function",
        "document.cookie",
        "cssText",
        "\"style\"",
    ];
    for module in names(".js") {
        let source = text(&module);
        for word in forbidden {
            assert!(!source.contains(word), "{module} uses {word}");
        }
    }
}

#[test]
fn only_the_choice_of_colours_is_stored_in_the_browser() {
    for module in names(".js") {
        let source = text(&module);
        for storage in ["sessionStorage", "localStorage", "indexedDB", "caches", "serviceWorker"] {
            let is_allowed = module == "theme.js" && storage == "localStorage";
            assert!(is_allowed || !source.contains(storage), "{module} uses {storage}");
        }
    }
    assert!(!text("theme.js").contains("api.js"), "the module that may store must not know the key");
}

#[test]
fn nothing_is_loaded_from_other_hosts() {
    // Identifiers, comments and commands that no browser requests.
    let harmless = [
        "xmlns=\"http://www.w3.org/2000/svg\"",
        "/*! https://github.com/leeoniya/uPlot",
        "http://127.0.0.1:",
    ];
    for name in EmbeddedFiles::iter().filter(|name| !name.ends_with(".txt")) {
        let text = harmless.iter().fold(text(&name), |text, part| text.replace(part, ""));
        for scheme in ["http://", "https://", "ws://", "wss://", "\"//", "'//", "url(", "@import"] {
            assert!(!text.contains(scheme), "{name} refers to another host: {scheme}");
        }
    }
}

#[test]
fn every_asset_has_a_content_type() {
    let content_type_of = |path: &str| asset(path).map(|asset| asset.content_type);
    assert_eq!(content_type_of("/"), Some("text/html; charset=utf-8"));
    assert_eq!(content_type_of("/assets/_/style.css"), Some("text/css; charset=utf-8"));
    assert_eq!(content_type_of("/assets/_/app.js"), Some("text/javascript; charset=utf-8"));
    assert_eq!(content_type_of("/assets/_/icon.svg"), Some("image/svg+xml"));
    for name in EmbeddedFiles::iter() {
        assert!(content_type(&name).is_some(), "{name} has no content type");
    }
}

#[test]
fn only_the_page_and_its_assets_are_found() {
    assert_eq!(asset("/"), asset(""));
    let unknown = [
        "/index.html",
        "/app.js",
        "/assets/app.js",
        "/assets/_/",
        "/assets/_/missing.js",
        "/assets/_/index.html",
        "/assets/_/APP.JS",
        "/assets/_/../lib.rs",
        "/assets/_/../assets/app.js",
        "/assets/../src/lib.rs",
        "/../Cargo.toml",
        "..",
        "//",
        "//assets/_/app.js",
        "/assets/_//app.js",
        "/assets/_/%2e%2e/app.js",
        "/assets/_/..\\app.js",
        "/assets/_/app.js\0",
        "/etc/passwd",
    ];
    for path in unknown {
        assert_eq!(asset(path), None, "{path:?}");
    }
}

#[test]
fn an_asset_is_cacheable_only_under_the_current_version() {
    let page = asset("/").unwrap();
    assert!(!page.cacheable);
    let page = String::from_utf8(page.bytes.into_owned()).unwrap();
    assert!(!page.contains(UNVERSIONED));
    let versioned = format!("/assets/{}/app.js", *VERSION);
    assert!(page.contains(&versioned[1..]));
    let current = asset(&versioned).unwrap();
    assert!(current.cacheable);
    let other_build = asset("/assets/0123456789abcdef/app.js").unwrap();
    assert_eq!(other_build, Asset { cacheable: false, ..current });
}

#[test]
fn etags_are_quoted_and_unique() {
    let mut etags: Vec<_> = EmbeddedFiles::iter()
        .filter_map(|name| asset(&format!("/assets/_/{}", file_name(&name))))
        .map(|asset| asset.etag)
        .collect();
    etags.push(asset("/").unwrap().etag);
    for etag in &etags {
        let inner = etag.strip_prefix('"').and_then(|etag| etag.strip_suffix('"')).unwrap();
        assert!(inner.len() == 16 && inner.bytes().all(|b| b.is_ascii_hexdigit()), "{etag}");
    }
    etags.sort();
    etags.dedup();
    assert_eq!(etags.len(), EmbeddedFiles::iter().count());
}

#[test]
fn the_policy_allows_no_more_than_the_page_needs() {
    assert!(!CONTENT_SECURITY_POLICY.contains("  "), "{CONTENT_SECURITY_POLICY}");
    for part in ["unsafe", "*", "http"] {
        assert!(!CONTENT_SECURITY_POLICY.contains(part), "{part}");
    }
    let directives: Vec<_> = CONTENT_SECURITY_POLICY.split("; ").collect();
    for directive in ["default-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"]
    {
        assert!(directives.contains(&directive), "{directive}");
    }
}

#[test]
fn file_names_are_unique() {
    let mut names: Vec<_> = EmbeddedFiles::iter().map(|path| file_name(&path).to_owned()).collect();
    names.sort();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "{names:?}");
}

#[test]
fn every_vendored_library_names_its_origin_and_licence() {
    let libraries: Vec<_> = EmbeddedFiles::iter()
        .filter_map(|path| path.strip_prefix(VENDOR)?.split_once('/').map(|(library, _)| library.to_owned()))
        .collect();
    assert!(!libraries.is_empty());
    for library in libraries {
        let origin = text(&format!("{VENDOR}{library}/ORIGIN.txt"));
        assert!(origin.contains("1.6.32") && origin.contains("https://"), "{library}: {origin}");
        assert!(text(&format!("{VENDOR}{library}/LICENSE.txt")).contains("MIT"), "{library}");
    }
}

#[test]
fn all_files_of_the_first_load_are_small() {
    let loaded = EmbeddedFiles::iter().filter(|name| !name.ends_with(".txt"));
    let bytes: usize = loaded.map(|name| COMPRESSED[&name].len()).sum();
    assert!(bytes < BYTES_MAX, "{bytes} bytes");
}
