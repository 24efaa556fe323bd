//! Files that values name: they are read before anything is started, and what is wrong with them is told like anything
//! else that is wrong.

use std::path::PathBuf;

use posthaste_config::setting;
use tempfile::TempDir;

use crate::{Said, assert_words, env};

/// What nobody can take for a certificate, and a certificate.
fn files() -> (TempDir, Vec<PathBuf>, PathBuf) {
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
fn an_authority_that_cannot_be_read_is_refused_by_the_name_of_its_setting() {
    let (_directory, bad, good) = files();
    let ca_file = setting("ca_file").unwrap();
    for path in bad {
        let path = path.to_str().unwrap();
        for said in [env(&[("POSTHASTE_CA_FILE", path)]), Said::nothing().flag("ca_file", path)] {
            let messages = said.load_with_files().unwrap_err();
            assert_eq!(messages.len(), 1, "{messages:?}");
            let written = if said.flags.is_empty() { "POSTHASTE_CA_FILE=" } else { "--ca-file " };
            assert_words(
                &messages[0],
                &[written, "cannot be used", ca_file.rule, &ca_file.default.to_string()],
            );
            assert!(!messages[0].contains('\n'), "{messages:?}");
            assert!(said.load().is_ok(), "its text alone is well");
            assert!(said.load_for_store().is_ok(), "the store does not need it");
        }
    }
    assert!(env(&[("POSTHASTE_CA_FILE", good.to_str().unwrap())]).load_with_files().is_ok());
}

#[test]
fn a_root_certificate_that_cannot_be_read_is_refused_with_the_url() {
    let (_directory, bad, good) = files();
    let url = |path: &PathBuf| {
        let path = path.to_str().unwrap();
        format!("postgres://app:hunter2@db.example/shop?sslmode=verify-full&sslrootcert={path}")
    };
    for path in &bad {
        let said = env(&[("POSTHASTE_DATABASE_URL", &url(path))]);
        let messages = said.load_with_files().unwrap_err();
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert_eq!(said.load_for_store().unwrap_err(), messages);
        let path = path.to_str().unwrap();
        assert_words(
            &messages[0],
            &["POSTHASTE_DATABASE_URL=postgres://app:***@", path, "database_url must be"],
        );
        assert!(said.load().is_ok(), "its text alone is well");
    }
    assert!(env(&[("POSTHASTE_DATABASE_URL", &url(&good))]).load_with_files().is_ok());
}

#[test]
fn files_are_told_together_with_everything_else() {
    let said = env(&[("POSTHASTE_CA_FILE", "/no/such/file"), ("POSTHASTE_CONCURRENCY", "0")]);
    let messages = said.load_with_files().unwrap_err();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_words(&messages.join(" "), &["POSTHASTE_CONCURRENCY=0", "POSTHASTE_CA_FILE=/no/such/file"]);
}
