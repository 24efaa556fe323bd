//! Settings of the configuration as flags, one for each, made from the table that documents them.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use posthaste_config::{Form, SETTINGS, Setting};

const HEADING: &str = "Configuration";

/// The settings that were given as flags, by their names.
#[derive(Debug, Clone, Default)]
pub(crate) struct SettingFlags(Vec<(&'static str, String)>);

impl SettingFlags {
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

/// Values are not judged here: the configuration says what is wrong with them, whatever source they come from.
fn flag(setting: &'static Setting) -> Arg {
    let help = format!("{} [default: {}]", setting.help, setting.default);
    let arg = Arg::new(setting.name)
        .long(setting.flag.trim_start_matches('-'))
        .help_heading(HEADING)
        .hide_short_help(true)
        .help(help);
    match setting.form {
        Form::Switch => arg.value_name("true|false").num_args(0..=1).default_missing_value("true"),
        Form::Whole => arg.value_name("N"),
        Form::Seconds => arg.value_name("SECONDS"),
        Form::Text | Form::SecondsList | Form::TextList | Form::SwitchOrTextList => arg.value_name("VALUE"),
    }
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        command.args(SETTINGS.into_iter().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |setting: &'static Setting| {
            matches.get_one::<String>(setting.name).map(|value| (setting.name, value.clone()))
        };
        Ok(Self(SETTINGS.into_iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
