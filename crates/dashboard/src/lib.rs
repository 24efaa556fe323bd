//! The operator's page, embedded: plain HTML, CSS and modules, as they stand in `assets/`. It speaks only the public
//! API, and this crate knows nothing of HTTP: it hands out bytes, and what to say about them.
//!
//! The page names its assets under `assets/<version>/`, where the version is made of all their contents. So what
//! belongs together is loaded together, and may be kept for good; only the page itself is asked for each time.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use rust_embed::{EmbeddedFile, RustEmbed};

/// Under this policy the page works, and nothing that gets into it from outside can run, load or send.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const PAGE: &str = "index.html";
/// How the page names its assets before it is told their version.
const UNVERSIONED: &str = "assets/_/";

#[derive(RustEmbed)]
#[folder = "assets/"]
struct Embedded;

static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = DefaultHasher::new();
    for name in Embedded::iter() {
        name.hash(&mut hasher);
        file(&name).metadata.sha256_hash().hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
});

/// One file of the page, ready to be answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asset {
    pub bytes: Cow<'static, [u8]>,
    pub content_type: &'static str,
    /// Quoted, as the header wants it.
    pub etag: String,
    /// Whether the path will never mean other bytes (`max-age=31536000, immutable`). Otherwise: `no-cache`.
    pub cacheable: bool,
}

/// What is at the path of a request, if it is ours: `/` or `/assets/<version>/<name>`.
///
/// Under the version of another build an asset is still found, since two builds may serve one page while one
/// replaces the other, but it is not to be kept.
pub fn asset(path: &str) -> Option<Asset> {
    let path = path.strip_prefix('/').unwrap_or(path);
    if path.is_empty() {
        return Some(page());
    }
    let (version, name) = path.strip_prefix("assets/")?.split_once('/')?;
    if name == PAGE {
        return None;
    }
    let file = Embedded::get(name)?;
    let etag =
        file.metadata.sha256_hash().iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>();
    Some(Asset {
        content_type: content_type(name)?,
        etag: format!("\"{etag}\""),
        cacheable: version == *VERSION,
        bytes: file.data,
    })
}

fn page() -> Asset {
    let text = String::from_utf8(file(PAGE).data.into_owned()).expect("the page is UTF-8, or its tests fail");
    Asset {
        bytes: text.replace(UNVERSIONED, &format!("assets/{}/", *VERSION)).into_bytes().into(),
        content_type: content_type(PAGE).expect("the page has an extension that is known"),
        etag: format!("\"{}\"", *VERSION),
        cacheable: false,
    }
}

fn file(name: &str) -> EmbeddedFile {
    Embedded::get(name).expect("only names of embedded files are asked for")
}

fn content_type(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    match extension {
        "html" => Some("text/html; charset=utf-8"),
        "css" => Some("text/css; charset=utf-8"),
        "js" => Some("text/javascript; charset=utf-8"),
        "svg" => Some("image/svg+xml"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
