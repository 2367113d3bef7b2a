//! What all connections share.

use crate::access::{Access, Client};
use crate::log::Log;
use crate::manager::Manager;
use crate::metrics::HttpCounts;
use crate::observation::Observer;
use crate::slot_files::SlotFolder;
use crate::stored::StoredObjects;
use crate::trace::{Collector, Exporter};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use strata_wire::{AnswerWriter, Stamp, StampSource};

/// How a server works.
#[derive(Debug)]
pub struct Settings {
    /// Who may call.
    pub access: Access,
    /// Bytes of a request's body at most.
    pub max_body: usize,
    /// Connections at most.
    pub max_connections: usize,
    /// How long a client may take to send its request's head, and then its body.
    pub read_timeout: Duration,
    /// How long running requests get to end when the server is told to stop.
    pub drain: Duration,
    /// Where lines about requests go.
    pub log: Log,
    /// Where traces go, if anywhere.
    pub traces: Option<Collector>,
    /// Whether requests for unknown models are answered by the first one. Ollama's clients still learn that there is none.
    pub any_model: bool,
    /// A folder in which responses, chats and conversations outlive the server; they are in memory only if not given.
    pub stored: Option<PathBuf>,
    /// A folder for saved slots, if clients may save them.
    pub slots: Option<SlotFolder>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            access: Access::default(),
            max_body: 32 << 20,
            max_connections: 1024,
            read_timeout: Duration::from_secs(30),
            drain: Duration::from_secs(30),
            log: Log::default(),
            traces: None,
            any_model: false,
            stored: None,
            slots: None,
        }
    }
}

/// What all connections share.
pub(crate) struct Server {
    pub(crate) settings: Settings,
    pub(crate) manager: Arc<Manager>,
    pub(crate) counts: HttpCounts,
    pub(crate) observer: Arc<Observer>,
    pub(crate) started: Instant,
    draining: AtomicBool,
    stored: Mutex<StoredObjects>,
    pub(crate) stamps: StampSource,
}

impl Server {
    pub(crate) fn new(mut settings: Settings, manager: Arc<Manager>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let seed = now.map_or(0, |now| now.as_nanos() as u64) ^ u64::from(std::process::id()) << 32;
        let observer = Observer {
            log: std::mem::take(&mut settings.log),
            traces: settings.traces.take().map(Exporter::new),
        };
        let stored = settings.stored.clone();
        Self {
            settings,
            manager,
            observer: Arc::new(observer),
            counts: HttpCounts::default(),
            started: Instant::now(),
            draining: AtomicBool::new(false),
            stored: Mutex::new(StoredObjects::new(stored)),
            stamps: StampSource::new(seed),
        }
    }

    /// No new requests from here on.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn stamp(&self) -> Stamp {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.stamps.stamp(now.unwrap_or_default())
    }

    pub(crate) fn stored(&self) -> MutexGuard<'_, StoredObjects> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a finished answer that its client wants to refer to.
    pub(crate) fn keep(&self, client: &Client, answer: &mut dyn AnswerWriter) {
        if let Some(kept) = answer.kept() {
            self.stored().keep(&client.owner(), kept);
        }
    }
}
