//! Files of `deploy/`. Rules: YAML and JSON files parse, and no file names the host of a third party.

use std::fs;
use std::path::{Path, PathBuf};

use yaml_rust2::{Yaml, YamlLoader};

use crate::assert_none;

/// A text file of the repository.
pub(crate) struct File {
    /// Path relative to the root of the repository.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn has_extension(&self, extensions: &[&str]) -> bool {
        let extension = Path::new(&self.path).extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| extensions.contains(&extension))
    }

    pub(crate) fn is_yaml(&self) -> bool {
        self.has_extension(&["yml", "yaml"])
    }
}

/// Returns the root of the repository.
pub(crate) fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("this package is two levels below the root")
}

/// Reads a file by its path relative to the root of the repository.
pub(crate) fn read(path: &str) -> String {
    let path = workspace().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

/// Reads the file at a path, or all files in the directory at a path and its subdirectories, sorted by path. Returns none
/// if the path does not exist.
pub(crate) fn files_at(path: &str) -> Vec<File> {
    let mut found = paths(&workspace().join(path));
    found.sort();
    let relative = |path: PathBuf| {
        path.strip_prefix(workspace()).expect("the path is in the workspace").display().to_string()
    };
    found.into_iter().map(relative).map(|path| File { text: read(&path), path }).collect()
}

fn paths(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let Ok(entries) = fs::read_dir(path) else { return vec![] };
    entries.flat_map(|entry| paths(&entry.expect("a directory entry can be read").path())).collect()
}

/// Reads the files of `deploy/`, except local `.env` files, which contain secrets.
pub(crate) fn deploy_files() -> Vec<File> {
    let files = files_at("deploy").into_iter();
    let is_local = |file: &File| file.has_extension(&["env"]) || file.path.ends_with("/.env");
    let files: Vec<_> = files.filter(|file| !is_local(file)).collect();
    assert!(!files.is_empty(), "deploy/ has no files");
    files
}

/// Parses the documents of a YAML file.
pub(crate) fn parse_yaml(file: &File) -> Result<Vec<Yaml>, String> {
    YamlLoader::load_from_str(&file.text).map_err(|error| format!("{}: not YAML: {error}", file.path))
}

/// Reads a YAML file with exactly one document.
pub(crate) fn read_yaml(path: &str) -> Yaml {
    let file = File { path: path.to_owned(), text: read(path) };
    let mut documents = parse_yaml(&file).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(documents.len(), 1, "{path} must have one document");
    documents.remove(0)
}

/// Returns the key and value of every entry of every mapping in a document.
pub(crate) fn entries(document: &Yaml) -> Vec<(&str, &Yaml)> {
    match document {
        Yaml::Hash(mapping) => {
            let own = mapping.iter().filter_map(|(key, value)| Some((key.as_str()?, value)));
            own.chain(mapping.values().flat_map(entries)).collect()
        }
        Yaml::Array(items) => items.iter().flat_map(entries).collect(),
        _ => vec![],
    }
}

/// Returns the host of each URL in a text.
fn hosts(text: &str) -> Vec<&str> {
    let ends = |c: char| c.is_whitespace() || "/'\"`)],?".contains(c);
    let authorities = text.split("://").skip(1).filter_map(|rest| rest.split(ends).next());
    let without_user = authorities.filter_map(|authority| authority.rsplit('@').next());
    without_user.filter_map(|host| host.split(':').next()).filter(|host| !host.is_empty()).collect()
}

/// Returns whether a file may name this host: example domains, loopback, and the service `postgres` of the compose file.
fn is_allowed_host(host: &str) -> bool {
    host.ends_with(".example") || host.starts_with("127.") || ["localhost", "postgres"].contains(&host)
}

#[test]
fn every_yaml_file_of_deploy_parses() {
    let files: Vec<_> = deploy_files().into_iter().filter(File::is_yaml).collect();
    assert!(files.len() >= 5, "expected the alert rules, the compose file and the manifests");
    assert_none(&files.iter().filter_map(|file| parse_yaml(file).err()).collect::<Vec<_>>());
}

#[test]
fn every_json_file_of_deploy_parses() {
    let files: Vec<_> = deploy_files().into_iter().filter(|file| file.has_extension(&["json"])).collect();
    assert!(!files.is_empty(), "expected the dashboard");
    for file in files {
        let parsed = serde_json::from_str::<serde_json::Value>(&file.text);
        assert!(parsed.is_ok(), "{}: not JSON: {parsed:?}", file.path);
    }
}

#[test]
fn no_file_of_deploy_names_a_foreign_host() {
    let violations = |file: &File| {
        let foreign = hosts(&file.text).into_iter().filter(|host| !is_allowed_host(host));
        foreign
            .map(|host| format!("{}: {host} belongs to a third party; use a host under .example", file.path))
            .collect::<Vec<_>>()
    };
    assert_none(&deploy_files().iter().flat_map(violations).collect::<Vec<_>>());
}

#[test]
fn invalid_yaml_and_foreign_hosts_are_found() {
    let is_invalid =
        |text: &str| parse_yaml(&File { path: "x.yml".to_owned(), text: text.to_owned() }).is_err();
    assert!(is_invalid("a: [1, 2"));
    assert!(is_invalid("a: 1\na: 2\n"), "a duplicate key hides one of its values");
    assert!(!is_invalid("a: 1\n---\nb: 2\n"));
    let text = "see https://docs.vendor.com/x and postgres://u:p@db.example:5432/d or http://127.0.0.1:8600";
    assert_eq!(hosts(text), ["docs.vendor.com", "db.example", "127.0.0.1"]);
    assert_eq!(
        hosts(text).into_iter().filter(|host| !is_allowed_host(host)).collect::<Vec<_>>(),
        ["docs.vendor.com"]
    );
}
