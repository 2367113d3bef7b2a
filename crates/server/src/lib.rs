//! The HTTP server: every dialect on one port, over models that are loaded as they are asked for.
//!
//! `wire` reads and writes the dialects, and the library `strata` runs the models; here are sockets, access and the life
//! of models. [`Models`] says where models come from.
#![forbid(unsafe_code)]

mod access;
mod accounts;
mod body;
mod call;
mod embed;
mod encoding;
mod generate;
mod head_scan;
mod http;
mod image_urls;
mod kv_events;
mod lessons;
mod library;
mod listen;
#[cfg(unix)]
mod local_socket;
mod log;
mod manager;
mod metrics;
mod models;
mod observation;
mod owner_names;
mod page;
mod places;
mod preparation;
mod progress;
mod pulse;
mod relay;
mod request_body;
mod served_model;
mod sessions;
mod slot_files;
mod socket;
mod state;
mod stored;
mod tls;
mod trace;
mod transcribe;
mod write_beat;

pub use access::{Access, Key};
pub use image_urls::FetchImages;
pub use kv_events::KvEvents;
pub use library::{Library, OnProgress, Receiving};
pub use listen::{Bound, Door};
#[cfg(unix)]
pub use local_socket::LocalSocket;
pub use log::{Log, LogFormat, LogLevel};
pub use models::{Listening, Models};
pub use relay::{Relay, ReplicaUrl, ReplicaUrlError};
pub use sessions::SessionSettings;
pub use slot_files::SlotFolder;
pub use state::Settings;
pub use strata_wire::budgets::Budgets;
pub use tls::{Tls, TlsError};
pub use trace::{Collector, CollectorError};
