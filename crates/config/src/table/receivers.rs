//! Settings of the way to receivers: what is signed, and what may be dialled.

use super::{Fallback, Form, PLAIN, Secrecy, Section, Setting};

pub(crate) static SIGNING_SECRET: Setting = Setting {
    name: "signing_secret",
    env: "POSTHASTE_SIGNING_SECRET",
    flag: "--signing-secret",
    section: Section::Receivers,
    form: Form::TextList,
    default: Fallback::Unset {
        then: "made at the first start and kept in the store",
        example: "whsec_REPLACE_ME",
    },
    rule: "whsec_ and the base64 of 24 to 64 bytes; up to 16 of them separated by commas, newest first",
    help: "What requests are signed with; with several, receivers accept any while secrets are rotated",
    secrecy: Secrecy::Secret,
    ..PLAIN
};

pub(crate) static ALLOW_PRIVATE_NETWORKS: Setting = Setting {
    name: "allow_private_networks",
    env: "POSTHASTE_ALLOW_PRIVATE_NETWORKS",
    flag: "--allow-private-networks",
    section: Section::Receivers,
    form: Form::SwitchOrTextList,
    default: Fallback::Computed {
        usual: "127.0.0.0/8,::1/128",
        otherwise: "false if listen is not a loopback address, or the database is on another host",
    },
    rule: "true, false, or networks and addresses separated by commas, such as 10.0.0.0/8,192.168.1.7",
    help: "Networks that events may be sent to although they are not public; exactly what is written, so that false closes loopback too",
    ..PLAIN
};

pub(crate) static CA_FILE: Setting = Setting {
    name: "ca_file",
    env: "POSTHASTE_CA_FILE",
    flag: "--ca-file",
    section: Section::Receivers,
    default: Fallback::Unset {
        then: "none, and the system's authorities alone are trusted",
        example: "/etc/ssl/own-authority.pem",
    },
    rule: "the path of a PEM file",
    help: "Authorities that are trusted beside the system's",
    ..PLAIN
};

pub(crate) static EGRESS_PROXY: Setting = Setting {
    name: "egress_proxy",
    env: "POSTHASTE_EGRESS_PROXY",
    flag: "--egress-proxy",
    section: Section::Receivers,
    default: Fallback::Unset {
        then: "none, and receivers are dialled directly",
        example: "http://proxy.example:3128",
    },
    rule: "http://host:port or socks5://host:port, with user:password@ where it is needed",
    help: "The proxy that every request leaves through; httph and socks5h let it look names up itself",
    secrecy: Secrecy::Credentials,
    ..PLAIN
};

pub(crate) static DNS: Setting = Setting {
    name: "dns",
    env: "POSTHASTE_DNS",
    flag: "--dns",
    section: Section::Receivers,
    default: Fallback::Text("own"),
    rule: "own or system",
    help: "Who looks names up: Posthaste itself, or the operating system",
    ..PLAIN
};
