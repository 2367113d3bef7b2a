//! A thread with an engine: requests come in by a channel, each one's events go out by its own.

use crate::adapters::{Adapters, Known};
use crate::models::{Grammars, Models, Opened};
use crate::slots::{Slots, Text};
use crate::turn::Turns;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use strata_chat::{Fault, ModelProfile};
use strata_engine::{Counters, Engine, Event, EventKind, Request, RequestId, SubmitError};
use tokio::sync::{mpsc as channel, oneshot};

/// How often an idle engine's numbers are brought up to date.
const IDLE: Duration = Duration::from_millis(200);

/// What a thread is asked to do.
enum Command {
    Submit {
        request: Box<Request>,
        /// Adapters by number, with their strength.
        adapters: Vec<(usize, f32)>,
        reply: oneshot::Sender<Result<Running, SubmitError>>,
    },
    Cancel(RequestId),
    /// Something to be done to a slot.
    Slot(Box<SlotWork>),
    Stop,
}

type SlotWork = dyn FnOnce(&mut Slots, &mut Engine) + Send;

/// A model at work. Clones lead to the same one.
#[derive(Clone)]
pub(crate) struct Worker {
    commands: Sender<Command>,
    /// What requests see of the model.
    pub(crate) profile: Arc<ModelProfile>,
    pub(crate) grammars: Arc<dyn Grammars>,
    pub(crate) adapters: Arc<Adapters>,
    counters: Arc<Mutex<Counters>>,
    slots: Arc<Mutex<Slots>>,
}

/// A request that the engine has taken. Dropping it cancels the request.
pub(crate) struct Running {
    id: RequestId,
    events: channel::UnboundedReceiver<Event>,
    /// Gives an error once the last event has been sent.
    over: oneshot::Receiver<Infallible>,
    commands: Sender<Command>,
    ended: bool,
}

impl Running {
    /// The next event; `None` after the last one, or if the engine is gone.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        let event = self.events.recv().await;
        self.ended |= event.is_none();
        event
    }

    /// The next event, if it has happened already.
    pub(crate) fn ready(&mut self) -> Option<Event> {
        self.events.try_recv().ok()
    }

    /// Waits until nothing more happens than what can be read at once.
    pub(crate) async fn over(&mut self) {
        if !self.over.is_terminated() {
            let _ = (&mut self.over).await;
        }
    }

    /// The request is known to be over.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            // The engine may be gone already, with all its requests.
            let _ = self.commands.send(Command::Cancel(self.id));
        }
    }
}

impl Worker {
    /// Starts a thread that loads a model and works with it until it is stopped. `ended` is called at its end.
    pub(crate) fn start(
        models: Arc<dyn Models>,
        name: String,
        turns: Arc<Turns>,
        ended: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<oneshot::Receiver<Result<Self, Fault>>> {
        let (ready, loaded) = oneshot::channel();
        let body = move || {
            let mut ready = Some(ready);
            let result = models.open(&name, &mut |mut opened| {
                let adapters = std::mem::take(&mut opened.adapters);
                let adapters = Arc::new(Adapters::new(adapters));
                let (commands, inbox) = mpsc::channel();
                let worker = Self {
                    commands: commands.clone(),
                    profile: Arc::clone(&opened.profile),
                    grammars: Arc::clone(&opened.grammars),
                    adapters: Arc::clone(&adapters),
                    counters: Arc::default(),
                    slots: Arc::new(Mutex::new(Slots::new(
                        opened.options.requests,
                        opened.profile.context,
                    ))),
                };
                let (counters, slots) = (Arc::clone(&worker.counters), Arc::clone(&worker.slots));
                if let Some(ready) = ready.take() {
                    // Whoever asked may have gone; the model serves the next one.
                    let _ = ready.send(Ok(worker));
                }
                let link = (inbox, commands);
                let shared = Shared {
                    adapters: &adapters,
                    turns: &turns,
                    counters: &counters,
                    slots: &slots,
                };
                work(opened, link, shared);
            });
            if let (Err(fault), Some(ready)) = (result, ready) {
                let _ = ready.send(Err(fault));
            }
            ended();
        };
        std::thread::Builder::new()
            .name("engine".into())
            .spawn(body)?;
        Ok(loaded)
    }

    /// Hands a request to the engine.
    pub(crate) async fn submit(
        &self,
        request: Request,
        adapters: &[(usize, f32)],
    ) -> Option<Result<Running, SubmitError>> {
        let (reply, taken) = oneshot::channel();
        let command = Command::Submit {
            request: Box::new(request),
            adapters: adapters.to_vec(),
            reply,
        };
        self.commands.send(command).ok()?;
        taken.await.ok()
    }

    /// The engine's numbers, as of its latest step.
    pub(crate) fn counters(&self) -> Counters {
        let counters = self.counters.lock();
        counters.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The slots, with what is in them.
    pub(crate) fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something to a slot between two steps; `None` if the engine is gone.
    pub(crate) async fn with_slot<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Slots, &mut Engine) -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, done) = oneshot::channel();
        let act = move |slots: &mut Slots, engine: &mut Engine| {
            let _ = reply.send(act(slots, engine));
        };
        self.commands.send(Command::Slot(Box::new(act))).ok()?;
        done.await.ok()
    }

    /// Ends the thread once it has read what was sent before.
    pub(crate) fn stop(&self) {
        let _ = self.commands.send(Command::Stop);
    }
}

type Clients = HashMap<RequestId, Listener>;

/// Who hears of a request.
struct Listener {
    events: channel::UnboundedSender<Event>,
    /// Answers that have not ended.
    open: usize,
    /// Dropped at the end.
    _goes_on: oneshot::Sender<Infallible>,
}

/// What a thread shares with whoever asks.
#[derive(Copy, Clone)]
struct Shared<'s> {
    adapters: &'s Adapters,
    turns: &'s Turns,
    counters: &'s Mutex<Counters>,
    slots: &'s Mutex<Slots>,
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn work(
    opened: Opened,
    (inbox, commands): (Receiver<Command>, Sender<Command>),
    shared: Shared<'_>,
) {
    let options = opened.options;
    let tokenizer = Arc::clone(&opened.profile.tokenizer);
    let mut engine = Engine::new(opened.executor, tokenizer, options).with_clock(opened.clock);
    if let Some(digest) = opened.digest {
        engine = engine.with_digest(digest);
    }
    if let Some((store, digest)) = opened.store {
        engine = engine.with_store(store, digest);
    }
    let mut clients = Clients::new();
    let mut known = Known::default();
    let mut gone = Vec::new();
    loop {
        loop {
            let command = if engine.is_idle() {
                inbox.recv_timeout(IDLE)
            } else {
                inbox.try_recv().map_err(|error| match error {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                })
            };
            match command {
                Ok(Command::Submit {
                    mut request,
                    adapters: asked,
                    reply,
                }) => {
                    let chosen = shared.adapters.choose(&mut engine, &mut known, &asked);
                    let taken = chosen.and_then(|adapter| {
                        request.adapter = adapter;
                        let label = shared.adapters.label(&known, adapter);
                        let text = Text::of(&request, label);
                        let open = request.choices.wanted();
                        Ok((engine.submit(*request)?, text, open))
                    });
                    let taken = taken.map(|(id, text, open)| {
                        if let Some(text) = text {
                            locked(shared.slots).expect(id, text);
                        }
                        let (events, heard) = channel::unbounded_channel();
                        let (goes_on, over) = oneshot::channel();
                        let listener = Listener {
                            events,
                            open,
                            _goes_on: goes_on,
                        };
                        clients.insert(id, listener);
                        Running {
                            id,
                            events: heard,
                            over,
                            commands: commands.clone(),
                            ended: false,
                        }
                    });
                    // A client that has gone drops its request, which cancels it.
                    drop(reply.send(taken));
                }
                Ok(Command::Cancel(id)) => gone.push(id),
                Ok(Command::Slot(act)) => act(&mut locked(shared.slots), &mut engine),
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    engine.persist();
                    return;
                }
                Err(RecvTimeoutError::Timeout) => break,
            }
            leave(&mut gone, &mut engine, &mut clients, shared);
        }
        if !engine.is_idle() {
            let slots = shared.slots;
            shared.turns.take(|| {
                engine.step(&mut |event| {
                    locked(slots).hear(&event);
                    tell(&mut clients, &mut gone, event);
                });
            });
            leave(&mut gone, &mut engine, &mut clients, shared);
        }
        locked(shared.counters).clone_from(engine.counters());
    }
}

/// Ends the work for clients that have gone.
fn leave(
    gone: &mut Vec<RequestId>,
    engine: &mut Engine,
    clients: &mut Clients,
    shared: Shared<'_>,
) {
    for id in gone.drain(..) {
        engine.cancel(id);
        clients.remove(&id);
        locked(shared.slots).end(id);
    }
}

fn tell(clients: &mut Clients, gone: &mut Vec<RequestId>, event: Event) {
    let id = event.request;
    let Some(client) = clients.get_mut(&id) else {
        return;
    };
    match event.kind {
        EventKind::Finished { .. } => client.open = client.open.saturating_sub(1),
        EventKind::Failed(_) => client.open = 0,
        _ => {}
    }
    let (over, sent) = (client.open == 0, client.events.send(event));
    if over {
        clients.remove(&id);
    } else if sent.is_err() {
        gone.push(id);
    }
}
