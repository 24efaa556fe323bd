//! The statements of the registry whose plans are tested, each with the indexes that serve it.

use super::{
    APP_BY_UID, ENDPOINT_BY_UID, MESSAGE_BY_ID, MESSAGE_BY_UID, answer, application, attempt, endpoint,
    endpoint_delete, event_type, keys, message, message_retention, operation, operation_step,
};

/// Returns the statements that seek in an index at every step, with the indexes that each must use.
pub(crate) fn seeking() -> Vec<(String, &'static [&'static str])> {
    let fixed: [(&str, &[&str]); 16] = [
        (APP_BY_UID, &["webhook_applications_uid"]),
        (ENDPOINT_BY_UID, &["webhook_endpoints_uid"]),
        (MESSAGE_BY_ID, &["webhook_messages_id"]),
        (MESSAGE_BY_UID, &["webhook_messages_uid"]),
        (answer::REMOVE_EXPIRED, &["webhook_answers_expiry"]),
        (application::LIVE_ENDPOINTS, &["webhook_endpoints_app"]),
        (endpoint::STATS, &["webhook_events_destination"]),
        (keys::SEALED_VALUES, &["webhook_sealed_values_id"]),
        (keys::REMOVE_RETIRED, &["webhook_sealed_values_retiring"]),
        (message_retention::PENDING, &["webhook_events_message"]),
        (message_retention::EXPIRED, &["webhook_messages_expiry", "webhook_events_message"]),
        (message_retention::EXAMINE, &["webhook_messages_id", "webhook_events_message"]),
        (attempt::OF_MESSAGE, &["webhook_events_message"]),
        (operation_step::NEXT_EVENTS, &["webhook_events_destination"]),
        (operation_step::NEXT_MESSAGES, &["webhook_messages_app"]),
        (crate::destination::UPDATED, &["webhook_destinations_updated"]),
    ];
    let mut statements: Vec<(String, &'static [&'static str])> =
        fixed.into_iter().map(|(sql, indexes)| (sql.to_owned(), indexes)).collect();
    for order in ["ASC", "DESC"] {
        let lists: [(String, &'static [&'static str]); 7] = [
            (application::list_sql(order), &["webhook_applications_org"]),
            (endpoint::list_sql(order), &["webhook_endpoints_app"]),
            (event_type::list_sql(order), &[]),
            (message::list_sql(order), &["webhook_messages_app"]),
            (message::list_of_endpoint_sql(order), &["webhook_messages_app", "webhook_events_message"]),
            (message::destinations_sql(order), &["webhook_events_message"]),
            (attempt::of_endpoint_sql(order), &["webhook_attempts_endpoint"]),
        ];
        statements.extend(lists);
        statements.push((operation::list_sql(order), &[]));
    }
    statements
}

/// Returns the statements that read all rows of a partial index, which holds the few rows that need attention.
pub(crate) fn scanning() -> [(String, &'static str); 3] {
    [
        (endpoint_delete::CANCELLING.to_owned(), "webhook_endpoints_cancelling"),
        (operation_step::running_sql(), "webhook_operations_running"),
        (application::REMOVE_DELETED.to_owned(), "webhook_applications_deleted"),
    ]
}
