//! What a test acts on: a home for processes, the processes, and receivers for what they send.

mod event;
mod follower;
mod home;
mod http;
mod output;
mod process;
mod receiver;
mod service;
mod watched;

pub(crate) use event::Event;
pub(crate) use home::{Home, SECRET, Store};
pub(crate) use http::{Answer, ask};
pub(crate) use process::Ended;
pub(crate) use receiver::{Received, Receiver, Reply};
pub(crate) use service::{DLQ, EVENTS, Service};
pub(crate) use watched::{Moment, until};

/// Where nothing listens: a port that is never given to whoever asks for any.
pub(crate) const NOBODY: &str = "127.0.0.1:1";

/// One test on each store for each case, a function that takes a [`Home`]. The store is the module and not the name.
macro_rules! on_each_store {
    ($($case:ident,)+) => {
        on_each_store! { @on on_sqlite Sqlite $($case,)+ }
        on_each_store! { @on on_postgres Postgres $($case,)+ }
    };
    (@on $module:ident $store:ident $($case:ident,)+) => {
        mod $module {
            $(#[test]
            fn $case() {
                super::$case($crate::stage::Home::on($crate::stage::Store::$store));
            })+
        }
    };
}
