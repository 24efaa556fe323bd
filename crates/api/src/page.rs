//! Pagination: the `limit` and `cursor` parameters, and the encoding of cursors.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use posthaste_domain::{DestinationId, EventKey, Timestamp};
use posthaste_store::{PageCursor, PageLimit, PageRequest};

use crate::error::ApiError;
use crate::query::{QueryParameters, excerpt, invalid_parameter};

/// The end of year 9999 in microseconds. No store holds a later time, and some cannot represent one.
const TIMESTAMP_MAX_MICROS: i64 = 253_402_300_799_999_999;

/// The listing that a cursor belongs to. Listings are sorted differently, so a cursor is valid only in its own listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    DeadLetters,
    Events,
}

impl Listing {
    /// The first byte of this listing's cursors.
    const fn tag(self) -> u8 {
        match self {
            Self::DeadLetters => b'd',
            Self::Events => b'e',
        }
    }
}

/// Parses the query parameters `limit` and `cursor`.
pub(crate) fn parse_page_request(
    parameters: &QueryParameters,
    listing: Listing,
) -> Result<PageRequest, ApiError> {
    let limit = parameters.get("limit").map(parse_limit).transpose()?.unwrap_or_default();
    let after = parameters.get("cursor").map(|text| decode_cursor(listing, text)).transpose()?;
    Ok(PageRequest { after, limit })
}

/// Parses the query parameters `limit` and `cursor` of a list of destinations.
pub(crate) fn parse_destination_page_request(
    parameters: &QueryParameters,
) -> Result<PageRequest<DestinationId>, ApiError> {
    let limit = parameters.get("limit").map(parse_limit).transpose()?.unwrap_or_default();
    let after = parameters.get("cursor").map(decode_destination_cursor).transpose()?;
    Ok(PageRequest { after, limit })
}

pub(crate) fn parse_limit(text: &str) -> Result<PageLimit, ApiError> {
    let number = text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    number.and_then(|number| PageLimit::new(number).ok()).ok_or_else(|| {
        let shown = excerpt(text);
        invalid_parameter(
            "limit",
            format!("limit must be a number from 1 to {}, got {shown:?}", PageLimit::MAX),
        )
    })
}

/// Encodes a cursor as the opaque text that clients send back.
pub(crate) fn encode_cursor(listing: Listing, cursor: PageCursor) -> String {
    let mut bytes = vec![listing.tag()];
    bytes.extend(cursor.at.as_micros().to_be_bytes());
    bytes.extend(cursor.key.0.to_be_bytes());
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn decode_cursor(listing: Listing, text: &str) -> Result<PageCursor, ApiError> {
    let bytes: Option<[u8; 17]> =
        BASE64_URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    let cursor = bytes.filter(|bytes| bytes[0] == listing.tag()).and_then(|bytes| {
        let [_, at @ .., _, _, _, _, _, _, _, _] = bytes;
        let [_, _, _, _, _, _, _, _, _, key @ ..] = bytes;
        let (at, key) = (i64::from_be_bytes(at), i64::from_be_bytes(key));
        let is_valid = (0..=TIMESTAMP_MAX_MICROS).contains(&at) && key >= 0;
        is_valid.then_some(PageCursor { at: Timestamp::from_micros(at), key: EventKey(key) })
    });
    cursor.ok_or_else(foreign_cursor)
}

pub(crate) fn foreign_cursor() -> ApiError {
    invalid_parameter(
        "cursor",
        "cursor is not a cursor of this listing; pass the next_cursor of a page unchanged",
    )
}

/// The first byte of the cursors of lists of destinations.
const DESTINATION_TAG: u8 = b't';

/// Encodes the cursor of a list of destinations.
pub(crate) fn encode_destination_cursor(DestinationId(id): DestinationId) -> String {
    let mut bytes = vec![DESTINATION_TAG];
    bytes.extend(id.to_be_bytes());
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn decode_destination_cursor(text: &str) -> Result<DestinationId, ApiError> {
    let bytes: Option<[u8; 9]> =
        BASE64_URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    match bytes {
        Some([DESTINATION_TAG, id @ ..]) => Ok(DestinationId(i64::from_be_bytes(id))),
        _ => Err(foreign_cursor()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cursor_decodes_in_its_own_listing_only(at in 0..=TIMESTAMP_MAX_MICROS, key in 0..i64::MAX) {
            let cursor = PageCursor { at: Timestamp::from_micros(at), key: EventKey(key) };
            let text = encode_cursor(Listing::Events, cursor);
            prop_assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
            prop_assert_eq!(decode_cursor(Listing::Events, &text).unwrap(), cursor);
            prop_assert!(decode_cursor(Listing::DeadLetters, &text).is_err());
        }

        #[test]
        fn a_cursor_of_destinations_decodes_in_their_list_only(id in any::<i64>()) {
            let text = encode_destination_cursor(DestinationId(id));
            prop_assert_eq!(decode_destination_cursor(&text).unwrap(), DestinationId(id));
            prop_assert!(decode_cursor(Listing::Events, &text).is_err());
        }

        #[test]
        fn every_decoded_cursor_is_within_the_range_of_the_stores(text in "[A-Za-z0-9_-]{0,40}") {
            if let Ok(cursor) = decode_cursor(Listing::Events, &text) {
                prop_assert!((0..=TIMESTAMP_MAX_MICROS).contains(&cursor.at.as_micros()) && cursor.key.0 >= 0);
            }
        }
    }
}
