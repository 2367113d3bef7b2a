//! What all connections share.

use crate::access::{Access, Client};
use crate::accounts::Accounts;
use crate::image_urls::{FetchImages, FetchPlaces};
use crate::kv_events::KvEvents;
use crate::log::Log;
use crate::manager::Manager;
use crate::metrics::HttpCounts;
use crate::observation::Observer;
use crate::places::Places;
use crate::preparation::PreparationPool;
use crate::relay::Relay;
use crate::sessions::{SessionSettings, Sessions};
use crate::slot_files::SlotFolder;
use crate::stored::StoredObjects;
use crate::trace::{Collector, Exporter};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use strata_wire::budgets::Budgets;
use strata_wire::{AnswerWriter, Stamp, StampSource};
use tokio::sync::Semaphore;

/// How a server works.
#[derive(Debug)]
pub struct Settings {
    /// Who may call.
    pub access: Access,
    /// What connections, clients and requests may take.
    pub budgets: Budgets,
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
    /// What holds for sessions of this machine's users.
    pub sessions: SessionSettings,
    /// Where it is told what prefix caches keep, if anywhere.
    pub kv_events: Option<KvEvents>,
    /// Who fetches images that requests name by their addresses, if that is allowed.
    pub image_urls: Option<Arc<dyn FetchImages>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            access: Access::default(),
            budgets: Budgets::SERVER,
            drain: Duration::from_secs(30),
            log: Log::default(),
            traces: None,
            any_model: false,
            stored: None,
            slots: None,
            sessions: SessionSettings::default(),
            kv_events: None,
            image_urls: None,
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
    pub(crate) sessions: Sessions,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) stamps: StampSource,
    pub(crate) places: Arc<Places>,
    /// Where requests are made ready.
    pub(crate) preparation: PreparationPool,
    /// Places for large bodies, for requests with grammars, and for writers of uploads.
    pub(crate) large_bodies: Arc<Semaphore>,
    pub(crate) grammars: Semaphore,
    pub(crate) uploads: Semaphore,
    /// Places for requests whose images are fetched.
    pub(crate) fetches: FetchPlaces,
    /// The replicas that answer instead of models of its own.
    pub(crate) relay: Option<Arc<Relay>>,
    /// A place for one lesson.
    pub(crate) lessons: Semaphore,
    requests: AtomicUsize,
    /// Requests that were refused because there were too many.
    pub(crate) crowded: AtomicUsize,
}

/// A request among all others, until it is dropped.
pub(crate) struct Counted(Arc<Server>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Server {
    pub(crate) fn new(mut settings: Settings, manager: Arc<Manager>) -> std::io::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let seed = now.map_or(0, |now| now.as_nanos() as u64) ^ u64::from(std::process::id()) << 32;
        let observer = Observer {
            log: std::mem::take(&mut settings.log),
            traces: settings.traces.take().map(Exporter::new),
        };
        let stored = settings.stored.clone();
        let sessions = Sessions::new(settings.sessions.clone())?;
        let budgets = &settings.budgets;
        Ok(Self {
            places: Places::new(),
            preparation: PreparationPool::new(budgets.preparing_threads)?,
            large_bodies: Arc::new(Semaphore::new(budgets.large_bodies.max(1))),
            grammars: Semaphore::new(budgets.grammar_threads.max(1)),
            uploads: Semaphore::new(budgets.upload_threads.max(1)),
            fetches: FetchPlaces::new(budgets),
            lessons: Semaphore::new(1),
            requests: AtomicUsize::new(0),
            crowded: AtomicUsize::new(0),
            settings,
            manager,
            observer: Arc::new(observer),
            counts: HttpCounts::default(),
            started: Instant::now(),
            draining: AtomicBool::new(false),
            stored: Mutex::new(StoredObjects::new(stored)),
            sessions,
            accounts: Arc::default(),
            stamps: StampSource::new(seed),
            relay: None,
        })
    }

    /// Counts a request in; `None` if there are as many as may be.
    pub(crate) fn count(self: &Arc<Self>) -> Option<Counted> {
        let before = self.requests.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(Arc::clone(self));
        (before < self.settings.budgets.requests).then_some(counted)
    }

    /// Requests at work.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
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
