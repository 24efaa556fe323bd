//! The engine on the memory store, under paused time.

mod contended;
mod delivery;
mod dispatch;
mod enqueue;
mod heartbeat;
mod logs;
mod observe;
mod publish;
mod stage;
