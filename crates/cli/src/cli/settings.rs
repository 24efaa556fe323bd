//! One flag per setting, from the declarations of the configuration.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use posthaste_config::{Setting, ValueType, settings};

const HEADING: &str = "Configuration";

/// The settings that the command line sets, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct SettingFlags(Vec<(&'static str, String)>);

impl SettingFlags {
    /// Returns the names and values of these settings.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// Returns these settings and the others, which take precedence.
    pub(crate) fn overridden_by(mut self, others: Self) -> Self {
        self.0.retain(|(name, _)| others.0.iter().all(|(other, _)| other != name));
        self.0.extend(others.0);
        self
    }
}

/// Returns the flag of a setting. It accepts any text: the configuration validates values from all sources alike.
fn flag(setting: &'static Setting) -> Arg {
    let help = format!("{} [default: {}]", setting.help, setting.default);
    let arg = Arg::new(setting.name)
        .long(setting.flag.trim_start_matches('-'))
        .help_heading(HEADING)
        .hide_short_help(true)
        .help(help);
    match setting.value_type {
        ValueType::Boolean => arg.value_name("true|false").num_args(0..=1).default_missing_value("true"),
        ValueType::Integer => arg.value_name("N"),
        ValueType::Seconds => arg.value_name("SECONDS"),
        ValueType::Text | ValueType::SecondsList | ValueType::TextList | ValueType::BooleanOrTextList => {
            arg.value_name("VALUE")
        }
    }
}

/// The settings that a command uses which only opens the database.
const STORE_SETTINGS: &[&str] = &["database_url", "database_schema"];

/// Hides the flags of the settings that a command does not use from its help. They are accepted all the same: scripts may
/// pass one set of flags to every command.
pub(super) fn show_only_store_settings(arg: Arg) -> Arg {
    let is_setting = arg.get_help_heading() == Some(HEADING);
    if is_setting {
        let is_used = STORE_SETTINGS.contains(&arg.get_id().as_str());
        arg.hide(!is_used).hide_short_help(!is_used)
    } else {
        arg
    }
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        command.args(settings().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let value = |setting: &'static Setting| {
            matches.get_one::<String>(setting.name).map(|value| (setting.name, value.clone()))
        };
        Ok(Self(settings().filter_map(value).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
