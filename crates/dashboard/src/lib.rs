//! The page of operators and that of their customers: the HTML, CSS and JavaScript files of `assets/`, embedded into the binary.
//! Both use only the public API. This crate does not speak HTTP: it returns bytes, and the values of the headers to send with
//! them.
//!
//! A page refers to its assets as `assets/<version>/<name>`, where the version is a hash of all assets. A browser
//! therefore never mixes files of two builds and may cache them forever. Only the pages themselves are requested each time. The
//! folders of `assets/vendor`, each with a library and its licence, are not part of the paths: file names are unique.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::sync::LazyLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use rust_embed::{EmbeddedFile, RustEmbed};

/// The content security policy of both pages, without the origins that may frame them. Injected content can neither run scripts
/// nor load or send data.
macro_rules! policy {
    () => {
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors "
    };
}

/// The content security policy of a page that no other page may frame.
pub const CONTENT_SECURITY_POLICY: &str = concat!(policy!(), "'none'");

/// Returns the content security policy of a page that pages of these origins may frame.
pub fn framed_policy(origins: &[String]) -> String {
    match origins {
        [] => CONTENT_SECURITY_POLICY.to_owned(),
        origins => format!(concat!(policy!(), "{}"), origins.join(" ")),
    }
}

/// The paths of the pages, and their files.
const PAGES: [(&str, &str); 2] = [("", "index.html"), ("portal", "portal.html")];
/// The directory of assets in the paths of the embedded page. `_` stands for the version.
const UNVERSIONED: &str = "assets/_/";

#[derive(RustEmbed)]
#[folder = "assets/"]
struct EmbeddedFiles;

/// The version in the paths of assets: a hash of the names and contents of all files.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = DefaultHasher::new();
    for name in EmbeddedFiles::iter() {
        name.hash(&mut hasher);
        file(&name).metadata.sha256_hash().hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
});

/// A file of the dashboard with its response headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asset {
    pub bytes: Cow<'static, [u8]>,
    /// The same bytes, compressed by gzip.
    pub gzip: &'static [u8],
    pub content_type: &'static str,
    /// The value of the `etag` header, including its quotes.
    pub etag: String,
    /// Whether the path identifies exactly these bytes, so that they may be cached forever. Otherwise send `no-cache`.
    pub cacheable: bool,
}

/// Returns the file for a request's path: `/`, `/portal` or `/assets/<version>/<name>`. `None` for any other path.
///
/// With the version of another build, the asset is found but not cacheable. Two builds may serve one page while one replaces
/// the other.
pub fn asset(path: &str) -> Option<Asset> {
    let path = path.strip_prefix('/').unwrap_or(path);
    if let Some((_, name)) = PAGES.iter().find(|(page, _)| *page == path) {
        return Some(page(name));
    }
    let (version, name) = path.strip_prefix("assets/")?.split_once('/')?;
    if is_page(name) {
        return None;
    }
    let path = EmbeddedFiles::iter().find(|path| file_name(path) == name)?;
    let file = file(&path);
    let etag =
        file.metadata.sha256_hash().iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>();
    Some(Asset {
        content_type: content_type(name)?,
        etag: format!("\"{etag}\""),
        cacheable: version == *VERSION,
        gzip: COMPRESSED.get(&*path)?,
        bytes: file.data,
    })
}

/// All files, compressed by gzip, by their paths. Together they are small, so that one request compresses them all.
static COMPRESSED: LazyLock<BTreeMap<Cow<'static, str>, Vec<u8>>> = LazyLock::new(|| {
    let bytes = |path: &str| if is_page(path) { page_bytes(path) } else { file(path).data.into_owned() };
    EmbeddedFiles::iter().map(|path| (path.clone(), compress(&bytes(&path)))).collect()
});

fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.expect("writing to memory does not fail")
}

fn is_page(name: &str) -> bool {
    PAGES.iter().any(|(_, page)| *page == name)
}

/// Returns a page with the current version in its paths.
fn page_bytes(name: &str) -> Vec<u8> {
    let text = String::from_utf8(file(name).data.into_owned()).expect("a page is UTF-8, as a test checks");
    text.replace(UNVERSIONED, &format!("assets/{}/", *VERSION)).into_bytes()
}

fn page(name: &str) -> Asset {
    Asset {
        bytes: page_bytes(name).into(),
        gzip: COMPRESSED.get(name).expect("every file is compressed"),
        content_type: content_type(name).expect("html is a known extension"),
        etag: format!("\"{}-{name}\"", *VERSION),
        cacheable: false,
    }
}

/// Returns the last part of a path.
fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

fn file(name: &str) -> EmbeddedFile {
    EmbeddedFiles::get(name).expect("callers pass names of embedded files only")
}

fn content_type(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    match extension {
        "html" => Some("text/html; charset=utf-8"),
        "css" => Some("text/css; charset=utf-8"),
        "js" => Some("text/javascript; charset=utf-8"),
        "svg" => Some("image/svg+xml"),
        "txt" => Some("text/plain; charset=utf-8"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
