//! What must stay covered, as constants: a change here is one that a reviewer sees.
//!
//! A criterion has a row in the requirements ([`REQUIRED_IDS`]), and its row names a test for it, under its own name
//! ([`names_for`]).

/// The tests of the retry contract (S1 §3.3). They must run and pass under exactly these names.
pub const BACKOFF_TESTS: [&str; 5] = [
    "test_first_retry_around_60s",
    "test_second_retry_around_120s",
    "test_backoff_is_exponential",
    "test_delay_never_negative",
    "test_jitter_produces_variance",
];

/// Where the backoff tests run, as cargo prints it: a test of the same name elsewhere does not stand in for them.
pub const BACKOFF_TESTS_SOURCE: &str = "tests/retry_contract.rs";

/// Every criterion that needs a row in `docs/requirements.md`.
///
/// S0-NFR-004 and S2-NFR-004 (compliance) are not here: both documents say that they ask for nothing.
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

/// Criteria whose tests are named otherwise than the id says, and how: the row needs a test for each start of a name.
const NAMED_OTHERWISE: &[(&str, &[&str])] = &[
    // The contract names its tests itself.
    ("S0-NFR-002", &["test_jitter_produces_variance"]),
    ("S1-3.3", &BACKOFF_TESTS),
    // Held by the tests of other criteria.
    ("S0-NFR-005", &["s4_main_flow_every_failure_"]),
    ("S0-NFR-006", &["s2_nfr006_"]),
    ("S2-FR-002-AC3", &["s0_fr003_ac1_2xx_marks_", "s4_s2_"]),
    ("S2-NFR-002", &["s2_fr004_ac1_", "s2_fr005_ac2_cancel_in_flight_"]),
];

/// How the names of a criterion's tests start, as in `s2_fr004_ac3_` for `S2-FR-004-AC3`. Its row needs one for each.
pub fn names_for(id: &str) -> Vec<String> {
    match NAMED_OTHERWISE.iter().find(|(otherwise, _)| *otherwise == id) {
        Some((_, starts)) => starts.iter().map(|&start| start.to_owned()).collect(),
        None => vec![id.to_ascii_lowercase().replace("fr-", "fr").replace(['-', '.'], "_") + "_"],
    }
}

/// Whether a test is named after a criterion: `s0_…` to `s4_…`.
pub(crate) fn is_criterion_test(name: &str) -> bool {
    matches!(name.as_bytes(), [b's', b'0'..=b'4', b'_', ..])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn criterion_tests_are_those_of_the_five_documents() {
        for name in ["s0_fr001_ac1_x", "s1_3_4_x", "s4_"] {
            assert!(is_criterion_test(name), "{name}");
        }
        for name in ["s5_x", "s0", "s00_x", "sender_x", "S0_x", "test_s0_x", ""] {
            assert!(!is_criterion_test(name), "{name}");
        }
    }

    #[test]
    fn ids_have_a_form_for_test_names() {
        let forms = [
            ("S2-FR-004-AC3", "s2_fr004_ac3_"),
            ("S0-NFR-003", "s0_nfr003_"),
            ("S1-3.4", "s1_3_4_"),
            ("S1-PHASE3-CI", "s1_phase3_ci_"),
            ("S3-HEARTBEAT", "s3_heartbeat_"),
            ("S3-FLOW-1", "s3_flow_1_"),
            ("S4-S1", "s4_s1_"),
        ];
        for (id, form) in forms {
            assert_eq!(names_for(id), [form]);
        }
        assert_eq!(names_for("S1-3.3"), BACKOFF_TESTS);
    }

    #[test]
    fn required_ids_are_unique() {
        assert_eq!(REQUIRED_IDS.iter().collect::<BTreeSet<_>>().len(), REQUIRED_IDS.len());
    }

    #[test]
    fn criteria_that_are_named_otherwise_are_required_ones_and_once() {
        let renamed: Vec<_> = NAMED_OTHERWISE.iter().map(|(id, _)| id).collect();
        assert_eq!(renamed.iter().collect::<BTreeSet<_>>().len(), renamed.len());
        assert!(renamed.iter().all(|id| REQUIRED_IDS.contains(id)), "{renamed:?}");
    }
}
