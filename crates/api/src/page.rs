//! Pages of a listing: how a query asks for one, and the cursor that names the next.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use posthaste_domain::{EventKey, Timestamp};
use posthaste_store::{Cursor, PageLimit, PageRequest};

use crate::error::ApiError;
use crate::query::{Parameters, refused};

/// The end of year 9999: no store has a later moment, and some cannot be asked for one.
const AT_MAX: i64 = 253_402_300_799_999_999;

/// Which listing a cursor is of: their orders differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    DeadLetters,
    Events,
}

impl Listing {
    const fn tag(self) -> u8 {
        match self {
            Self::DeadLetters => b'd',
            Self::Events => b'e',
        }
    }
}

/// The page that `limit` and `cursor` ask for.
pub(crate) fn wanted(parameters: &Parameters, listing: Listing) -> Result<PageRequest, ApiError> {
    let limit = parameters.get("limit").map(limit).transpose()?.unwrap_or_default();
    let after = parameters.get("cursor").map(|text| decode(listing, text)).transpose()?;
    Ok(PageRequest { after, limit })
}

fn limit(text: &str) -> Result<PageLimit, ApiError> {
    let number = text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    number.and_then(|number| PageLimit::new(number).ok()).ok_or_else(|| {
        let shown: String = text.chars().take(64).collect();
        refused("limit", format!("limit must be a number from 1 to {}, got {shown:?}", PageLimit::MAX))
    })
}

pub(crate) fn encode(listing: Listing, cursor: Cursor) -> String {
    let mut bytes = vec![listing.tag()];
    bytes.extend(cursor.at.as_micros().to_be_bytes());
    bytes.extend(cursor.key.0.to_be_bytes());
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn decode(listing: Listing, text: &str) -> Result<Cursor, ApiError> {
    let bytes: Option<[u8; 17]> =
        BASE64_URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    let cursor = bytes.filter(|bytes| bytes[0] == listing.tag()).and_then(|bytes| {
        let [_, at @ .., _, _, _, _, _, _, _, _] = bytes;
        let [_, _, _, _, _, _, _, _, _, key @ ..] = bytes;
        let (at, key) = (i64::from_be_bytes(at), i64::from_be_bytes(key));
        let possible = (0..=AT_MAX).contains(&at) && key >= 0;
        possible.then_some(Cursor { at: Timestamp::from_micros(at), key: EventKey(key) })
    });
    cursor.ok_or_else(|| {
        refused("cursor", "this is not a cursor of this listing; pass the next_cursor of a page as it came")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cursor_is_read_back_by_its_own_listing_alone(at in 0..=AT_MAX, key in 0..i64::MAX) {
            let cursor = Cursor { at: Timestamp::from_micros(at), key: EventKey(key) };
            let text = encode(Listing::Events, cursor);
            prop_assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
            prop_assert_eq!(decode(Listing::Events, &text).unwrap(), cursor);
            prop_assert!(decode(Listing::DeadLetters, &text).is_err());
        }

        #[test]
        fn no_text_makes_a_cursor_that_a_store_cannot_be_asked_for(text in "[A-Za-z0-9_-]{0,40}") {
            if let Ok(cursor) = decode(Listing::Events, &text) {
                prop_assert!((0..=AT_MAX).contains(&cursor.at.as_micros()) && cursor.key.0 >= 0);
            }
        }
    }
}
