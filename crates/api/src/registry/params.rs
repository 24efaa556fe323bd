//! Descriptions of parameters that several routes share.

use utoipa::IntoParams;

/// Defines parameters for the OpenAPI document.
macro_rules! described_params {
    ($kind:ident: $($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)+ })+) => {$(
        $(#[$doc])*
        #[derive(IntoParams)]
        #[into_params(parameter_in = $kind)]
        #[expect(dead_code, reason = "only its description is used; extractors parse the parameters")]
        pub(super) struct $name { $($(#[$field_doc])* $field: $type,)+ }
    )+};
}

described_params! { Path:
    /// The path of an application.
    AppPathParams {
        /// The id or the uid of the application.
        #[param(example = "customer-17")]
        app_id: String,
    }
    /// The path of an endpoint.
    EndpointPathParams {
        /// The id or the uid of the application.
        #[param(example = "customer-17")]
        app_id: String,
        /// The id or the uid of the endpoint.
        #[param(example = "receiver-1")]
        endpoint_id: String,
    }
    /// The path of a message.
    MessagePathParams {
        /// The id or the uid of the application.
        #[param(example = "customer-17")]
        app_id: String,
        /// The id or the `eventId` of the message.
        #[param(example = "invoice-17-paid")]
        msg_id: String,
    }
    /// The path of an attempt.
    AttemptPathParams {
        /// The id or the uid of the application.
        #[param(example = "customer-17")]
        app_id: String,
        /// The id or the `eventId` of the message.
        #[param(example = "invoice-17-paid")]
        msg_id: String,
        /// The id of the attempt.
        attempt_id: String,
    }
    /// The path of a message and one of its endpoints.
    MessageEndpointPathParams {
        /// The id or the uid of the application.
        #[param(example = "customer-17")]
        app_id: String,
        /// The id or the `eventId` of the message.
        #[param(example = "invoice-17-paid")]
        msg_id: String,
        /// The id or the uid of the endpoint.
        #[param(example = "receiver-1")]
        endpoint_id: String,
    }
    /// The path of an event type.
    EventTypePathParams {
        /// The name of the event type.
        #[param(example = "invoice.paid")]
        event_type_name: String,
    }
}

described_params! { Header:
    /// The header under which a repeated request gets the first answer.
    IdempotencyParams {
        /// 1 to 255 printable ASCII characters, remembered for a day unless configured otherwise. A request with the same key,
        /// caller and URL gets the first successful answer again.
        #[param(rename = "idempotency-key")]
        idempotency_key: Option<String>,
    }
}

described_params! { Query:
    /// Filters of messages.
    MessageFilterParams {
        /// Only messages on this channel.
        channel: Option<String>,
        /// Only messages with this tag.
        tag: Option<String>,
        /// Only messages of these event types, joined by commas.
        event_types: Option<String>,
        /// Only messages that were published earlier.
        #[param(format = DateTime)]
        before: Option<String>,
        /// Only messages that were published later.
        #[param(format = DateTime)]
        after: Option<String>,
        /// Whether payloads are shown; true if omitted.
        with_content: Option<bool>,
    }
    /// Filters of attempts.
    AttemptFilterParams {
        /// Only attempts with this status: 0 success, 1 pending, 2 fail, 3 sending, 4 canceled.
        #[param(minimum = 0, maximum = 4)]
        status: Option<i64>,
        /// Only attempts with a status of this class: 100 to 500, or 0 for attempts without a response.
        #[param(minimum = 0, maximum = 500, multiple_of = 100)]
        status_code_class: Option<i64>,
        /// Only attempts of messages on this channel.
        channel: Option<String>,
        /// Only attempts of messages of these event types, joined by commas.
        event_types: Option<String>,
        /// Only attempts that started earlier.
        #[param(format = DateTime)]
        before: Option<String>,
        /// Only attempts that started later.
        #[param(format = DateTime)]
        after: Option<String>,
        /// Whether payloads are shown; true if omitted.
        with_content: Option<bool>,
        /// Whether each attempt shows its message.
        with_msg: Option<bool>,
    }
    /// Whether payloads are shown.
    ContentParams {
        /// Whether payloads are shown; true if omitted.
        with_content: Option<bool>,
    }
    /// Whether cancelled messages have a state of their own.
    ExpandedParams {
        /// Whether cancelled messages have the status 4; otherwise 2.
        expanded_statuses: Option<bool>,
    }
    /// A period of time.
    PeriodParams {
        #[param(format = DateTime)]
        since: Option<String>,
        #[param(format = DateTime)]
        until: Option<String>,
    }
}
