//! Test harness: isolated sandboxes, processes of the built binary in them, and receivers on loopback.

mod event;
mod http;
mod output;
mod process;
mod receiver;
mod sandbox;
mod service;
mod subscriber;
mod wait;

pub(crate) use event::Event;
pub(crate) use http::{HttpResponse, send_request};
pub(crate) use process::ProcessExit;
pub(crate) use receiver::{ReceivedRequest, Receiver, Reply};
pub(crate) use sandbox::{SECRET, Sandbox, Store};
pub(crate) use service::{DLQ, EVENTS, Service};
pub(crate) use wait::{RealInstant, wait_until};

/// An address on which no process listens. The kernel never assigns port 1 to a listener on port 0.
pub(crate) const CLOSED_ADDRESS: &str = "127.0.0.1:1";

/// Declares a test on SQLite and one on PostgreSQL for each case. A case is a function that takes a [`Sandbox`]. The tests
/// are in one module per store and keep the name of the function.
macro_rules! on_each_store {
    ($($case:ident,)+) => {
        on_each_store! { @on on_sqlite Sqlite $($case,)+ }
        on_each_store! { @on on_postgres Postgres $($case,)+ }
    };
    (@on $module:ident $store:ident $($case:ident,)+) => {
        mod $module {
            $(#[test]
            fn $case() {
                super::$case($crate::harness::Sandbox::new($crate::harness::Store::$store));
            })+
        }
    };
}
