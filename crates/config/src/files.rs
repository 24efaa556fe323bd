//! Whether the files that values name can be used.

use posthaste_sender::InvalidOptions;

use super::database::DatabaseUrl;
use super::reading::Reading;
use super::table::receivers::CA_FILE;
use super::table::service::DATABASE_URL;
use super::typed::Config;

pub(super) fn check(reading: &mut Reading, config: &Config) {
    if let Some(file) = &config.ca_file
        && let Err(InvalidOptions::Certificates { reason, .. }) = posthaste::check_ca_file(file)
    {
        reading.invalid(&CA_FILE, format!("it cannot be used: {reason}"));
    }
    check_store(reading, config);
}

pub(super) fn check_store(reading: &mut Reading, config: &Config) {
    if let DatabaseUrl::Postgres(url) = &config.database
        && let Err(error) = posthaste::Database::postgres(url.reveal())
    {
        reading.invalid(&DATABASE_URL, error.to_string());
    }
}
