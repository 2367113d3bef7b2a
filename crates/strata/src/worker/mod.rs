//! A thread with an engine: requests come in by a channel, each one's events go out by a queue of its own.

mod adapters;
mod queue;
mod turns;

use adapters::AdapterIds;
pub use adapters::{Adapters, LoadedAdapter};
pub(crate) use queue::deadline;
pub use queue::{Heard, TimedOut};
use queue::{QueueReader, QueueWriter, queue};
use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use strata_engine::{Counters, Engine, Event, EventKind, Request, RequestId, Standing};
pub use turns::Turns;

/// How often an idle engine's numbers are brought up to date.
const IDLE: Duration = Duration::from_millis(200);

/// Someone who is told what the engine's thread does. Calls come between steps and must be short.
pub trait Monitor: Send {
    /// The engine took a request, with an adapter of this name.
    fn taken(&mut self, id: RequestId, request: &Request, adapter: Option<String>);
    /// Something happened to a request.
    fn event(&mut self, event: &Event);
    /// A request's client has gone.
    fn dropped(&mut self, id: RequestId);
}

/// What the thread is asked to do.
enum Command {
    Submit(Box<Submission>),
    Cancel(u64),
    /// Something to be done to the engine between two steps.
    Act(Box<dyn FnOnce(&mut Engine) + Send>),
    /// Someone wants to know where a request stands.
    Look(u64, Box<dyn FnOnce(Option<Standing>) + Send>),
    Stop,
}

struct Submission {
    ticket: u64,
    /// The request that has to have a token first.
    after: Option<u64>,
    request: Request,
    /// Adapters by number, with their strength.
    adapters: Vec<(usize, f32)>,
    queue: QueueWriter,
}

/// An engine at work on a thread of its own.
pub struct Worker {
    commands: Sender<Command>,
    adapters: Arc<Adapters>,
    counters: Arc<Mutex<Counters>>,
    turns: Arc<Turns>,
    tickets: Mutex<u64>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A request that was handed to the engine. Dropping it cancels the request.
pub struct RequestHandle {
    ticket: u64,
    queue: QueueReader,
    commands: Sender<Command>,
    ended: bool,
}

impl RequestHandle {
    /// Waits for the next event; `None` after the last one, or if the engine is gone.
    pub fn next_blocking(&mut self) -> Option<Heard> {
        let heard = self.queue.next();
        self.ended |= heard.is_none();
        heard
    }

    /// Waits for the next event for `time` at most.
    pub fn next_within(&mut self, time: Duration) -> Result<Option<Heard>, TimedOut> {
        self.next_until(deadline(time))
    }

    pub(crate) fn next_until(&mut self, end: Instant) -> Result<Option<Heard>, TimedOut> {
        let heard = self.queue.next_until(end)?;
        self.ended |= heard.is_none();
        Ok(heard)
    }

    /// The next event, from a future.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Heard>> {
        let heard = self.queue.poll_next(context);
        self.ended |= matches!(heard, Poll::Ready(None));
        heard
    }

    /// The next event, if it has happened already.
    pub fn ready(&mut self) -> Option<Heard> {
        self.queue.try_next()
    }

    /// Ready once nothing more happens than what can be read at once.
    pub fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.queue.poll_closed(context)
    }

    /// A handle that tells where the request stands.
    pub fn probe(&self) -> Probe {
        Probe {
            ticket: self.ticket,
            commands: self.commands.clone(),
        }
    }

    /// The request is known to be over: dropping this cancels nothing.
    pub fn end(&mut self) {
        self.ended = true;
    }
}

impl Drop for RequestHandle {
    fn drop(&mut self) {
        if !self.ended {
            // The engine may be gone already, with all its requests.
            let _ = self.commands.send(Command::Cancel(self.ticket));
        }
    }
}

/// Tells where a request stands, while others wait for its events.
pub struct Probe {
    ticket: u64,
    commands: Sender<Command>,
}

impl Probe {
    /// Hands `done` where the request stands, after the current step; `None` if it is over. Where the engine is gone,
    /// `done` is dropped.
    pub fn look(&self, done: impl FnOnce(Option<Standing>) + Send + 'static) {
        let _ = self
            .commands
            .send(Command::Look(self.ticket, Box::new(done)));
    }
}

/// What a worker is started with.
pub struct Start {
    /// The engine.
    pub engine: Engine,
    /// The adapters that requests can ask for.
    pub adapters: Vec<LoadedAdapter>,
    /// Whose turn it is to compute, shared by the engines of one machine.
    pub turns: Arc<Turns>,
    /// Who is told what happens.
    pub monitor: Option<Box<dyn Monitor>>,
    /// Called on the thread before its first step.
    pub settle: Box<dyn FnOnce() + Send>,
    /// Called on the thread at its end, when the engine is gone.
    pub ended: Box<dyn FnOnce() + Send>,
}

impl Worker {
    /// Starts the thread.
    pub fn start(start: Start) -> std::io::Result<Self> {
        let Start {
            engine,
            adapters,
            turns,
            monitor,
            settle,
            ended,
        } = start;
        let (commands, inbox) = mpsc::channel();
        let (adapters, counters) = (Arc::new(Adapters::new(adapters)), Arc::default());
        let work = Work {
            engine,
            monitor,
            clients: HashMap::new(),
            tickets: HashMap::new(),
            ids: AdapterIds::default(),
            adapters: Arc::clone(&adapters),
            counters: Arc::clone(&counters),
            turns: Arc::clone(&turns),
            gone: Vec::new(),
            events: Vec::new(),
            waiting: Vec::new(),
        };
        let body = move || {
            // Dropped last, and also where the engine panics.
            let _ended = AtEnd(Some(ended));
            let mut work = work;
            settle();
            work.run(&inbox);
        };
        let thread = std::thread::Builder::new()
            .name("engine".into())
            .spawn(body)?;
        Ok(Self {
            commands,
            adapters,
            counters,
            turns,
            tickets: Mutex::new(0),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// The adapters, with their strengths for requests that name none.
    pub fn adapters(&self) -> &Arc<Adapters> {
        &self.adapters
    }

    /// Hands a request to the engine, with adapters by number and strength. What becomes of it is heard later.
    pub fn submit(&self, request: Request, adapters: &[(usize, f32)]) -> RequestHandle {
        self.submit_after(None, request, adapters)
    }

    /// Hands a request to the engine, which takes it when another one has its first token or has ended: before the step
    /// that follows.
    pub fn submit_after(
        &self,
        before: Option<&RequestHandle>,
        request: Request,
        adapters: &[(usize, f32)],
    ) -> RequestHandle {
        let ticket = {
            let mut tickets = locked(&self.tickets);
            *tickets += 1;
            *tickets
        };
        let (writer, reader) = queue();
        let submission = Submission {
            ticket,
            after: before.map(|before| before.ticket),
            request,
            adapters: adapters.to_vec(),
            queue: writer,
        };
        // Where the thread is gone the submission is dropped, which closes the queue.
        let _ = self.commands.send(Command::Submit(Box::new(submission)));
        RequestHandle {
            ticket,
            queue: reader,
            commands: self.commands.clone(),
            ended: false,
        }
    }

    /// The engine's numbers, as of its latest step.
    pub fn counters(&self) -> Counters {
        locked(&self.counters).clone()
    }

    /// Does something to the engine between two steps, and hands its result to `done`. Where the engine is gone, both are
    /// dropped.
    pub fn act<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Engine) -> T + Send + 'static,
        done: impl FnOnce(T) + Send + 'static,
    ) {
        let act = move |engine: &mut Engine| done(act(engine));
        let _ = self.commands.send(Command::Act(Box::new(act)));
    }

    /// Does something that computes: like [`act`](Self::act), in the engine's turn among those of the machine.
    pub fn act_in_turn<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Engine) -> T + Send + 'static,
        done: impl FnOnce(T) + Send + 'static,
    ) {
        let turns = Arc::clone(&self.turns);
        self.act(move |engine| turns.take(|| act(engine)), done);
    }

    /// Does something to the engine between two steps, and waits for it; `None` if the engine is gone.
    pub fn act_blocking<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Engine) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, result) = mpsc::channel();
        self.act(act, move |value| {
            let _ = sender.send(value);
        });
        result.recv().ok()
    }

    /// Ends the thread once it has read what was sent before.
    pub fn stop(&self) {
        let _ = self.commands.send(Command::Stop);
    }
}

/// The weights are gone when this returns, unless the engine's own thread drops it.
impl Drop for Worker {
    fn drop(&mut self) {
        self.stop();
        let thread = locked(&self.thread).take();
        if let Some(thread) = thread.filter(|t| t.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

/// Calls a function when it is dropped.
struct AtEnd(Option<Box<dyn FnOnce() + Send>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end();
        }
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who hears of a request.
struct Client {
    ticket: u64,
    queue: QueueWriter,
    /// Answers that have not ended.
    open: usize,
    /// Whether it has a token.
    answers: bool,
}

/// The thread's own.
struct Work {
    engine: Engine,
    monitor: Option<Box<dyn Monitor>>,
    clients: HashMap<RequestId, Client>,
    tickets: HashMap<u64, RequestId>,
    ids: AdapterIds,
    adapters: Arc<Adapters>,
    counters: Arc<Mutex<Counters>>,
    turns: Arc<Turns>,
    /// Requests whose clients have gone.
    gone: Vec<RequestId>,
    /// What happened in a step, until it is delivered.
    events: Vec<Event>,
    /// Requests that follow others.
    waiting: Vec<Submission>,
}

impl Work {
    fn run(&mut self, inbox: &Receiver<Command>) {
        loop {
            loop {
                let command = if self.engine.is_idle() {
                    inbox.recv_timeout(IDLE)
                } else {
                    inbox.try_recv().map_err(|error| match error {
                        TryRecvError::Empty => RecvTimeoutError::Timeout,
                        TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                    })
                };
                match command {
                    Ok(Command::Submit(submission)) => self.take(*submission),
                    Ok(Command::Cancel(ticket)) => {
                        self.gone.extend(self.tickets.get(&ticket));
                        self.waiting.retain(|waiting| waiting.ticket != ticket);
                    }
                    Ok(Command::Act(act)) => act(&mut self.engine),
                    Ok(Command::Look(ticket, done)) => {
                        let id = self.tickets.get(&ticket);
                        done(id.and_then(|&id| self.engine.standing(id)));
                    }
                    Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => {
                        self.engine.persist();
                        return;
                    }
                    Err(RecvTimeoutError::Timeout) => break,
                }
                self.drop_gone();
            }
            if !self.engine.is_idle() {
                self.step();
                self.drop_gone();
            }
            self.take_followers();
            locked(&self.counters).clone_from(self.engine.counters());
        }
    }

    /// Submits a request, or keeps it until the one that it follows has begun to answer.
    fn take(&mut self, submission: Submission) {
        let follows = |ticket: u64| {
            let mut waiting = self.waiting.iter();
            let client = self
                .tickets
                .get(&ticket)
                .and_then(|id| self.clients.get(id));
            waiting.any(|one| one.ticket == ticket) || client.is_some_and(|client| !client.answers)
        };
        match submission.after {
            Some(ticket) if follows(ticket) => self.waiting.push(submission),
            _ => self.submit(submission),
        }
    }

    /// Submits the requests that wait for none any more.
    fn take_followers(&mut self) {
        for submission in std::mem::take(&mut self.waiting) {
            self.take(submission);
        }
    }

    fn submit(&mut self, submission: Submission) {
        let Submission {
            ticket,
            after: _,
            mut request,
            adapters,
            queue,
        } = submission;
        let chosen = self
            .adapters
            .choose(&mut self.engine, &mut self.ids, &adapters);
        let taken = chosen.and_then(|adapter| {
            request.adapter = adapter;
            let open = request.choices.wanted();
            let kept = self.monitor.is_some().then(|| request.clone());
            Ok((self.engine.submit(request)?, open, kept, adapter))
        });
        match taken {
            Err(error) => {
                queue.push(Heard::Refused(error));
            }
            Ok((id, open, kept, adapter)) => {
                if let (Some(monitor), Some(request)) = (&mut self.monitor, kept) {
                    monitor.taken(id, &request, self.adapters.label(&self.ids, adapter));
                }
                self.tickets.insert(ticket, id);
                let client = Client {
                    ticket,
                    queue,
                    open,
                    answers: false,
                };
                self.clients.insert(id, client);
            }
        }
    }

    /// One step of the engine. Its events are delivered when the counters know them.
    fn step(&mut self) {
        let Self { engine, events, .. } = self;
        self.turns
            .take(|| engine.step(&mut |event| events.push(event)));
        locked(&self.counters).clone_from(self.engine.counters());
        for event in self.events.drain(..) {
            if let Some(monitor) = &mut self.monitor {
                monitor.event(&event);
            }
            let id = event.request;
            let Some(client) = self.clients.get_mut(&id) else {
                continue;
            };
            match event.kind {
                EventKind::Finished { .. } => client.open = client.open.saturating_sub(1),
                EventKind::Failed(_) => client.open = 0,
                EventKind::Token { .. } => client.answers = true,
                _ => {}
            }
            let heard = client.queue.push(Heard::Event(event));
            if client.open == 0 {
                self.tickets.remove(&client.ticket);
                self.clients.remove(&id);
            } else if !heard {
                self.gone.push(id);
            }
        }
    }

    /// Ends the work for clients that have gone.
    fn drop_gone(&mut self) {
        for id in self.gone.drain(..) {
            // One that has ended, or was dropped already, is not there any more.
            let Some(client) = self.clients.remove(&id) else {
                continue;
            };
            self.tickets.remove(&client.ticket);
            self.engine.cancel(id);
            if let Some(monitor) = &mut self.monitor {
                monitor.dropped(id);
            }
        }
    }
}
