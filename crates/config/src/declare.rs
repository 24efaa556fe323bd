//! The macro behind [`settings`](super::settings).

/// Declares all settings. Per setting it takes a doc comment, which is the help text, then
/// `name: type = declaration;`, within the braces of a [`Section`](super::setting::Section).
///
/// It generates the table of settings, the public [`Config`](super::settings::Config) with one typed field per setting,
/// and the code that reads each value.
macro_rules! declare_settings {
    ($($section:ident { $($(#[doc = $help:literal])+ $name:ident: $type:ty = $declaration:expr;)+ })+) => {
        /// Every setting by its name, with the parser of its values.
        pub(crate) struct SettingTable {
            $($(pub(crate) $name: TypedSetting<$type>,)+)+
        }

        /// All settings, by name, each with the parser of its values.
        pub(crate) static TABLE: LazyLock<SettingTable> = LazyLock::new(|| SettingTable {
            $($($name: $declaration.named(stringify!($name), Section::$section, concat!($($help),+)),)+)+
        });

        /// All settings in the order of their declaration.
        static SETTINGS: LazyLock<Vec<&'static Setting>> = LazyLock::new(|| {
            vec![$($(&*TABLE.$name,)+)+]
        });

        /// A valid configuration: one typed value per setting. Created by [`load`](crate::load),
        /// [`load_for_store`](crate::load_for_store) and [`parse`](crate::parse).
        #[derive(Debug, Clone)]
        #[non_exhaustive]
        pub struct Config {
            $($($(#[doc = $help])+ pub $name: $type,)+)+
            /// The retry policy that the retry settings define together.
            pub retry_policy: RetryPolicy,
            /// Every setting as text with its source, in the order of their declaration.
            pub settings: Vec<EffectiveSetting>,
            /// Warnings to log at every start.
            pub warnings: Vec<String>,
        }

        impl Config {
            /// Parses every value. An invalid value is recorded as an error and replaced by its default.
            pub(crate) fn read(values: &mut Values) -> Self {
                let mut config = Self {
                    $($($name: TABLE.$name.default_value(TABLE.$name.default.usual()),)+)+
                    retry_policy: RetryPolicy::default(),
                    settings: Vec::new(),
                    warnings: Vec::new(),
                };
                // In the order of declaration: a default may depend on the values before it.
                $($(config.$name = values.read(&TABLE.$name, &config);)+)+
                config
            }
        }
    };
}

pub(crate) use declare_settings;
