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

/// Returns the files of the pages.
fn pages() -> impl Iterator<Item = &'static str> {
    PAGES.iter().map(|(_, name)| *name)
}

/// Returns the names of the modules that a module imports.
fn imports_of(module: &str) -> Vec<String> {
    let source = text(module);
    let paths = between(&source, " from \"", '"').into_iter().chain(between(&source, "import \"", '"'));
    let name = |path: &str| path.strip_prefix("./").map(str::to_owned);
    paths
        .map(|path| {
            name(path).unwrap_or_else(|| panic!("{module} imports {path}, which is not in its folder"))
        })
        .collect()
}

/// Returns the names of all modules that a page loads.
fn modules_of(page: &str) -> Vec<String> {
    let html = text(page);
    let scripts = tags(&html).into_iter().filter(|tag| tag.contains("type=\"module\"")).flat_map(attributes);
    let sources = scripts.filter(|(name, _)| *name == "src");
    let mut modules: Vec<_> = sources.map(|(_, source)| file_name(source).to_owned()).collect();
    assert!(!modules.is_empty(), "{page} loads no module");
    let mut next = 0;
    while let Some(module) = modules.get(next) {
        let found: Vec<_> = imports_of(module).into_iter().filter(|name| !modules.contains(name)).collect();
        modules.extend(found);
        next += 1;
    }
    modules.sort();
    modules.dedup();
    modules
}

#[test]
fn every_file_that_a_page_refers_to_exists() {
    for name in pages() {
        let page = String::from_utf8(page(name).bytes.into_owned()).unwrap();
        let mut found = 0;
        for tag in tags(&page) {
            for (attribute, value) in attributes(tag) {
                if !["src", "href"].contains(&attribute) || value.starts_with('#') || value == "docs" {
                    continue;
                }
                let asset = asset(value).unwrap_or_else(|| panic!("<{tag}> refers to a missing file"));
                assert!(asset.cacheable, "{value} contains no version");
                found += 1;
            }
        }
        assert!(found >= 4, "{name} has {found} references; expected a style sheet, a script and icons");
    }
}

#[test]
fn the_portal_has_no_code_of_operators() {
    let modules = modules_of("portal.html");
    for module in ["portal.js", "registry.js", "list.js"] {
        assert!(modules.contains(&module.to_owned()), "{module} is missing: {modules:?}");
    }
    for module in &modules {
        assert!(
            !["app.js", "api.js", "stream.js", "actions.js", "caller.js", "key.js"].contains(&&**module),
            "{module}"
        );
        assert!(!text(module).contains("webhook-outbox"), "{module} names the operators' API");
    }
}

#[test]
fn every_imported_module_exists_and_every_module_is_imported() {
    let imported: Vec<_> = pages().flat_map(modules_of).collect();
    for module in names(".js") {
        let source = text(&module);
        for name in imports_of(&module) {
            assert!(EmbeddedFiles::get(&name).is_some(), "{module} imports {name}, which is missing");
        }
        // Comments name types as `import("./module.js").Type`.
        let code = source.lines().filter(|line| !line.trim_start().starts_with(['/', '*']));
        for line in code {
            assert!(!line.contains("import("), "{module}: this test understands `import … from` only");
        }
    }
    for module in names(".js") {
        assert!(imported.contains(&module), "no page loads {module}");
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
fn every_element_that_a_module_uses_is_on_its_page_once() {
    for name in pages() {
        let page = text(name);
        let ids: Vec<_> = tags(&page)
            .into_iter()
            .flat_map(attributes)
            .filter_map(|(name, value)| (name == "id").then_some(value))
            .collect();
        for module in modules_of(name) {
            for id in between(&text(&module), "byId(\"", '"') {
                assert_eq!(
                    ids.iter().filter(|known| **known == id).count(),
                    1,
                    "{module} uses #{id} of {name}"
                );
            }
        }
    }
}

#[test]
fn labels_and_descriptions_refer_to_elements_of_the_page() {
    for page in pages() {
        let html = text(page);
        let all: Vec<_> = tags(&html).into_iter().flat_map(attributes).collect();
        for (name, value) in &all {
            if ["for", "aria-labelledby", "aria-describedby"].contains(name) {
                assert!(
                    all.contains(&("id", value)),
                    "{page}: {name}=\"{value}\" refers to a missing element"
                );
            }
        }
    }
}

#[test]
fn a_page_has_no_inline_scripts_and_styles() {
    for page in pages().map(text) {
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

/// A browser offers to store the value of a password field, and fills it into other pages of the origin. The API reference is one,
/// and runs a third party's script.
#[test]
fn no_browser_stores_the_key() {
    let page = text("index.html");
    let fields: Vec<_> =
        tags(&page).into_iter().filter(|tag| tag.starts_with("input")).map(attributes).collect();
    assert!(fields.iter().all(|field| !field.contains(&("type", "password"))), "{fields:?}");
    let key = fields.iter().find(|field| field.contains(&("id", "key-value"))).expect("a field for the key");
    for attribute in [("autocomplete", "off"), ("spellcheck", "false"), ("class", "masked")] {
        assert!(key.contains(&attribute), "{key:?}");
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
        "placeholder: \"https://example.com/",
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
    assert_eq!(content_type_of("/portal"), Some("text/html; charset=utf-8"));
    assert_eq!(content_type_of("/assets/_/style.css"), Some("text/css; charset=utf-8"));
    assert_eq!(content_type_of("/assets/_/app.js"), Some("text/javascript; charset=utf-8"));
    assert_eq!(content_type_of("/assets/_/icon.svg"), Some("image/svg+xml"));
    for name in EmbeddedFiles::iter() {
        assert!(content_type(&name).is_some(), "{name} has no content type");
    }
}

#[test]
fn only_the_pages_and_their_assets_are_found() {
    assert_eq!(asset("/"), asset(""));
    let unknown = [
        "/index.html",
        "/portal.html",
        "/portal/",
        "/assets/_/portal.html",
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
    etags.extend(PAGES.map(|(path, _)| asset(path).unwrap().etag));
    for etag in &etags {
        let inner = etag.strip_prefix('"').and_then(|etag| etag.strip_suffix('"')).unwrap();
        let hash = inner.split('-').next().unwrap();
        assert!(hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()), "{etag}");
        assert!(!inner.contains('"'), "{etag}");
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
fn only_the_given_origins_may_frame_a_page() {
    assert_eq!(framed_policy(&[]), CONTENT_SECURITY_POLICY);
    let policy = framed_policy(&["https://a.example".to_owned(), "https://b.example:8443".to_owned()]);
    let (before, ancestors) = policy.split_once("frame-ancestors ").unwrap();
    assert_eq!(ancestors, "https://a.example https://b.example:8443");
    assert!(CONTENT_SECURITY_POLICY.starts_with(before) && before.contains("default-src 'none'"), "{policy}");
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
    for page in pages() {
        let html = text(page);
        let linked =
            tags(&html).into_iter().flat_map(attributes).filter(|(_, value)| value.starts_with(UNVERSIONED));
        let linked = linked.map(|(_, value)| file_name(value).to_owned());
        let mut names: Vec<_> = linked.chain(modules_of(page)).chain([page.to_owned()]).collect();
        names.sort();
        names.dedup();
        let loaded = EmbeddedFiles::iter().filter(|path| names.iter().any(|name| name == file_name(path)));
        let bytes: usize = loaded.map(|path| COMPRESSED[&path].len()).sum();
        assert!(bytes < BYTES_MAX, "{page} loads {bytes} bytes");
        assert!(bytes > 10_000, "{page} loads {bytes} bytes, which cannot be all");
    }
}
