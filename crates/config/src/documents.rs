//! What is written about settings, from their table: the example file and the reference.

use std::fmt::Write as _;

use super::table::{SETTINGS, Section, Setting};

const EXAMPLE_HEAD: &str = "\
# Posthaste: every setting, with its default or an example.
#
# Copy what you change to posthaste.toml, and remove the # in front. Flags go over environment variables, these over the
# file, and the file over defaults. `posthaste config` prints what holds, and where it comes from.
";

const REFERENCE_HEAD: &str = "\
# Configuration

Every setting can be given in three places. A flag goes over an environment variable, and a variable over the file; what is
given nowhere is its default. `posthaste config` prints what holds and where it comes from, secrets masked; `posthaste doctor`
says what to fix.

| place | how `concurrency` is written |
|---|---|
| flag | `--concurrency 64`: the name with hyphens |
| environment | `POSTHASTE_CONCURRENCY=64`: the name in capitals |
| file | `concurrency = 64`, in `posthaste.toml` of the working directory, or in the file that `--config` names |

**The file** is TOML without sections; [posthaste.example.toml](../posthaste.example.toml) has every key. A key that is not a
setting is an error, and so is a value of the wrong type. Paths are relative to the working directory.

**Environment variables.** Some settings have a second name, from before. Both may be set if they agree; if they differ, that is
an error. A variable that is empty counts as not set. One that begins with `POSTHASTE_` and is no setting is warned of, with the
name that was probably meant; what Kubernetes sets for a service named `posthaste` (`POSTHASTE_SERVICE_…`, `POSTHASTE_PORT…`) is
left alone.

**Values.** Spaces around a value are no part of it. Seconds may have up to three decimals (`0.5`). Lists are separated by commas;
in the file they may be arrays. Switches are `true` or `false`, nothing else.

**Secrets** belong into the environment or the file: a flag can be read by everyone on the host. One that holds a secret, or a
URL with a password, is warned of.

**Mistakes.** All of them are reported at once, each with the name as you wrote it, the value (secrets masked), the rule and the
way out. A file that a value names and that cannot be used is one of them. Nothing is started then, and the exit code is 2.
";

const REFERENCE_TAIL: &str = "
## What must agree

- A first retry delay under 30 s, by base or by schedule, is refused: it breaks [the retry contract](retry-contract.md). The one
  way past it is `allow_fast_retries = true`, which is for tests and warned of at every start.
- `retry_max_backoff_seconds` is not below the base, or any step of the schedule, whichever is used.
- An address that is not loopback needs `api_keys`.
- While `listen` is a loopback address and the database is on this host, events may be sent to loopback. Setting `allow_private_networks`, to whatever value, opens
  exactly what it says: behind a reverse proxy on the same host, set it to `false`.
- `timeout_seconds` may be longer than `lease_seconds`: leases are renewed while a request is under way.
";

/// The text of `posthaste.example.toml`.
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
    let also = setting.env_also.map(|also| format!(" or {also}")).unwrap_or_default();
    let value = setting.example_in_file();
    format!(
        "# {help}.\n# Must be: {rule}.\n# Left out: {default}.\n# In the environment: {env}{also}\n# {name} = {value}\n"
    )
}

/// The text of `docs/configuration.md`.
pub fn reference() -> String {
    let mut text = REFERENCE_HEAD.to_owned();
    for (section, _) in by_section() {
        let _ = write!(text, "\n## {section}\n\n{}", reference_table(section));
    }
    text + REFERENCE_TAIL
}

/// The settings of a section as a Markdown table.
pub fn reference_table(section: Section) -> String {
    let mut text =
        "| setting | what it does | must be | left out | environment |\n|---|---|---|---|---|\n".to_owned();
    for setting in SETTINGS.into_iter().filter(|setting| setting.section == section) {
        let Setting { name, env, default, rule, help, .. } = setting;
        let also = setting.env_also.map(|also| format!(", `{also}`")).unwrap_or_default();
        let _ = writeln!(text, "| `{name}` | {help} | {rule} | {default} | `{env}`{also} |");
    }
    text
}

fn by_section() -> Vec<(Section, Vec<&'static Setting>)> {
    let chunks = SETTINGS.chunk_by(|a, b| a.section == b.section);
    chunks.map(|settings| (settings[0].section, settings.to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::file::FILE_DEFAULT;
    use super::*;

    #[test]
    fn the_documents_name_the_file_that_is_looked_for() {
        assert!(example_file().contains(FILE_DEFAULT) && reference().contains(FILE_DEFAULT));
    }

    #[test]
    fn a_table_has_no_cell_that_ends_early() {
        for (section, settings) in by_section() {
            let table = reference_table(section);
            assert_eq!(table.lines().count(), 2 + settings.len());
            assert!(table.lines().all(|line| line.matches('|').count() == 6), "{table}");
        }
    }
}
