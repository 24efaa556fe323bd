//! Rule: code that runs in the simulation iterates and polls in a fixed order, so that a seed replays exactly. No lint
//! enforces this.

use std::fs;
use std::path::{Path, PathBuf};

/// Crates whose code runs inside the simulation.
const SIMULATED: [&str; 4] = ["store", "store-memory", "engine", "sim"];

/// Types and functions with a random order, each with its replacement.
const RANDOM_ORDER: [(&str, &str); 3] = [
    ("HashMap", "iterates in random order; use BTreeMap"),
    ("HashSet", "iterates in random order; use BTreeSet"),
    ("watch::channel", "wakes its receivers in random order; use a Notify and a value"),
];

/// Returns one line for each use of a random order in a source.
fn find_random_order(source: &str) -> Vec<String> {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let lines: Vec<&str> = code.filter(|line| !line.trim().is_empty()).collect();
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let first_of_block = lines.get(number + 1).map(|next| next.trim());
        if line.contains("select! {") && first_of_block != Some("biased;") {
            found.push(format!("`{}`: start the block with `biased;`", line.trim()));
        }
        let random = RANDOM_ORDER.iter().filter(|(name, _)| line.contains(name));
        found.extend(random.map(|(name, instead)| format!("`{name}` {instead}")));
    }
    found
}

/// Returns the Rust files in a directory and its subdirectories.
fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("cannot list {}: {error}", directory.display()));
    let paths = entries.map(|entry| entry.expect("a directory entry can be read").path());
    paths
        .flat_map(|path| if path.is_dir() { rust_files(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

#[test]
fn simulated_code_has_a_fixed_order() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package is in crates/");
    let mut found = Vec::new();
    for name in SIMULATED {
        let sources = rust_files(&crates.join(name).join("src"));
        assert!(!sources.is_empty(), "{name} has no sources");
        for path in sources {
            let source = fs::read_to_string(&path).expect("a source can be read");
            found.extend(
                find_random_order(&source).into_iter().map(|found| format!("{}: {found}", path.display())),
            );
        }
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn unbiased_select_and_hash_map_are_found() {
    let source = "use std::collections::HashMap;\ntokio::select! {\n    // biased;\n    _ = a => {}\n}\n";
    assert_eq!(find_random_order(source).len(), 2);
    assert!(find_random_order("tokio::select! {\n    biased;\n    _ = a => {}\n}\n").is_empty());
    assert!(find_random_order("//! no HashMap here\n").is_empty());
}
