//! States and kinds have one word each, in rows, in answers and in logs. Each list is written once and read both ways.

/// Gives an enum of plain variants its words: `as_str`, and `from_word` for whoever reads them back.
#[doc(hidden)]
#[macro_export]
macro_rules! words {
    ($name:ident { $($variant:ident => $word:literal,)+ }) => {
        impl $name {
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// The variant that goes by this word.
            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::{DeliveryStatus, ErrorClass};

    #[test]
    fn a_word_is_read_back_as_what_was_written_and_no_other_is_read_at_all() {
        assert_eq!(DeliveryStatus::from_word(DeliveryStatus::Failed.as_str()), Some(DeliveryStatus::Failed));
        assert_eq!(ErrorClass::from_word("blocked_address"), Some(ErrorClass::BlockedAddress));
        assert_eq!(DeliveryStatus::from_word("Failed"), None);
    }
}
