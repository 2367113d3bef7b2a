//! What the prefix caches of models keep, told as vLLM tells it: MessagePack in messages of ZeroMQ. Routers that know it
//! send a request to the server that has most of its prompt.
//!
//! A message has three frames: `kv@NAME@MODEL`, a number of 8 bytes that grows by one, and
//! `[seconds, [event, …], rank]`.

mod msgpack;
mod zmtp;

use crate::log::{Log, LogLevel};
use msgpack::Packer;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use strata_engine::PageEvent;
use strata_model::PAGE;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, broadcast};
use zmtp::{Message, publish};

/// Messages that wait for a slow subscriber, which misses older ones.
const WAITING: usize = 1024;
/// Subscribers at a time.
const SUBSCRIBERS: usize = 64;
/// Pause before a subscriber is called again.
const AGAIN: Duration = Duration::from_secs(1);

/// Publishes what caches keep.
#[derive(Clone, Debug)]
pub struct KvEvents(Arc<Publisher>);

#[derive(Debug)]
struct Publisher {
    /// What this server is called in topics.
    name: String,
    messages: broadcast::Sender<Message>,
    sequence: AtomicU64,
    /// So that a client's number tells nothing of its key.
    salt: RandomState,
    listener: Mutex<Option<TcpListener>>,
    /// A subscriber that is called, instead of those that call.
    subscriber: Option<String>,
}

impl KvEvents {
    /// Takes a port at which subscribers call. `name` is what this server is called in topics.
    pub fn listen(address: SocketAddr, name: String) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self::new(name, Some(listener), None))
    }

    /// Calls a subscriber at `HOST:PORT`, again and again if it is not there.
    pub fn connect(subscriber: String, name: String) -> Self {
        Self::new(name, None, Some(subscriber))
    }

    fn new(name: String, listener: Option<TcpListener>, subscriber: Option<String>) -> Self {
        Self(Arc::new(Publisher {
            name,
            messages: broadcast::Sender::new(WAITING),
            sequence: AtomicU64::new(0),
            salt: RandomState::new(),
            listener: Mutex::new(listener),
            subscriber,
        }))
    }

    /// Publishes what happened to a model's pages.
    pub(crate) fn tell(&self, model: &str, events: &[PageEvent]) {
        let mut packer = Packer::default();
        packer.array(events.len());
        for event in events {
            self.pack(event, &mut packer);
        }
        self.send(model, &packer.0);
    }

    /// Publishes that nothing of a model is kept: it was loaded, or is gone.
    pub(crate) fn cleared(&self, model: &str) {
        let mut packer = Packer::default();
        packer.array(1);
        packer.array(1);
        packer.text("AllBlocksCleared");
        self.send(model, &packer.0);
    }

    fn pack(&self, event: &PageEvent, packer: &mut Packer) {
        match event {
            PageEvent::Removed { hash } => {
                packer.array(3);
                packer.text("BlockRemoved");
                packer.array(1);
                packer.number(*hash);
                packer.text("cpu");
            }
            PageEvent::Stored {
                hash,
                parent,
                tokens,
                client,
                adapter,
            } => {
                packer.array(9);
                packer.text("BlockStored");
                packer.array(1);
                packer.number(*hash);
                match parent {
                    Some(parent) => packer.number(*parent),
                    None => packer.nil(),
                }
                packer.array(tokens.len());
                tokens
                    .iter()
                    .for_each(|token| packer.number(u64::from(*token)));
                packer.number(PAGE as u64);
                match adapter {
                    Some(adapter) => packer.number(adapter.0),
                    None => packer.nil(),
                }
                packer.text("cpu");
                packer.nil();
                // A client finds only its own pages; those without a key share theirs.
                packer.array(1);
                if parent.is_none() && client.0 != 0 {
                    packer.array(1);
                    packer.text(&format!("{:016x}", self.0.salt.hash_one(client.0)));
                } else {
                    packer.nil();
                }
            }
        }
    }

    fn send(&self, model: &str, events: &[u8]) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut packer = Packer::default();
        packer.array(3);
        packer.float(now.unwrap_or_default().as_secs_f64());
        packer.0.extend_from_slice(events);
        packer.number(0);
        let number = self.0.sequence.fetch_add(1, Ordering::Relaxed);
        let topic = format!("kv@{}@{model}", self.0.name);
        let message = [topic.into_bytes(), number.to_be_bytes().to_vec(), packer.0];
        // Nobody may listen.
        let _ = self.0.messages.send(Message::from(message));
    }

    /// Looks after subscribers until it is dropped.
    pub(crate) async fn run(&self, log: &Log) {
        if let Some(subscriber) = &self.0.subscriber {
            self.call(subscriber, log).await;
        }
        let listener = self.0.listener.lock();
        let listener = listener.unwrap_or_else(PoisonError::into_inner).take();
        let Some(Ok(listener)) = listener.map(tokio::net::TcpListener::from_std) else {
            return;
        };
        let places = Arc::new(Semaphore::new(SUBSCRIBERS));
        let mut subscribers = tokio::task::JoinSet::new();
        loop {
            while subscribers.try_join_next().is_some() {}
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                continue;
            };
            let _ = stream.set_nodelay(true);
            let messages = self.0.messages.subscribe();
            subscribers.spawn(async move {
                let _ = publish(stream, messages).await;
                drop(place);
            });
        }
    }

    async fn call(&self, subscriber: &str, log: &Log) {
        let mut reaches = true;
        loop {
            let messages = self.0.messages.subscribe();
            let ended = match TcpStream::connect(subscriber).await {
                Ok(stream) => {
                    let _ = stream.set_nodelay(true);
                    reaches = true;
                    publish(stream, messages).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = ended
                && std::mem::replace(&mut reaches, false)
            {
                let pairs = [
                    ("subscriber", subscriber.into()),
                    ("problem", error.to_string().into()),
                ];
                log.say(LogLevel::Warn, "cache events are not heard", &pairs);
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}
