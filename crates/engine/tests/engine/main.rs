//! The engine on the memory store, under paused time.

mod activity;
mod circuits;
mod delivery;
mod direct;
mod disabled;
mod dispatch;
mod drain;
mod expire;
mod fixture;
mod heartbeat;
mod logs;
mod observe;
mod operations;
mod outages;
mod payload_bytes;
mod payload_reads;
mod profiles;
mod publish;
mod refused_results;
mod shortage;
mod signing;
mod stalls;
mod store_time;
