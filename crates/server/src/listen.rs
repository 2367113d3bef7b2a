//! Sockets: connections are taken, bounded in number, and given time to end when the server stops.

use crate::http::handle;
#[cfg(unix)]
use crate::local_socket::LocalSocket;
use crate::log::{Log, LogLevel};
use crate::manager::Manager;
use crate::models::Models;
use crate::places::{Place, Room, Source};
use crate::relay::{NoModels, Relay};
use crate::socket::Socket;
use crate::state::{Server, Settings};
use crate::tls::Tls;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use std::convert::Infallible;
use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use strata_chat::KeepAlive;
use strata_host::lengthen_accept_queue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, mpsc};

/// How often models are looked at for having been idle too long.
const HOUSEKEEPING: Duration = Duration::from_millis(500);

/// How long the last traces get to be sent.
const LAST_TRACES: Duration = Duration::from_secs(2);

/// How long a connection has that only `/health` has room for.
const HEALTH: Duration = Duration::from_secs(2);

/// What a client's connection can be.
pub(crate) trait ClientStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> ClientStream for S {}

/// A connection of a user of this machine.
#[cfg_attr(not(unix), allow(dead_code, reason = "only a local socket makes one"))]
pub(crate) struct Arrival {
    pub(crate) stream: Box<dyn ClientStream>,
    pub(crate) uid: u32,
}

/// Where a server listens for other machines, or for all of this one.
#[derive(Debug)]
pub enum Door {
    /// At an address.
    Address(SocketAddr),
    /// At a socket that listens already.
    Listener(TcpListener),
    /// Nowhere.
    None,
}

impl From<SocketAddr> for Door {
    fn from(address: SocketAddr) -> Self {
        Self::Address(address)
    }
}

/// A server that has its port and does not answer yet.
pub struct Bound {
    listener: Option<TcpListener>,
    #[cfg(unix)]
    local: Option<LocalSocket>,
    server: Arc<Server>,
    tls: Option<Tls>,
}

impl Bound {
    /// Takes a port.
    pub fn new(
        door: impl Into<Door>,
        settings: Settings,
        models: Arc<dyn Models>,
        keep_alive: KeepAlive,
        tls: Option<Tls>,
    ) -> std::io::Result<Self> {
        let manager = Manager::new(models, keep_alive, settings.kv_events.clone());
        Self::bind(door.into(), Server::new(settings, manager)?, tls)
    }

    /// Takes a port for a relay to replicas.
    pub fn relay(
        door: impl Into<Door>,
        settings: Settings,
        relay: Relay,
        tls: Option<Tls>,
    ) -> std::io::Result<Self> {
        let manager = Manager::new(Arc::new(NoModels), KeepAlive::Forever, None);
        let mut server = Server::new(settings, manager)?;
        server.relay = Some(Arc::new(relay));
        Self::bind(door.into(), server, tls)
    }

    fn bind(door: Door, server: Server, tls: Option<Tls>) -> std::io::Result<Self> {
        let listener = match door {
            Door::Address(address) => Some(TcpListener::bind(address)?),
            Door::Listener(listener) => Some(listener),
            Door::None => None,
        };
        if let Some(listener) = &listener {
            listener.set_nonblocking(true)?;
            lengthen_accept_queue(listener);
        }
        Ok(Self {
            listener,
            #[cfg(unix)]
            local: None,
            server: Arc::new(server),
            tls,
        })
    }

    /// Listens at a socket for this machine's users too. They need no keys: the system says who they are.
    #[cfg(unix)]
    #[must_use]
    pub fn with_local(mut self, socket: LocalSocket) -> Self {
        self.local = Some(socket);
        self
    }

    /// The path of the socket for this machine's users, if there is one.
    #[cfg(unix)]
    pub fn local_path(&self) -> Option<std::path::PathBuf> {
        self.local.as_ref()?.path()
    }

    /// The address, with the port that was given if any was asked for; `None` if it listens at none.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref()?.local_addr().ok()
    }

    /// Where lines about requests go.
    pub fn log(&self) -> &Log {
        &self.server.observer.log
    }

    /// Answers until `stop` is done, then lets running requests end. Needs a thread or two of its own: they must answer
    /// while all processors compute.
    pub fn run(self, stop: impl Future<Output = ()>) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("http")
            .enable_all()
            .build()?;
        let drain = self.server.settings.drain;
        let result = runtime.block_on(self.answer(stop));
        runtime.shutdown_timeout(drain.min(Duration::from_secs(2)));
        result
    }

    async fn answer(self, stop: impl Future<Output = ()>) -> std::io::Result<()> {
        let listener = self.listener.map(tokio::net::TcpListener::from_std);
        let listener = listener.transpose()?;
        let server = self.server;
        let graceful = GracefulShutdown::new();
        let kept = Arc::clone(&server);
        let housekeeper = tokio::spawn(async move {
            loop {
                tokio::time::sleep(HOUSEKEEPING).await;
                kept.manager.expire();
                kept.preparation.tidy();
            }
        });
        let told = Arc::clone(&server);
        let teller = tokio::spawn(async move {
            if let Some(kv_events) = &told.settings.kv_events {
                kv_events.run(&told.observer.log).await;
            }
        });
        let watched = Arc::clone(&server);
        let watcher = tokio::spawn(async move {
            if let Some(relay) = &watched.relay {
                relay.watch(&watched.observer).await;
            }
        });
        let observer = Arc::clone(&server.observer);
        let end_of_traces = Arc::new(Notify::new());
        let ending = Arc::clone(&end_of_traces);
        let traces = tokio::spawn(async move {
            if let Some(traces) = &observer.traces {
                traces.run(&observer.log, ending).await;
            }
        });
        let (arrivals, mut arriving) = mpsc::channel(1);
        #[cfg(unix)]
        let local = self.local.map(|local| {
            let observer = Arc::clone(&server.observer);
            tokio::spawn(async move { local.accept(arrivals, &observer.log).await })
        });
        #[cfg(not(unix))]
        drop(arrivals);
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = accept(listener.as_ref()) => accepted,
                Some(arrival) = arriving.recv() => {
                    welcome(&server, arrival, graceful.watcher());
                    continue;
                }
                () = &mut stop => break,
            };
            let Ok((stream, peer)) = accepted else {
                // Out of file descriptors, perhaps: the connections that end will give some back.
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            // Tokens are small and each should leave at once.
            let _ = stream.set_nodelay(true);
            let address = peer.ip().to_canonical();
            let source = Source::Address(address);
            let place = server.places.take(source, &server.settings.budgets);
            let watcher = graceful.watcher();
            let (server, tls) = (Arc::clone(&server), self.tls.clone());
            tokio::spawn(async move {
                let served = async {
                    match tls {
                        None => talk(&server, stream, watcher, (&place, None)).await,
                        Some(tls) => {
                            let limit = server.settings.budgets.head;
                            let shaken = tokio::time::timeout(limit, tls.accept(stream)).await;
                            if let Ok(Ok(stream)) = shaken {
                                talk(&server, stream, watcher, (&place, None)).await;
                            }
                        }
                    }
                };
                within(&server, &place, served).await;
            });
        }
        drop(listener);
        #[cfg(unix)]
        if let Some(local) = local {
            local.abort();
        }
        server.observer.log.say(
            LogLevel::Info,
            "shutting down: running requests may end",
            &[],
        );
        server.drain();
        let _ = tokio::time::timeout(server.settings.drain, graceful.shutdown()).await;
        housekeeper.abort();
        watcher.abort();
        server.manager.stop_all();
        teller.abort();
        end_of_traces.notify_one();
        let _ = tokio::time::timeout(LAST_TRACES, traces).await;
        Ok(())
    }
}

/// The next connection; none where nobody listens.
async fn accept(
    listener: Option<&tokio::net::TcpListener>,
) -> std::io::Result<(tokio::net::TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

/// Answers a user of this machine.
fn welcome(server: &Arc<Server>, arrival: Arrival, watcher: Watcher) {
    let Arrival { stream, uid } = arrival;
    let source = Source::User(uid);
    let place = server.places.take(source, &server.settings.budgets);
    let server = Arc::clone(server);
    tokio::spawn(async move {
        let served = talk(&server, stream, watcher, (&place, Some(uid)));
        within(&server, &place, served).await;
    });
}

/// Lets a connection be served for as long as its place allows.
async fn within(server: &Server, place: &Place, served: impl Future<Output = ()>) {
    let limit = match place.room {
        Room::Whole => Duration::MAX,
        Room::Health => HEALTH,
    };
    let overdue = place.pulse.overdue(&server.settings.budgets);
    tokio::select! {
        _ = tokio::time::timeout(limit, served) => {}
        () = overdue => {}
    }
}

/// Answers one connection's requests. One that breaks off is the client's affair; its requests end with it.
async fn talk<S>(
    server: &Arc<Server>,
    stream: S,
    watcher: Watcher,
    (place, user): (&Place, Option<u32>),
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let budgets = &server.settings.budgets;
    let opened = Socket::open(stream, Arc::clone(&place.pulse), budgets.first_byte).await;
    let Ok((socket, second)) = opened else {
        return;
    };
    let (own, pulse, room) = (Arc::clone(server), Arc::clone(&place.pulse), place.room);
    let service = service_fn(move |request| {
        let (server, in_flight) = (Arc::clone(&own), pulse.request());
        async move { Ok::<_, Infallible>(handle(server, in_flight, (room, user), request).await) }
    });
    let stream = TokioIo::new(socket);
    if second {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(budgets.streams as u32)
            .max_header_list_size(budgets.head_bytes as u32)
            .initial_connection_window_size(2 * budgets.small_body_bytes as u32)
            .initial_stream_window_size(budgets.small_body_bytes as u32);
        let _ = watcher
            .watch(builder.serve_connection(stream, service))
            .await;
    } else {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(budgets.head)
            .max_buf_size(budgets.head_bytes)
            .half_close(false);
        let _ = watcher
            .watch(builder.serve_connection(stream, service))
            .await;
    }
}
