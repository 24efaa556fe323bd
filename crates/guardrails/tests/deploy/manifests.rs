//! Rules about the compose file and the Kubernetes manifests: rules of Prometheus exist once, an image is named once, policies
//! open ports that exist, and the database gets no keys.

use std::collections::BTreeSet;
use std::{env, fs};

use yaml_rust2::Yaml;

use crate::assert_none;
use crate::files::{File, entries, files_at, parse_yaml, read, read_yaml, workspace};

const RULES: &str = "deploy/prometheus/posthaste.rules.yml";
const PROMETHEUS_RULE: &str = "deploy/kubernetes/monitoring/prometheusrule.yaml";
const MANIFESTS: &str = "deploy/kubernetes";
const COMPOSE: &str = "deploy/compose.yaml";

/// Set to 1, this variable lets a test write the file that it compares.
const UPDATE: &str = "POSTHASTE_UPDATE";

/// Returns the manifest with the rules of Prometheus: the groups of the rules file, indented.
fn prometheus_rule(rules: &str) -> String {
    let groups = rules.split_once("\ngroups:\n").expect("the rules file has groups").1;
    let indented: String = groups
        .lines()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") })
        .collect();
    format!(
        "# The rules of {RULES}, for the Prometheus Operator. A test writes this file; see CONTRIBUTING.md.\n\
         # Add the labels that your Prometheus object selects.\n\
         apiVersion: monitoring.coreos.com/v1\n\
         kind: PrometheusRule\n\
         metadata:\n  name: posthaste\n  labels: {{app.kubernetes.io/name: posthaste}}\n\
         spec:\n  groups:\n{indented}"
    )
}

/// Returns the documents of all manifests, each with the path of its file.
fn manifests() -> Vec<(String, Yaml)> {
    let files = files_at(MANIFESTS).into_iter().filter(File::is_yaml);
    let documents = files.flat_map(|file| {
        let documents = parse_yaml(&file).unwrap_or_else(|error| panic!("{error}"));
        documents.into_iter().map(move |document| (file.path.clone(), document)).collect::<Vec<_>>()
    });
    documents.collect()
}

fn is_kind(document: &Yaml, kind: &str) -> bool {
    document["kind"].as_str() == Some(kind)
}

/// Returns the texts of all entries with this key.
fn texts<'a>(document: &'a Yaml, key: &str) -> Vec<&'a str> {
    let values = entries(document).into_iter().filter(|(found, _)| *found == key);
    values.filter_map(|(_, value)| value.as_str()).collect()
}

#[test]
fn rules_for_the_prometheus_operator_are_those_of_prometheus() {
    let expected = prometheus_rule(&read(RULES));
    if env::var(UPDATE).is_ok_and(|value| value == "1") {
        fs::write(workspace().join(PROMETHEUS_RULE), &expected).expect("the manifest can be written");
    }
    let manifest = read_yaml(PROMETHEUS_RULE);
    assert_eq!(manifest["spec"]["groups"], read_yaml(RULES)["groups"], "{PROMETHEUS_RULE} differs");
    assert!(
        read(PROMETHEUS_RULE) == expected,
        "{PROMETHEUS_RULE} is outdated: {UPDATE}=1 cargo test -p posthaste-guardrails --test deploy writes it"
    );
}

#[test]
fn kustomizations_list_every_manifest_but_the_secret() {
    let mut violations = Vec::new();
    for directory in [MANIFESTS.to_owned(), format!("{MANIFESTS}/monitoring")] {
        let kustomization = read_yaml(&format!("{directory}/kustomization.yaml"));
        let listed = kustomization["resources"].as_vec().expect("a kustomization has resources");
        let listed: BTreeSet<String> =
            listed.iter().filter_map(Yaml::as_str).map(|name| format!("{directory}/{name}")).collect();
        let beside = |file: &File| file.path.rsplit_once('/').is_some_and(|(parent, _)| parent == directory);
        let others = ["kustomization.yaml", "secret.example.yaml", "secret.yaml"];
        let found = files_at(&directory).into_iter().filter(beside).map(|file| file.path);
        let found: BTreeSet<_> =
            found.filter(|path| !others.iter().any(|name| path.ends_with(name))).collect();
        violations
            .extend(listed.symmetric_difference(&found).map(|path| format!("{path}: not listed or missing")));
    }
    assert_none(&violations);
}

#[test]
fn the_image_is_named_in_one_place() {
    let kustomization = read_yaml(&format!("{MANIFESTS}/kustomization.yaml"));
    assert_eq!(kustomization["images"][0]["name"].as_str(), Some("posthaste"));
    assert!(kustomization["images"][0]["newTag"].as_str().is_some());
    for (path, document) in manifests() {
        for image in texts(&document, "image") {
            assert_eq!(image, "posthaste", "{path}: kustomization.yaml replaces only this name");
        }
    }
    let compose = read_yaml(COMPOSE);
    let own = entries(&compose["services"]).into_iter().filter(|(key, _)| *key == "image");
    let own: BTreeSet<_> = own.filter_map(|(_, image)| image.as_str()).collect();
    assert_eq!(own, BTreeSet::from(["${IMAGE:-posthaste}", "postgres:17"]));
}

#[test]
fn policies_and_monitors_name_ports_of_the_pods() {
    let manifests = manifests();
    let deployments = manifests.iter().filter(|(_, document)| is_kind(document, "Deployment"));
    let names = |(_, document): &(String, Yaml)| -> Vec<String> {
        let containers = document["spec"]["template"]["spec"]["containers"].as_vec().cloned();
        let ports =
            containers.unwrap_or_default().into_iter().flat_map(|container| container["ports"].clone());
        ports.filter_map(|port| port["name"].as_str().map(str::to_owned)).collect()
    };
    let ports: BTreeSet<String> = deployments.flat_map(names).collect();
    assert_eq!(ports, BTreeSet::from(["http".to_owned(), "probes".to_owned()]));
    let mut named = 0;
    for (path, document) in &manifests {
        if is_kind(document, "NetworkPolicy") || is_kind(document, "PodMonitor") {
            for port in texts(document, "port") {
                assert!(ports.contains(port), "{path}: no pod has a port {port}");
                named += 1;
            }
        }
    }
    assert!(named >= 3, "only {named} ports were found");
}

/// The pods of Posthaste, by the label of their component.
#[test]
fn policies_restrict_the_traffic_of_every_pod_in_both_directions() {
    let restricted = |component: &str, direction: &str| {
        manifests().iter().filter(|(_, document)| is_kind(document, "NetworkPolicy")).any(|(_, policy)| {
            let labels = &policy["spec"]["podSelector"]["matchLabels"];
            let selected = &labels["app.kubernetes.io/component"];
            let directions = policy["spec"]["policyTypes"].as_vec().cloned().unwrap_or_default();
            (selected.is_badvalue() || selected.as_str() == Some(component))
                && directions.iter().any(|one| one.as_str() == Some(direction))
        })
    };
    for component in ["api", "worker"] {
        for direction in ["Ingress", "Egress"] {
            assert!(restricted(component, direction), "{direction} of {component} pods is not restricted");
        }
    }
}

#[test]
fn the_database_gets_only_its_own_variables() {
    let compose = read_yaml(COMPOSE);
    let postgres = &compose["services"]["postgres"];
    assert!(postgres["env_file"].is_badvalue(), "the file holds API keys");
    let variables = postgres["environment"].as_hash().expect("the database has variables");
    let variables: Vec<_> = variables.keys().filter_map(Yaml::as_str).collect();
    assert_eq!(variables, ["POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DB"]);
}

#[test]
fn a_changed_rule_changes_the_manifest() {
    let manifest = prometheus_rule("# Words.\n\ngroups:\n  - name: a\n\n    rules: []\n");
    assert!(manifest.ends_with("spec:\n  groups:\n    - name: a\n\n      rules: []\n"), "{manifest}");
}
