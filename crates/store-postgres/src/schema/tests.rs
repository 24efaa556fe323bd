use std::path::Path;

use super::*;
use crate::migrate::MIGRATIONS;

/// A name that occurs in no statement.
const OTHER: &str = "zanzibar";

fn other() -> SchemaName {
    OTHER.parse().expect("the name is valid")
}

#[test]
fn names_that_need_no_quotes_are_accepted() {
    let longest = "s".repeat(BYTES_MAX);
    for name in ["app", "posthaste", "_p", "webhooks_2", "order", "pgx", longest.as_str()] {
        assert_eq!(name.parse::<SchemaName>().map(|schema| schema.to_string()), Ok(name.to_owned()));
    }
    assert_eq!(SchemaName::default().as_str(), "app");
}

#[test]
fn names_that_could_be_misread_or_are_not_ours_are_refused() {
    let too_long = "s".repeat(BYTES_MAX + 1);
    for (name, reason) in [
        ("", InvalidSchemaName::Form),
        ("App", InvalidSchemaName::Form),
        ("1st", InvalidSchemaName::Form),
        ("my-app", InvalidSchemaName::Form),
        ("a.b", InvalidSchemaName::Form),
        ("x\"; DROP SCHEMA app; --", InvalidSchemaName::Form),
        ("schéma", InvalidSchemaName::Form),
        (too_long.as_str(), InvalidSchemaName::Form),
        ("pg_own", InvalidSchemaName::Reserved),
        ("information_schema", InvalidSchemaName::Reserved),
        ("public", InvalidSchemaName::Public),
    ] {
        assert_eq!(name.parse::<SchemaName>(), Err(reason), "{name}");
    }
    assert!(SchemaName::RULE.starts_with(&format!("1 to {BYTES_MAX} ")), "the rule states the limit");
}

#[test]
fn only_whole_words_are_rewritten() {
    let [first, second] = other().lock_classes();
    for (written, rewritten) in [
        ("FROM app.webhook_queue q", r#"FROM "zanzibar".webhook_queue q"#.to_owned()),
        ("nextval('app.webhook_event_key')", r#"nextval('"zanzibar".webhook_event_key')"#.to_owned()),
        (
            "e.app_id, 'myapp.x', apps.id, q.application",
            "e.app_id, 'myapp.x', apps.id, q.application".to_owned(),
        ),
        ("pg_notify('posthaste_due', '')", "pg_notify('posthaste_due:zanzibar', '')".to_owned()),
        ("lock(7526, 1), lock(7527, 17526)", format!("lock({first}, 1), lock({second}, 17526)")),
        ("", String::new()),
    ] {
        assert_eq!(other().rewrite(written), rewritten);
        assert!(matches!(SchemaName::default().rewrite(written), Cow::Borrowed(same) if same == written));
    }
}

#[test]
fn each_schema_has_its_own_channels_and_lock_classes() {
    let default = SchemaName::default();
    assert_eq!(
        (default.wake_channel(), default.notice_channel()),
        ("posthaste_due".into(), "gateway:webhooks".into())
    );
    assert_eq!(other().notice_channel(), "gateway:webhooks:zanzibar");
    let longest: SchemaName = "s".repeat(BYTES_MAX).parse().unwrap();
    assert!(longest.notice_channel().len() == 63 && longest.wake_channel().len() <= 63);
    let names = ["billing", "shop", "zanzibar", "app2", "_", "posthaste"];
    let mut classes: Vec<String> =
        names.iter().flat_map(|name| name.parse::<SchemaName>().unwrap().lock_classes()).collect();
    assert!(classes.iter().all(|class| class.parse::<i32>().is_ok_and(|class| class > 7527)), "{classes:?}");
    classes.sort();
    classes.dedup();
    assert_eq!(classes.len(), 2 * names.len());
}

#[test]
fn a_statement_is_rewritten_once() {
    let statements = Statements::new(other());
    let texts = [(); 2].map(|()| statements.text("SELECT app.webhook_now()"));
    let [SqlText::Rewritten(first), SqlText::Rewritten(second)] = texts else {
        panic!("the schema is not app")
    };
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(&*first, r#"SELECT "zanzibar".webhook_now()"#);
}

/// The string literals of Rust source, up to its tests.
fn literals(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let (mut literals, mut rest) = (Vec::new(), source);
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let token = &rest[at..];
        rest = if token.starts_with("//") {
            token.split_once('\n').map_or("", |(_, rest)| rest)
        } else if let Some(after) = token.strip_prefix("'\"'") {
            after
        } else if let Some(text) = token.strip_prefix('"') {
            let escaped =
                |end: usize| text[..end].bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
            let end = text.match_indices('"').map(|(end, _)| end).find(|end| !escaped(*end));
            let end = end.expect("a literal ends in its file");
            literals.push(text[..end].to_owned());
            &text[end + 1..]
        } else {
            &token[1..]
        };
    }
    literals
}

fn sources(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: std::path::PathBuf| match path.file_name().and_then(|name| name.to_str()) {
        _ if path.is_dir() => sources(&path),
        // This module names what it replaces.
        Some("tests.rs" | "fake_writer.rs" | "schema.rs") => Vec::new(),
        _ => vec![std::fs::read_to_string(path).unwrap()],
    };
    entries.flat_map(read).collect()
}

/// Every text that this crate may send to PostgreSQL: its string literals, the migrations, and the list of their objects.
fn all_texts() -> Vec<String> {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts: Vec<String> =
        sources(&crate_root.join("src")).iter().flat_map(|it| literals(it)).collect();
    texts.extend(MIGRATIONS.iter().map(|(_, sql)| (*sql).to_owned()));
    texts.push(std::fs::read_to_string(crate_root.join("migrations/schema.txt")).unwrap());
    texts
}

/// The texts before and after each occurrence of a word.
fn around<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let mut at = 0;
    let parts = words(text).filter_map(move |part| {
        let start = at;
        at += part.len();
        (part == word).then(|| (&text[..start], &text[start + part.len()..]))
    });
    parts.collect::<Vec<_>>().into_iter()
}

#[test]
fn the_word_app_is_the_schema_in_every_statement_and_migration() {
    let texts = all_texts();
    let mut qualifiers = 0;
    for text in &texts {
        for (before, after) in around(text, WRITTEN_FOR) {
            let of_ours = [".webhook_", ".enqueue_webhook", ".publish_webhook", ".{"]
                .iter()
                .any(|name| after.starts_with(name));
            let is_qualifier = of_ours && !before.ends_with(['.', '"', '-', '/', '@']);
            let is_name = before.ends_with("SCHEMA ") || (before.ends_with('\'') && after.starts_with('\''));
            assert!(is_qualifier || is_name, "app is not the schema here, and would be rewritten: {text}");
            qualifiers += 1;
        }
    }
    assert!(texts.len() > 300 && qualifiers > 400, "{} texts, {qualifiers} qualifiers", texts.len());
}

#[test]
fn locks_and_wake_ups_are_rewritten_in_every_statement_and_migration() {
    let mut found = [0; 3];
    for text in all_texts() {
        for (_, after) in text.match_indices("advisory").map(|(at, name)| text.split_at(at + name.len())) {
            let class = after.split_once('(').map(|(_, arguments)| arguments);
            let class = class.and_then(|arguments| words(arguments).next()).unwrap_or_default();
            // `lock` is a column that is computed with a class.
            let is_class = LOCK_CLASSES.contains(&class) || class == "lock" || !after.contains('(');
            assert!(is_class, "add the lock class {class} to LOCK_CLASSES: {text}");
            found[0] += 1;
        }
        for class in LOCK_CLASSES {
            found[1] += around(&text, class).count();
        }
        for (_, after) in text.match_indices("pg_notify(").map(|(at, name)| text.split_at(at + name.len())) {
            let is_known = after.starts_with(&format!("'{WAKE_CHANNEL}'")) || after.starts_with("$2");
            assert!(is_known, "this channel is the same in every schema: {text}");
            found[2] += 1;
        }
    }
    assert!(found[0] > 4 && found[1] > 4 && found[2] > 2, "{found:?}");
}

#[test]
fn nothing_but_the_schema_its_locks_and_its_channel_is_rewritten() {
    let [first, second] = other().lock_classes();
    for text in all_texts() {
        let rewritten = other().rewrite(&text);
        assert_eq!(around(&rewritten, WRITTEN_FOR).count(), 0, "{rewritten}");
        let back = rewritten
            .replace("\"zanzibar\"", WRITTEN_FOR)
            .replace(":zanzibar", "")
            .replace(&first, LOCK_CLASSES[0])
            .replace(&second, LOCK_CLASSES[1]);
        assert!(!text.contains(OTHER) && back == text, "{text}");
    }
}
