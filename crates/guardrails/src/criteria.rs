//! The criteria that must stay covered, as constants, so that a reviewer sees every change to them.
//!
//! Each criterion has a row in the requirements ([`REQUIRED_IDS`]). Its row lists a test for each prefix that
//! [`test_prefixes`] returns.

/// The tests of the retry contract (S1 §3.3). They must run and pass under exactly these names.
pub const BACKOFF_TESTS: [&str; 5] = [
    "test_first_retry_around_60s",
    "test_second_retry_around_120s",
    "test_backoff_is_exponential",
    "test_delay_never_negative",
    "test_jitter_produces_variance",
];

/// Source file of the backoff tests, as cargo prints it. A test of the same name in another file does not replace them.
pub const BACKOFF_TESTS_SOURCE: &str = "tests/retry_contract.rs";

/// Ids of the criteria that need a row in `docs/requirements.md`.
///
/// S0-NFR-004 and S2-NFR-004 (compliance) are not here, because both documents state no requirement for them.
pub const REQUIRED_IDS: &[&str] = &[
    // S0: retry jitter and retry budget
    "S0-FR-001-AC1",
    "S0-FR-001-AC2",
    "S0-FR-001-AC3",
    "S0-FR-002-AC1",
    "S0-FR-002-AC2",
    "S0-FR-002-AC3",
    "S0-FR-003-AC1",
    "S0-FR-003-AC2",
    "S0-FR-003-AC3",
    "S0-FR-004-AC1",
    "S0-FR-004-AC2",
    "S0-NFR-001",
    "S0-NFR-002",
    "S0-NFR-003",
    "S0-NFR-005",
    "S0-NFR-006",
    // S1: the retry contract, by section
    "S1-3.1",
    "S1-3.2",
    "S1-3.3",
    "S1-3.4",
    "S1-PHASE3-CI",
    "S1-PHASE3-README",
    "S1-PHASE3-ANOMALY",
    "S1-QUEUE-DEPTH",
    "S1-LATENCY",
    "S1-DEAD-LETTER-RATE",
    "S1-LOGS",
    "S1-CIRCUIT",
    // S2: overview, dead letters, operator actions
    "S2-FR-001-AC1",
    "S2-FR-001-AC2",
    "S2-FR-001-AC3",
    "S2-FR-002-AC1",
    "S2-FR-002-AC2",
    "S2-FR-002-AC3",
    "S2-FR-003-AC1",
    "S2-FR-003-AC2",
    "S2-FR-003-AC3",
    "S2-FR-004-AC1",
    "S2-FR-004-AC2",
    "S2-FR-004-AC3",
    "S2-FR-005-AC1",
    "S2-FR-005-AC2",
    "S2-FR-005-AC3",
    "S2-FR-006-AC1",
    "S2-FR-006-AC2",
    "S2-NFR-001",
    "S2-NFR-002",
    "S2-NFR-003",
    "S2-NFR-005",
    "S2-NFR-006",
    // S3: leases renewed while a send is in flight
    "S3-HEARTBEAT",
    "S3-FLOW-1",
    "S3-FLOW-2",
    "S3-FLOW-3",
    "S3-GUARDED-RENEWAL",
    "S3-NO-LEAK",
    "S3-RENEWAL-LOG",
    "S3-SHORT-LEASE",
    // S4: exact schedule and dead letter
    "S4-MAIN",
    "S4-A1",
    "S4-F1",
    "S4-S1",
    "S4-S2",
    "S4-RESET",
];

/// Criteria whose tests do not have the prefix derived from the id, with the prefixes that their rows need instead.
const PREFIX_EXCEPTIONS: &[(&str, &[&str])] = &[
    // The retry contract prescribes the names of its tests.
    ("S0-NFR-002", &["test_jitter_produces_variance"]),
    ("S1-3.3", &BACKOFF_TESTS),
    // The tests of other criteria cover these.
    ("S0-NFR-005", &["s4_main_flow_each_retry_"]),
    ("S0-NFR-006", &["s2_nfr006_"]),
    ("S2-FR-002-AC3", &["s0_fr003_ac1_2xx_marks_", "s4_s2_"]),
    ("S2-NFR-002", &["s2_fr004_ac1_", "s2_fr005_ac2_cancel_in_flight_"]),
];

/// Returns the prefixes of a criterion's test names, as in `s2_fr004_ac3_` for `S2-FR-004-AC3`.
///
/// The row of the criterion needs a test for each prefix.
pub fn test_prefixes(id: &str) -> Vec<String> {
    match PREFIX_EXCEPTIONS.iter().find(|(exception, _)| *exception == id) {
        Some((_, prefixes)) => prefixes.iter().map(|&prefix| prefix.to_owned()).collect(),
        None => vec![id.to_ascii_lowercase().replace("fr-", "fr").replace(['-', '.'], "_") + "_"],
    }
}

/// Returns whether a test name has the prefix of a requirement document: `s0_` to `s4_`.
pub(crate) fn is_criterion_test(name: &str) -> bool {
    matches!(name.as_bytes(), [b's', b'0'..=b'4', b'_', ..])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn criterion_tests_start_with_s0_to_s4() {
        for name in ["s0_fr001_ac1_x", "s1_3_4_x", "s4_"] {
            assert!(is_criterion_test(name), "{name}");
        }
        for name in ["s5_x", "s0", "s00_x", "sender_x", "S0_x", "test_s0_x", ""] {
            assert!(!is_criterion_test(name), "{name}");
        }
    }

    #[test]
    fn test_prefixes_are_derived_from_ids() {
        let prefixes = [
            ("S2-FR-004-AC3", "s2_fr004_ac3_"),
            ("S0-NFR-003", "s0_nfr003_"),
            ("S1-3.4", "s1_3_4_"),
            ("S1-PHASE3-CI", "s1_phase3_ci_"),
            ("S3-HEARTBEAT", "s3_heartbeat_"),
            ("S3-FLOW-1", "s3_flow_1_"),
            ("S4-S1", "s4_s1_"),
        ];
        for (id, prefix) in prefixes {
            assert_eq!(test_prefixes(id), [prefix]);
        }
        assert_eq!(test_prefixes("S1-3.3"), BACKOFF_TESTS);
    }

    #[test]
    fn required_ids_are_unique() {
        assert_eq!(REQUIRED_IDS.iter().collect::<BTreeSet<_>>().len(), REQUIRED_IDS.len());
    }

    #[test]
    fn prefix_exceptions_are_unique_and_required() {
        let exceptions: Vec<_> = PREFIX_EXCEPTIONS.iter().map(|(id, _)| id).collect();
        assert_eq!(exceptions.iter().collect::<BTreeSet<_>>().len(), exceptions.len());
        assert!(exceptions.iter().all(|id| REQUIRED_IDS.contains(id)), "{exceptions:?}");
    }
}
