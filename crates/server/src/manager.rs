//! The life of models: loaded when asked for, kept while used, dropped when idle or when another needs the memory.

use crate::kv_events::KvEvents;
use crate::models::{Listening, Models};
use crate::served_model::{ServedModel, SharedSlots};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use strata::PeerState;
use strata_chat::{Fault, FaultKind, KeepAlive, LoadedModel, ModelFacts};
use strata_engine::Engine;
use tokio::sync::Notify;

/// How long a request waits for memory that other models hold.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The models that are in memory.
pub(crate) struct Manager {
    models: Arc<dyn Models>,
    keep_alive: KeepAlive,
    entries: Mutex<HashMap<String, Entry>>,
    /// Contexts larger than the usual that models were asked for, as long as they stay loaded.
    grown: Mutex<HashMap<String, usize>>,
    changed: Notify,
    kv_events: Option<KvEvents>,
    this: Weak<Self>,
}

struct Entry {
    facts: ModelFacts,
    bytes: u64,
    state: State,
    users: usize,
    used: Instant,
    keep_alive: KeepAlive,
}

enum State {
    Loading(Arc<LoadProgress>),
    Ready(ServedModel),
    /// Told to stop; gone when its thread has ended. The last handle must not go earlier: it would wait for the thread,
    /// which waits for this list.
    Stopping {
        _served: ServedModel,
    },
    /// Not to be loaded: whoever waits is told why.
    Failed(Fault, Instant),
}

/// Bytes of a model that are loaded, and bytes in all.
#[derive(Debug, Default)]
struct LoadProgress {
    done: AtomicUsize,
    total: AtomicUsize,
}

/// The use of a model. While it is held the model stays.
pub(crate) struct Lease {
    pub(crate) served: ServedModel,
    pub(crate) facts: ModelFacts,
    /// How long this use had to wait for the model.
    pub(crate) waited: Duration,
    manager: Arc<Manager>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut entries = self.manager.entries();
        if let Some(entry) = entries.get_mut(&self.facts.name) {
            entry.users = entry.users.saturating_sub(1);
            entry.used = Instant::now();
        }
        drop(entries);
        self.manager.changed.notify_waiters();
    }
}

impl Manager {
    pub(crate) fn new(
        models: Arc<dyn Models>,
        keep_alive: KeepAlive,
        kv_events: Option<KvEvents>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            models,
            keep_alive,
            entries: Mutex::default(),
            grown: Mutex::default(),
            changed: Notify::new(),
            kv_events,
            this: this.clone(),
        })
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn models(&self) -> &Arc<dyn Models> {
        &self.models
    }

    fn grown(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.grown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A model to use, loaded first where it must be. One whose context is smaller than the one that is asked for is
    /// loaded again with that, once nobody uses it.
    pub(crate) async fn lease(
        &self,
        name: Option<&str>,
        keep_alive: Option<KeepAlive>,
        context: Option<usize>,
    ) -> Result<Lease, Fault> {
        let mut facts = self.models.find(name)?;
        self.grow(&mut facts, context)?;
        let start = Instant::now();
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Whatever happens from here on wakes this request.
            changed.as_mut().enable();
            if let Some(lease) = self.try_lease(&facts, keep_alive, start)? {
                return Ok(lease);
            }
            let left = TIMEOUT.saturating_sub(start.elapsed());
            if tokio::time::timeout(left, changed).await.is_err() {
                return Err(busy(&facts.name));
            }
        }
    }

    /// Sets the context to load a model with, or says why it cannot be so large.
    fn grow(&self, facts: &mut ModelFacts, asked: Option<usize>) -> Result<(), Fault> {
        let mut grown = self.grown();
        let known = grown.get(&facts.name).copied().unwrap_or(facts.context);
        // As with Ollama, no more than the model was trained for.
        let most = match facts.trained_context {
            0 => usize::MAX,
            trained => trained.max(facts.context),
        };
        let asked = asked.unwrap_or(0).min(most);
        if asked > known {
            let bytes = self.models.memory(&facts.name, Some(asked))?;
            let limit = self.models.limit();
            if bytes > limit {
                let name = &facts.name;
                return Err(Fault::bad_request(format_args!(
                    "{name} with a context of {asked} takes {bytes} bytes, and there are {limit}"
                )));
            }
            grown.insert(facts.name.clone(), asked);
        }
        facts.context = known.max(asked);
        Ok(())
    }

    /// The lease, if the model is there. Otherwise it is on its way, or there will be news of the memory.
    fn try_lease(
        &self,
        facts: &ModelFacts,
        keep_alive: Option<KeepAlive>,
        start: Instant,
    ) -> Result<Option<Lease>, Fault> {
        let mut entries = self.entries();
        if let Some(entry) = entries.get_mut(&facts.name) {
            let served = match &entry.state {
                State::Ready(served) => served,
                State::Failed(fault, then) if *then >= start => return Err(fault.clone()),
                // Those who asked before the failure know it; this request tries again.
                State::Failed(..) => {
                    entries.remove(&facts.name);
                    drop(entries);
                    return self.try_lease(facts, keep_alive, start);
                }
                State::Loading(_) | State::Stopping { .. } => return Ok(None),
            };
            // Whoever comes from now on waits for the larger one.
            if entry.facts.context < self.context(facts) {
                if entry.users == 0 {
                    entry.stop();
                }
                return Ok(None);
            }
            entry.users += 1;
            entry.used = Instant::now();
            entry.keep_alive = keep_alive.unwrap_or(self.keep_alive);
            return Ok(Some(Lease {
                served: served.clone(),
                facts: entry.facts.clone(),
                waited: start.elapsed(),
                manager: self.this.upgrade().expect("it is borrowed"),
            }));
        }
        let usual = self.models.find(Some(&facts.name))?.context;
        let facts = &ModelFacts {
            context: self.context(facts),
            ..facts.clone()
        };
        let context = (facts.context > usual).then_some(facts.context);
        let bytes = self.models.memory(&facts.name, context)?;
        if !self.make_room(&mut entries, bytes) {
            return Ok(None);
        }
        let progress = Arc::<LoadProgress>::default();
        entries.insert(
            facts.name.clone(),
            Entry {
                facts: facts.clone(),
                bytes,
                state: State::Loading(Arc::clone(&progress)),
                users: 0,
                used: Instant::now(),
                keep_alive: keep_alive.unwrap_or(self.keep_alive),
            },
        );
        drop(entries);
        self.load(facts, context, progress);
        Ok(None)
    }

    /// The context that a model shall have by now.
    fn context(&self, facts: &ModelFacts) -> usize {
        let grown = self.grown().get(&facts.name).copied();
        grown.unwrap_or(0).max(facts.context)
    }

    /// Whether there is room for so many bytes by now. If not, idle models are told to go, the least used first. One
    /// that would not fit alone is tried all the same: loading it says why it cannot be.
    fn make_room(&self, entries: &mut HashMap<String, Entry>, bytes: u64) -> bool {
        let limit = self.models.limit();
        let held =
            |entries: &HashMap<String, Entry>| entries.values().map(|e| e.bytes).sum::<u64>();
        entries.retain(|_, entry| !matches!(entry.state, State::Failed(..)));
        if entries.is_empty() || held(entries).saturating_add(bytes) <= limit {
            return true;
        }
        let mut going = entries
            .values()
            .filter(|entry| matches!(entry.state, State::Stopping { .. }))
            .map(|entry| entry.bytes)
            .sum::<u64>();
        while held(entries).saturating_sub(going).saturating_add(bytes) > limit {
            let idle = entries
                .values_mut()
                .filter(|entry| entry.users == 0 && matches!(entry.state, State::Ready(_)))
                .min_by_key(|entry| entry.used);
            let Some(idle) = idle else { break };
            going += idle.bytes;
            idle.stop();
            self.grown().remove(&idle.facts.name);
        }
        false
    }

    fn load(&self, facts: &ModelFacts, context: Option<usize>, progress: Arc<LoadProgress>) {
        let this = self.this.upgrade().expect("it is borrowed");
        let name = facts.name.clone();
        let (manager, gone) = (Arc::clone(&this), name.clone());
        let ended = move || {
            let mut entries = manager.entries();
            // One that could not be loaded stays until those who wait for it have been told.
            let served =
                |entry: &Entry| matches!(entry.state, State::Ready(_) | State::Stopping { .. });
            let removed = if entries.get(&gone).is_some_and(served) {
                entries.remove(&gone)
            } else {
                None
            };
            drop(entries);
            if let Some(kv_events) = manager.kv_events.as_ref().filter(|_| removed.is_some()) {
                kv_events.cleared(&gone);
            }
            drop(removed);
            manager.changed.notify_waiters();
        };
        let slots = SharedSlots::new(facts);
        let listening = Listening {
            monitor: Box::new(slots.clone()),
            progress: Box::new(move |done, total| {
                progress.done.store(done, Ordering::Relaxed);
                progress.total.store(total, Ordering::Relaxed);
            }),
            ended: Box::new(ended),
        };
        let (models, asked) = (Arc::clone(&self.models), name.clone());
        let loading = tokio::task::spawn_blocking(move || models.open(&asked, context, listening));
        tokio::spawn(async move {
            let result = loading.await;
            let mut entries = this.entries();
            if let Some(entry) = entries.get_mut(&name) {
                entry.used = Instant::now();
                entry.state = match result {
                    Ok(Ok(model)) => {
                        entry.bytes += model.load_report().extra_bytes;
                        if let Some(kv_events) = this.kv_events.clone() {
                            let told = name.clone();
                            kv_events.cleared(&told);
                            let teller = move |events: Vec<_>| kv_events.tell(&told, &events);
                            let attach = |engine: &mut Engine| engine.tell_pages(Box::new(teller));
                            model.worker().act(attach, |()| {});
                        }
                        State::Ready(ServedModel::new(model, slots))
                    }
                    Ok(Err(fault)) => {
                        this.grown().remove(&name);
                        State::Failed(fault, Instant::now())
                    }
                    Err(_) => {
                        let message = "the thread that loaded the model ended";
                        State::Failed(Fault::new(FaultKind::Internal, message), Instant::now())
                    }
                };
            }
            drop(entries);
            this.changed.notify_waiters();
        });
    }

    /// Drops a model as soon as nobody uses it.
    pub(crate) fn unload(&self, name: &str) {
        if let Some(entry) = self.entries().get_mut(name) {
            entry.keep_alive = KeepAlive::For(Duration::ZERO);
        }
        self.expire();
    }

    /// Drops what is in memory under a name as a client gives it: there is another model now, or none.
    pub(crate) fn forget(&self, name: &str) {
        if let Ok(facts) = self.models.find(Some(name)) {
            self.unload(&facts.name);
        }
    }

    /// Drops the models whose time is over.
    pub(crate) fn expire(&self) {
        for entry in self.entries().values_mut() {
            let KeepAlive::For(keep) = entry.keep_alive else {
                continue;
            };
            let idle = entry.users == 0 && entry.used.elapsed() >= keep;
            if idle && matches!(entry.state, State::Ready(_)) {
                entry.stop();
                self.grown().remove(&entry.facts.name);
            }
        }
    }

    /// How the machines stand that have some of the layers of models in memory.
    pub(crate) fn peers(&self) -> Vec<PeerState> {
        let entries = self.entries();
        let ready = entries.values().filter_map(|entry| match &entry.state {
            State::Ready(served) => Some(served.model.peers()),
            _ => None,
        });
        ready.flatten().collect()
    }

    /// The models in memory, for lists.
    pub(crate) fn loaded(&self) -> Vec<LoadedModel> {
        let entries = self.entries();
        let ready = entries
            .values()
            .filter(|entry| matches!(entry.state, State::Ready(_)));
        let mut list: Vec<_> = ready
            .map(|entry| LoadedModel {
                facts: entry.facts.clone(),
                bytes: entry.bytes,
                expires: entry.expires(),
            })
            .collect();
        list.sort_by(|a, b| a.facts.name.cmp(&b.facts.name));
        list
    }

    /// Bytes loaded and bytes in all of a model that is being loaded, so far as they are known; `None` if it is ready.
    pub(crate) fn loading(&self, name: &str) -> Option<(usize, usize)> {
        match self.entries().get(name).map(|entry| &entry.state) {
            Some(State::Loading(progress)) => Some((
                progress.done.load(Ordering::Relaxed),
                progress.total.load(Ordering::Relaxed),
            )),
            Some(State::Ready(_)) => None,
            _ => Some((0, 0)),
        }
    }

    /// The models at work, with their names.
    pub(crate) fn serving(&self) -> Vec<(String, ServedModel)> {
        let entries = self.entries();
        let mut list: Vec<_> = entries
            .iter()
            .filter_map(|(name, entry)| match &entry.state {
                State::Ready(served) => Some((name.clone(), served.clone())),
                _ => None,
            })
            .collect();
        list.sort_by(|a, b| a.0.cmp(&b.0));
        list
    }

    /// Ends all engines.
    pub(crate) fn stop_all(&self) {
        for entry in self.entries().values_mut() {
            entry.stop();
        }
    }
}

impl Entry {
    fn stop(&mut self) {
        if let State::Ready(served) = &self.state {
            served.stop();
            self.state = State::Stopping {
                _served: served.clone(),
            };
        }
    }

    fn expires(&self) -> Option<u64> {
        let KeepAlive::For(keep) = self.keep_alive else {
            return None;
        };
        let left = keep.saturating_sub(self.used.elapsed());
        let then = SystemTime::now().checked_add(left)?;
        Some(then.duration_since(UNIX_EPOCH).ok()?.as_secs())
    }
}

fn busy(name: &str) -> Fault {
    let kind = FaultKind::Unavailable {
        retry_after: Duration::from_secs(10),
    };
    let message = format!("there is no room for {name}: other models are at work");
    Fault::new(kind, message)
}
