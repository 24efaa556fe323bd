//! The files of `deploy/`, and that they can be read as what they are.

use std::fs;
use std::path::{Path, PathBuf};

use yaml_rust2::{Yaml, YamlLoader};

use crate::assert_none;

pub(crate) struct File {
    /// Relative to the root of the repository.
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

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("this package is two levels below the root")
}

pub(crate) fn read(path: &str) -> String {
    let path = workspace().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

/// The files at a path and in the directories below it, in order; none where there is nothing.
pub(crate) fn below(path: &str) -> Vec<File> {
    let mut found = paths(&workspace().join(path));
    found.sort();
    let relative = |path: PathBuf| path.strip_prefix(workspace()).expect("it is below").display().to_string();
    found.into_iter().map(relative).map(|path| File { text: read(&path), path }).collect()
}

fn paths(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let Ok(entries) = fs::read_dir(path) else { return vec![] };
    entries.flat_map(|entry| paths(&entry.expect("a directory can be listed").path())).collect()
}

/// What is shipped. Copies of the examples, which hold secrets, are not.
pub(crate) fn shipped() -> Vec<File> {
    let files = below("deploy").into_iter();
    let files: Vec<_> = files.filter(|file| !file.has_extension(&["env"])).collect();
    assert!(!files.is_empty(), "deploy/ has files");
    files
}

/// The documents of a YAML file.
pub(crate) fn yaml(file: &File) -> Result<Vec<Yaml>, String> {
    YamlLoader::load_from_str(&file.text).map_err(|error| format!("{}: not YAML: {error}", file.path))
}

/// The only document of a YAML file.
pub(crate) fn yaml_at(path: &str) -> Yaml {
    let file = File { path: path.to_owned(), text: read(path) };
    let mut documents = yaml(&file).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(documents.len(), 1, "{path} is one document");
    documents.remove(0)
}

/// Every entry of every mapping in a document, as key and value.
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

/// Where a text points on the network: what stands between `://`, or what comes before a user name's `@`, and the path.
fn hosts(text: &str) -> Vec<&str> {
    let ends = |c: char| c.is_whitespace() || "/'\"`)],?".contains(c);
    let authorities = text.split("://").skip(1).filter_map(|rest| rest.split(ends).next());
    let without_user = authorities.filter_map(|authority| authority.rsplit('@').next());
    without_user.filter_map(|host| host.split(':').next()).filter(|host| !host.is_empty()).collect()
}

/// The service of PostgreSQL in the compose file is reached by its name there.
fn may_be_named(host: &str) -> bool {
    host.ends_with(".example") || host.starts_with("127.") || ["localhost", "postgres"].contains(&host)
}

#[test]
fn every_yaml_file_of_deploy_parses() {
    let files: Vec<_> = shipped().into_iter().filter(File::is_yaml).collect();
    assert!(files.len() >= 5, "there are rules, a compose file and manifests");
    assert_none(&files.iter().filter_map(|file| yaml(file).err()).collect::<Vec<_>>());
}

#[test]
fn every_json_file_of_deploy_parses() {
    let files: Vec<_> = shipped().into_iter().filter(|file| file.has_extension(&["json"])).collect();
    assert!(!files.is_empty(), "there is a dashboard");
    for file in files {
        let parsed = serde_json::from_str::<serde_json::Value>(&file.text);
        assert!(parsed.is_ok(), "{}: not JSON: {parsed:?}", file.path);
    }
}

#[test]
fn no_file_of_deploy_points_to_a_host_of_somebody() {
    let named = |file: &File| {
        let foreign = hosts(&file.text).into_iter().filter(|host| !may_be_named(host));
        foreign.map(|host| format!("{}: {host}; write a host under .example", file.path)).collect::<Vec<_>>()
    };
    assert_none(&shipped().iter().flat_map(named).collect::<Vec<_>>());
}

#[test]
fn a_broken_file_and_a_foreign_host_are_noticed() {
    let broken = |text: &str| yaml(&File { path: "x.yml".to_owned(), text: text.to_owned() }).is_err();
    assert!(broken("a: [1, 2"));
    assert!(broken("a: 1\na: 2\n"), "a key that stands twice hides one of its values");
    assert!(!broken("a: 1\n---\nb: 2\n"));
    let text = "see https://docs.vendor.com/x and postgres://u:p@db.example:5432/d or http://127.0.0.1:8600";
    assert_eq!(hosts(text), ["docs.vendor.com", "db.example", "127.0.0.1"]);
    assert_eq!(
        hosts(text).into_iter().filter(|host| !may_be_named(host)).collect::<Vec<_>>(),
        ["docs.vendor.com"]
    );
}
