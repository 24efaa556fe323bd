//! The engine on the memory store, under paused time.

mod delivery;
mod dispatch;
mod expire;
mod fixture;
mod heartbeat;
mod logs;
mod observe;
mod payload_bytes;
mod publish;
mod refused_results;
mod shortage;
mod signing;
mod store_time;
