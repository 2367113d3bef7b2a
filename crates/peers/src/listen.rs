//! A peer: it listens for heads that know the key, and serves one at a time.

use crate::error::PeerError;
use crate::handshake;
use crate::key::PeerKey;
use crate::message::{Assignment, Facts, Taken};
use crate::session::{Kept, Shared, serve};
use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use strata_model::CpuStretch;

/// Connections at once: a head, those who look at what is here, and strangers until they are known as such.
const CONNECTIONS: usize = 32;

/// Who loads layers.
pub trait Layers: Send + Sync {
    /// What there is.
    fn facts(&self) -> Facts;

    /// Loads what a head gives to do, or says why not. `progress` hears of bytes loaded and bytes in all, and false cancels.
    fn load(
        &self,
        assignment: &Assignment,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<(CpuStretch, Taken), String>;

    /// Called on the thread that computes, before it does.
    fn settle(&self) {}

    /// Nothing is computed for a while: workers need not wait awake.
    fn rest(&self);
}

/// What happens at a peer.
#[derive(Clone, Debug)]
pub enum Told {
    /// Somebody was not let in.
    Stranger {
        /// Who.
        from: SocketAddr,
        /// Why.
        error: PeerError,
    },
    /// Layers are loaded for a head.
    Loading {
        /// Whose.
        from: SocketAddr,
        /// Which.
        layers: Range<usize>,
    },
    /// A head is served.
    Serving {
        /// Which.
        from: SocketAddr,
        /// The layers.
        layers: Range<usize>,
        /// What they take.
        taken: Taken,
    },
    /// A head has gone, or was sent away.
    Ended {
        /// Which.
        from: SocketAddr,
        /// Why.
        error: PeerError,
    },
}

/// A peer that listens.
pub struct Listener {
    listener: TcpListener,
    key: PeerKey,
    open: Arc<Connections>,
}

/// The connections that are open, so that they can be ended.
struct Connections {
    address: SocketAddr,
    stopped: AtomicBool,
    streams: Mutex<HashMap<SocketAddr, TcpStream>>,
}

impl Connections {
    fn streams(&self) -> MutexGuard<'_, HashMap<SocketAddr, TcpStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a peer from another thread.
#[derive(Clone)]
pub struct Stopper(Arc<Connections>);

impl Stopper {
    /// Ends all connections, and has [`Listener::run`] return.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::SeqCst);
        for stream in self.0.streams().values() {
            // It may have ended already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Wakes the listener, which looks whether it is to stop.
        let mut own = self.0.address;
        if own.ip().is_unspecified() {
            own.set_ip(match own {
                SocketAddr::V4(_) => [127, 0, 0, 1].into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        let _ = TcpStream::connect_timeout(&own, Duration::from_secs(1));
    }
}

impl Listener {
    /// Listens at an address. There is no way to do so without a key.
    pub fn bind(address: SocketAddr, key: PeerKey) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let open = Arc::new(Connections {
            address: listener.local_addr()?,
            stopped: AtomicBool::new(false),
            streams: Mutex::default(),
        });
        Ok(Self {
            listener,
            key,
            open,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.open.address
    }

    /// What ends it.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.open))
    }

    /// Serves heads until it is stopped. `tell` hears what happens.
    pub fn run(&self, layers: &dyn Layers, tell: &(dyn Fn(Told) + Send + Sync)) {
        let seat: Mutex<Option<Kept>> = Mutex::default();
        std::thread::scope(|scope| {
            loop {
                let accepted = self.listener.accept();
                if self.open.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Ok((stream, from)) = accepted else {
                    // Too many files are open, perhaps: it gets better when connections end.
                    std::thread::sleep(Duration::from_millis(50));
                    continue;
                };
                let Ok(own) = stream.try_clone() else {
                    continue;
                };
                let mut streams = self.open.streams();
                if streams.len() >= CONNECTIONS {
                    continue;
                }
                streams.insert(from, own);
                drop(streams);
                let shared = Shared {
                    layers,
                    seat: &seat,
                    tell,
                };
                scope.spawn(move || {
                    let _gone = Gone(&self.open, from);
                    self.answer(stream, from, &shared);
                });
            }
        });
    }

    fn answer(&self, stream: TcpStream, from: SocketAddr, shared: &Shared<'_>) {
        match handshake::accept(stream, &self.key) {
            Err(error) => (shared.tell)(Told::Stranger { from, error }),
            Ok(connected) => {
                if let Err(error) = serve(connected, from, shared) {
                    (shared.tell)(Told::Ended { from, error });
                }
            }
        }
    }
}

/// Takes a connection off the list when it is dropped.
struct Gone<'l>(&'l Connections, SocketAddr);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.streams().remove(&self.1);
    }
}
