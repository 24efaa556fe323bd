//! Text names of enum variants, the same in database rows, API responses and logs. Each list serves both directions.

/// Gives each variant of a plain enum a text name: defines `as_str`, its inverse `from_name`, and `ALL`.
#[doc(hidden)]
#[macro_export]
macro_rules! named_variants {
    ($enum:ident { $($variant:ident => $name:literal,)+ }) => {
        impl $enum {
            /// All variants, in their order.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The name of the variant.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns the variant with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)+
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
    fn from_name_inverts_as_str_and_refuses_other_text() {
        assert_eq!(DeliveryStatus::from_name(DeliveryStatus::Failed.as_str()), Some(DeliveryStatus::Failed));
        assert_eq!(ErrorClass::from_name("blocked_address"), Some(ErrorClass::BlockedAddress));
        assert_eq!(DeliveryStatus::from_name("Failed"), None);
    }
}
