//! Files that values name: loading reads them before anything is started, and reports their errors with all others.

use std::path::PathBuf;

use posthaste_config::setting;
use tempfile::TempDir;

use crate::{UserInput, assert_contains, env};

/// Creates files that are no certificates, and one that is. Returns their directory, the invalid ones and the valid one.
fn certificate_files() -> (TempDir, Vec<PathBuf>, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let [empty, text, broken, good] =
        ["empty.pem", "text.pem", "broken.pem", "good.pem"].map(|name| directory.path().join(name));
    std::fs::write(&empty, "").unwrap();
    std::fs::write(&text, "not PEM at all").unwrap();
    std::fs::write(&broken, "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n").unwrap();
    let mut authority = rcgen::CertificateParams::new(vec![]).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = authority.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    std::fs::write(&good, authority.pem()).unwrap();
    let bad = vec![directory.path().join("missing.pem"), directory.path().to_owned(), empty, text, broken];
    (directory, bad, good)
}

#[test]
fn unusable_ca_file_is_an_error_that_names_its_setting() {
    let (_directory, bad, good) = certificate_files();
    let ca_file = setting("ca_file").unwrap();
    for path in bad {
        let path = path.to_str().unwrap();
        for input in [env(&[("POSTHASTE_CA_FILE", path)]), UserInput::new().flag("ca_file", path)] {
            let messages = input.load().unwrap_err();
            assert_eq!(messages.len(), 1, "{messages:?}");
            let written = if input.flags.is_empty() { "POSTHASTE_CA_FILE=" } else { "--ca-file " };
            assert_contains(
                &messages[0],
                &[written, "cannot be used", &ca_file.rule, &ca_file.default.to_string()],
            );
            assert!(!messages[0].contains('\n'), "{messages:?}");
            assert!(input.parse().is_ok(), "without files it is valid");
            assert!(input.load_for_store().is_ok(), "the store does not need it");
        }
    }
    assert!(env(&[("POSTHASTE_CA_FILE", good.to_str().unwrap())]).load().is_ok());
}

#[test]
fn unusable_root_certificate_is_an_error_of_the_database_url() {
    let (_directory, bad, good) = certificate_files();
    let url = |path: &PathBuf| {
        let path = path.to_str().unwrap();
        format!("postgres://app:hunter2@db.example/shop?sslmode=verify-full&sslrootcert={path}")
    };
    for path in &bad {
        let input = env(&[("POSTHASTE_DATABASE_URL", &url(path))]);
        let messages = input.load().unwrap_err();
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert_eq!(input.load_for_store().unwrap_err(), messages);
        let path = path.to_str().unwrap();
        assert_contains(
            &messages[0],
            &["POSTHASTE_DATABASE_URL=postgres://app:***@", path, "database_url must be"],
        );
        assert!(input.parse().is_ok(), "without files it is valid");
    }
    assert!(env(&[("POSTHASTE_DATABASE_URL", &url(&good))]).load().is_ok());
}

#[test]
fn errors_of_files_are_reported_with_all_others() {
    let input = env(&[("POSTHASTE_CA_FILE", "/no/such/file"), ("POSTHASTE_CONCURRENCY", "0")]);
    let messages = input.load().unwrap_err();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_contains(&messages.join(" "), &["POSTHASTE_CONCURRENCY=0", "POSTHASTE_CA_FILE=/no/such/file"]);
}
