//! The server whose checks `posthaste doctor` prints, and how it is found.

use std::time::Duration;

use posthaste_api::Finding;
use posthaste_config::Config;
use serde::Deserialize;

use crate::cli::DoctorArgs;
use crate::client::{ApiClient, ClientError, ServerUrl};
use crate::terminal::escape_line;
use crate::timers;

/// Time within which a server at the configured address must answer to be found.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// The diagnosis of a server, with the process that made it.
pub(crate) struct ServerDiagnosis {
    pub(crate) url: String,
    pub(crate) version: String,
    pub(crate) worker_id: String,
    pub(crate) process_id: u32,
    pub(super) findings: Vec<Finding>,
}

/// What answers at the configured address.
pub(crate) enum Probed {
    Server(ServerDiagnosis),
    /// A server that does not let this command read its diagnosis, and why.
    Refused {
        url: String,
        reason: ClientError,
    },
    /// No server that this command could ask.
    None,
}

#[derive(Deserialize)]
struct DiagnosisResponse {
    version: String,
    worker_id: String,
    process_id: u32,
    findings: Vec<Finding>,
}

impl ServerDiagnosis {
    /// Asks the server that `--server` or its variable names, or else the one at the configured address.
    pub(super) async fn request(args: &DoctorArgs, config: Option<&Config>) -> Result<Self, ClientError> {
        let url = match (args.server_url(), config) {
            (Some(url), _) => ServerUrl::parse(&url)?,
            (None, Some(config)) => ServerUrl::listening_at(config.listen),
            (None, None) => {
                return Err(ClientError::InvalidServerUrl {
                    text: String::new(),
                    reason: "the configuration is not valid, so the server's address is not known".to_owned(),
                });
            }
        };
        Self::fetch(&ApiClient::new(url.clone(), args.key().as_deref())?, &url).await
    }

    async fn fetch(client: &ApiClient, url: &ServerUrl) -> Result<Self, ClientError> {
        let response: DiagnosisResponse = client.get(&["doctor"], &[]).await?.parse()?;
        let finding =
            |found: Finding| Finding::new(escape_line(&found.check), found.verdict, escape_line(&found.text));
        Ok(Self {
            url: url.to_string(),
            version: escape_line(&response.version),
            worker_id: escape_line(&response.worker_id),
            process_id: response.process_id,
            findings: response.findings.into_iter().map(finding).collect(),
        })
    }

    /// Describes the process that made the diagnosis, and a version that differs from this command's.
    pub(crate) fn describe(&self) -> String {
        let Self { url, version, worker_id, process_id, .. } = self;
        let own = env!("CARGO_PKG_VERSION");
        let other = if version == own { String::new() } else { format!("; this command is {own}") };
        format!("{url} (posthaste {version}, worker {worker_id}, process {process_id}{other})")
    }
}

/// Asks the server at the configured address, if one answers there.
pub(crate) async fn probe(config: &Config, key: Option<&str>) -> Probed {
    // No client can connect to port 0: such a server chooses its port at its start.
    if config.listen.port() == 0 {
        return Probed::None;
    }
    let url = ServerUrl::listening_at(config.listen);
    let Ok(client) = ApiClient::new(url.clone(), key) else { return Probed::None };
    let answer = timers::with_timeout(PROBE_TIMEOUT, client.get(&["whoami"], &[])).await;
    let refused = |reason| Probed::Refused { url: url.to_string(), reason };
    match answer {
        Some(Ok(_)) => match ServerDiagnosis::fetch(&client, &url).await {
            Ok(diagnosis) => Probed::Server(diagnosis),
            Err(reason) => refused(reason),
        },
        Some(Err(reason @ ClientError::Rejected { .. })) => refused(reason),
        _ => Probed::None,
    }
}
