//! What a seed's exact replay rests on and no lint holds: choices are made in a fixed order.

use std::fs;
use std::path::{Path, PathBuf};

/// Crates whose code runs inside the simulation.
const SIMULATED: [&str; 4] = ["store", "store-memory", "engine", "sim"];

/// What makes a choice by chance, and what to use instead.
const RANDOM_ORDER: [(&str, &str); 3] = [
    ("HashMap", "iterates in random order; use BTreeMap"),
    ("HashSet", "iterates in random order; use BTreeSet"),
    ("watch::channel", "wakes its receivers in random order; use a Notify and a value"),
];

/// One line for each place in a source that leaves its order to chance.
fn left_to_chance(source: &str) -> Vec<String> {
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

fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("cannot list {}: {error}", directory.display()));
    let paths = entries.map(|entry| entry.expect("the directory can be listed").path());
    paths
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

#[test]
fn what_runs_in_the_simulation_leaves_no_order_to_chance() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package is in crates/");
    let mut found = Vec::new();
    for name in SIMULATED {
        let sources = sources(&crates.join(name).join("src"));
        assert!(!sources.is_empty(), "{name} has no sources");
        for path in sources {
            let source = fs::read_to_string(&path).expect("a source can be read");
            found.extend(
                left_to_chance(&source).into_iter().map(|place| format!("{}: {place}", path.display())),
            );
        }
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn an_unbiased_select_and_a_hash_map_are_refused() {
    let doctored = "use std::collections::HashMap;\ntokio::select! {\n    // biased;\n    _ = a => {}\n}\n";
    assert_eq!(left_to_chance(doctored).len(), 2);
    assert!(left_to_chance("tokio::select! {\n    biased;\n    _ = a => {}\n}\n").is_empty());
    assert!(left_to_chance("//! no HashMap here\n").is_empty());
}
