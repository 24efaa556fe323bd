//! The documents that derive from the declared settings: the example file and the reference.

use std::fmt::Write as _;

use super::setting::{Section, Setting};
use super::settings::settings;

const EXAMPLE_HEAD: &str = "\
# Posthaste: every setting, with its default or an example.
#
# Copy the lines that you want to change to posthaste.toml and remove their leading #. A flag overrides an environment
# variable, a variable overrides this file, and this file overrides the default. `posthaste config` prints every value and
# its source.
";

const REFERENCE_HEAD: &str = "\
# Configuration

A setting can be set in three places. A flag overrides an environment variable, and a variable overrides the file. A setting
that none of them sets has its default. `posthaste config` prints every value and its source, with secrets masked;
`posthaste doctor` checks the configuration and says what to fix.

| place | how to set `concurrency` |
|---|---|
| flag | `--concurrency 64`: the name with hyphens |
| environment | `POSTHASTE_CONCURRENCY=64`: the name in capitals |
| file | `concurrency = 64`, in `posthaste.toml` in the working directory, or in the file that `--config` names |

**The file** is TOML without sections; [posthaste.example.toml](../posthaste.example.toml) lists every key. An unknown key is an
error, and so is a value of the wrong type. Relative paths start at the working directory.

**Environment variables.** Some settings have a second variable, kept for compatibility. Both may be set if they agree; it is an
error if they differ. An empty variable counts as not set. Posthaste warns of a variable that starts with `POSTHASTE_` and is not
a setting, and suggests the nearest name. It ignores the variables that Kubernetes sets for a service named `posthaste`
(`POSTHASTE_SERVICE_…`, `POSTHASTE_PORT…`).

**Values.** Spaces around a value are ignored. Seconds may have up to three decimals (`0.5`). Lists are separated by commas; in the
file they may be arrays. Booleans are `true` or `false`, nothing else.

**Secrets** belong in the environment or in the file, because every user of the host can read the flags of a process. Posthaste
warns of a flag that contains a secret or a URL with a password.

**Errors.** Posthaste reports all errors at once, each with the setting as you wrote it, the value (secrets masked), the rule, and
what to do. A file that a value names and that cannot be used is an error too. Nothing is started then, and the exit code is 2.
";

const REFERENCE_TAIL: &str = "
## Rules between settings

- A first retry delay under 30 s, in the base or in the schedule, is an error, because it breaks
  [the retry contract](retry-contract.md). Only `allow_fast_retries = true` permits it. That setting is for tests, and Posthaste
  warns of it at every start.
- `retry_max_backoff_seconds` must not be below the base delay, or below any step of the schedule, of the strategy in use.
- An address that is not loopback requires `api_keys`.
- Events may be sent to loopback as long as `listen` is a loopback address, there are no `api_keys`, and the database is on this
  host. Any value of `allow_private_networks` replaces that default.
- `timeout_seconds` may be longer than `lease_seconds`: workers renew their leases while requests are in flight.
";

/// Returns the text of `posthaste.example.toml`.
pub fn example_file() -> String {
    let mut text = EXAMPLE_HEAD.to_owned();
    for (section, settings) in by_section() {
        let _ = write!(text, "\n\n# {section}\n");
        for setting in settings {
            let _ = write!(text, "\n{}", example_entry(setting));
        }
    }
    text
}

fn example_entry(setting: &Setting) -> String {
    let Setting { name, env, default, rule, help, .. } = setting;
    let alias = setting.env_alias.map(|alias| format!(" or {alias}")).unwrap_or_default();
    let value = setting.toml_example();
    format!(
        "# {help}.\n# Must be: {rule}.\n# Default: {default}.\n# Environment: {env}{alias}\n# {name} = {value}\n"
    )
}

/// Returns the text of `docs/configuration.md`.
pub fn reference() -> String {
    let mut text = REFERENCE_HEAD.to_owned();
    for (section, _) in by_section() {
        let _ = write!(text, "\n## {section}\n\n{}", reference_table(section));
    }
    text + REFERENCE_TAIL
}

/// Returns the settings of a section as a Markdown table.
pub fn reference_table(section: Section) -> String {
    let mut text =
        "| setting | what it does | must be | default | environment |\n|---|---|---|---|---|\n".to_owned();
    for setting in settings().filter(|setting| setting.section == section) {
        let Setting { name, env, default, rule, help, .. } = setting;
        let alias = setting.env_alias.map(|alias| format!(", `{alias}`")).unwrap_or_default();
        let _ = writeln!(text, "| `{name}` | {help} | {rule} | {default} | `{env}`{alias} |");
    }
    text
}

fn by_section() -> Vec<(Section, Vec<&'static Setting>)> {
    let settings: Vec<_> = settings().collect();
    let chunks = settings.chunk_by(|a, b| a.section == b.section);
    chunks.map(|settings| (settings[0].section, settings.to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::file::FILE_DEFAULT;
    use super::*;

    #[test]
    fn documents_name_the_default_file() {
        assert!(example_file().contains(FILE_DEFAULT) && reference().contains(FILE_DEFAULT));
    }

    #[test]
    fn every_row_of_a_table_has_five_cells() {
        for (section, settings) in by_section() {
            let table = reference_table(section);
            assert_eq!(table.lines().count(), 2 + settings.len());
            assert!(table.lines().all(|line| line.matches('|').count() == 6), "{table}");
        }
    }
}
