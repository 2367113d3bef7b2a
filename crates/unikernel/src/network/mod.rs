//! The network: Ethernet, ARP, IPv4, ICMP echo, DHCP, and a pool of TCP connections, all by smoltcp.
//!
//! Every socket of the pool listens until a client takes it. When a connection is over, its socket listens again at
//! once: there is no TIME-WAIT, because a socket that waits is one that no client can have. Clients that begin a
//! connection and do not go on lose it to others.

mod card;
mod sequence;
mod settings;
#[cfg(test)]
pub(crate) mod tests;

pub use settings::{SettingError, Settings};

use crate::drivers::NetDevice;
use alloc::vec;
use alloc::vec::Vec;
use card::Card;
use core::net::Ipv4Addr;
use sequence::SequenceKey;
use smoltcp::iface::{Config, Interface, PollIngressSingleResult, SocketHandle, SocketSet};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::socket::{dhcpv4, icmp, tcp};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{
    EthernetAddress, Icmpv4Packet, Icmpv4Repr, IpAddress, IpCidr, IpEndpoint, Ipv4Cidr,
};
use strata_wire::budgets::Budgets;

/// Connections at once.
pub const CONNECTIONS: usize = Budgets::BARE_METAL.connections;
/// Bytes that wait in a connection, to be read and to be sent.
const RECEIVE: usize = 8 << 10;
const SEND: usize = 16 << 10;
/// Frames that are looked at before others get their turn.
const FRAMES: usize = 64;
/// How long a client may take to complete a connection that it began.
const HANDSHAKE: u64 = 3_000_000_000;
/// The most time that counts between two polls. A step of the engine can take longer than [`SILENCE`], and a client
/// that nobody listened to was not silent.
const LONGEST_GAP: u64 = 10_000_000_000;
/// How long a client that acknowledges nothing is believed to live.
const SILENCE: Duration = Duration::from_secs(30);
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The network behind one card.
pub struct Network<'a> {
    card: Card<'a>,
    interface: Interface,
    sockets: SocketSet<'static>,
    dhcp: Option<SocketHandle>,
    /// For echoes that this machine asks for.
    echo: SocketHandle,
    pool: Vec<PooledSocket>,
    port: u16,
    /// Whether clients may come.
    open: bool,
    clock: PollClock,
}

/// The time that connections see: like the machine's, but at most [`LONGEST_GAP`] passes from one poll to the next.
struct PollClock {
    /// When the last poll was: on this clock, and on the machine's.
    time: u64,
    polled: u64,
}

impl PollClock {
    fn at(&self, now: u64) -> u64 {
        self.time + now.saturating_sub(self.polled).min(LONGEST_GAP)
    }

    fn advance(&mut self, now: u64) -> u64 {
        self.time = self.at(now);
        self.polled = now;
        self.time
    }
}

/// Tells this machine's echoes from others'.
const IDENT: u16 = 0x5354;

/// A socket of the pool.
struct PooledSocket {
    handle: SocketHandle,
    /// When a client began a connection that is not complete.
    began: Option<u64>,
    /// Tells one connection from the one before it.
    number: u64,
    taken: bool,
}

impl<'a> Network<'a> {
    /// A network that listens. What it chooses follows from `secret`, and is as hard to guess; `now` is in nanoseconds, as
    /// everywhere here.
    pub fn new(
        device: &'a mut dyn NetDevice,
        settings: &Settings,
        secret: [u64; 2],
        now: u64,
    ) -> Self {
        let mut config = Config::new(EthernetAddress(device.address()).into());
        let key = SequenceKey::new(secret);
        config.random_seed = key.seed();
        let mut card = Card::new(device, Some(key));
        let mut interface = Interface::new(config, &mut card, instant(now));
        let mut sockets = SocketSet::new(Vec::new());
        let dhcp = match settings.address {
            Some(address) => {
                set_address(&mut interface, Some(address), settings.gateway);
                None
            }
            None => Some(sockets.add(dhcpv4::Socket::new())),
        };
        let echo = sockets.add(echo_socket());
        let pool = (0..CONNECTIONS).map(|_| PooledSocket {
            handle: sockets.add(socket()),
            began: None,
            number: 0,
            taken: false,
        });
        let pool = pool.collect();
        let mut network = Self {
            card,
            interface,
            sockets,
            dhcp,
            echo,
            pool,
            port: settings.port,
            open: true,
            clock: PollClock {
                time: now,
                polled: now,
            },
        };
        network.listen(now);
        network
    }

    /// Moves what has come and what waits to go. Says whether anything came.
    pub fn poll(&mut self, now: u64) -> bool {
        let now = self.clock.advance(now);
        let time = instant(now);
        let mut came = false;
        self.interface.poll_maintenance(time);
        // A flood of frames must not keep everything else from its turn.
        for _ in 0..FRAMES {
            self.know_clients();
            let (interface, sockets) = (&mut self.interface, &mut self.sockets);
            match interface.poll_ingress_single(time, &mut self.card, sockets) {
                PollIngressSingleResult::None => break,
                _ => came = true,
            }
        }
        self.configure();
        self.interface
            .poll_egress(time, &mut self.card, &mut self.sockets);
        // Last, so that resets and final acknowledgements have gone.
        self.listen(now);
        came
    }

    /// Forgets the card's interrupts so far, before [`poll`](Self::poll) looks at what they were for.
    pub fn acknowledge(&mut self) {
        self.card.device.acknowledge();
    }

    /// How long nothing need be done if no frame comes, in nanoseconds.
    pub fn rest(&mut self, now: u64) -> Option<u64> {
        let time = instant(self.clock.at(now));
        let delay = self.interface.poll_delay(time, &self.sockets)?;
        Some(delay.total_micros().saturating_mul(1000))
    }

    fn configure(&mut self) {
        let Some(handle) = self.dhcp else { return };
        match self.sockets.get_mut::<dhcpv4::Socket<'_>>(handle).poll() {
            Some(dhcpv4::Event::Configured(given)) => {
                let (address, router) = (given.address, given.router);
                set_address(&mut self.interface, Some(address), router);
            }
            Some(dhcpv4::Event::Deconfigured) => set_address(&mut self.interface, None, None),
            None => {}
        }
    }

    /// Tells the card whose connections there are, and whether there can be more.
    fn know_clients(&mut self) {
        let sockets = &self.sockets;
        let remote = |pooled: &PooledSocket| {
            let socket = sockets.get::<tcp::Socket<'_>>(pooled.handle);
            match socket.remote_endpoint()? {
                IpEndpoint {
                    addr: IpAddress::Ipv4(address),
                    port,
                } if socket.is_active() => Some((address, port)),
                _ => None,
            }
        };
        let listens = |pooled: &PooledSocket| {
            let socket = sockets.get::<tcp::Socket<'_>>(pooled.handle);
            socket.state() == tcp::State::Listen
        };
        // At a closed door nobody need wait: those who come hear that it is closed.
        self.card.has_place = !self.open || self.pool.iter().any(listens);
        self.card.known.clear();
        self.card.known.extend(self.pool.iter().filter_map(remote));
    }

    /// Lets sockets listen again whose connections are over, or never came to be.
    fn listen(&mut self, now: u64) {
        for pooled in &mut self.pool {
            let socket = self.sockets.get_mut::<tcp::Socket<'_>>(pooled.handle);
            match socket.state() {
                tcp::State::SynReceived => {
                    let began = *pooled.began.get_or_insert(now);
                    if now.saturating_sub(began) < HANDSHAKE {
                        continue;
                    }
                    socket.abort();
                }
                tcp::State::Closed | tcp::State::TimeWait => {}
                _ => continue,
            }
            pooled.began = None;
            pooled.taken = false;
            if !self.open {
                continue;
            }
            // Only a socket that is open or a port of zero cannot listen; neither is here.
            let _ = socket.listen(self.port);
        }
    }

    /// Lets clients come, or sends those away that are there and takes no more.
    pub fn set_open(&mut self, open: bool) {
        self.open = open;
        for pooled in self.pool.iter().filter(|_| !open) {
            self.sockets
                .get_mut::<tcp::Socket<'_>>(pooled.handle)
                .abort();
        }
    }

    /// Whether clients may come.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether a client found no place since this was asked last.
    pub fn take_turned_away(&mut self) -> bool {
        core::mem::take(&mut self.card.turned_away)
    }

    /// Asks a machine for an echo of a number. Says whether the question could be put.
    pub fn ask_echo(&mut self, to: Ipv4Addr, number: u16) -> bool {
        let question = Icmpv4Repr::EchoRequest {
            ident: IDENT,
            seq_no: number,
            data: b"strata",
        };
        let socket = self.sockets.get_mut::<icmp::Socket<'_>>(self.echo);
        if !socket.is_open() && socket.bind(icmp::Endpoint::Ident(IDENT)).is_err() {
            return false;
        }
        let Ok(bytes) = socket.send(question.buffer_len(), to.into()) else {
            return false;
        };
        let mut packet = Icmpv4Packet::new_unchecked(bytes);
        question.emit(&mut packet, &ChecksumCapabilities::default());
        true
    }

    /// An echo that came back: from whom, and the number.
    pub fn take_echo(&mut self) -> Option<(IpAddress, u16)> {
        let socket = self.sockets.get_mut::<icmp::Socket<'_>>(self.echo);
        let (bytes, from) = socket.recv().ok()?;
        let packet = Icmpv4Packet::new_checked(bytes).ok()?;
        match Icmpv4Repr::parse(&packet, &ChecksumCapabilities::default()) {
            Ok(Icmpv4Repr::EchoReply { seq_no, .. }) => Some((from, seq_no)),
            _ => None,
        }
    }

    /// The sockets that are not idle: in which state, with whom, and how many bytes wait to be read and to be sent.
    pub fn connections(
        &self,
    ) -> impl Iterator<Item = (tcp::State, Option<IpEndpoint>, usize, usize)> {
        let sockets = self
            .pool
            .iter()
            .map(|pooled| self.sockets.get(pooled.handle));
        sockets
            .filter(|socket: &&tcp::Socket<'_>| {
                !matches!(socket.state(), tcp::State::Listen | tcp::State::Closed)
            })
            .map(|socket| {
                let (coming, going) = (socket.recv_queue(), socket.send_queue());
                (socket.state(), socket.remote_endpoint(), coming, going)
            })
    }

    /// The machine's address, once it has one.
    pub fn address(&self) -> Option<Ipv4Cidr> {
        match self.interface.ip_addrs().first() {
            Some(&IpCidr::Ipv4(address)) => Some(address),
            _ => None,
        }
    }

    /// The port that is listened on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Frames that came and that went.
    pub fn frames(&self) -> (u64, u64) {
        self.card.frames
    }

    /// The card's name and Ethernet address.
    pub fn card(&self) -> (&'static str, [u8; 6]) {
        (self.card.device.name(), self.card.device.address())
    }

    /// The connection at an index of the pool, from 0 to [`CONNECTIONS`]; nothing while no client has it.
    pub fn connection(&mut self, index: usize) -> Option<Connection<'_>> {
        let pooled = self.pool.get_mut(index)?;
        let socket = self.sockets.get_mut::<tcp::Socket<'static>>(pooled.handle);
        if matches!(
            socket.state(),
            tcp::State::Listen | tcp::State::SynReceived | tcp::State::Closed
        ) {
            return None;
        }
        if !pooled.taken {
            pooled.taken = true;
            pooled.number += 1;
        }
        Some(Connection {
            socket,
            number: pooled.number,
        })
    }
}

/// A client's connection.
pub struct Connection<'n> {
    socket: &'n mut tcp::Socket<'static>,
    /// Unlike that of any other connection at this index.
    pub number: u64,
}

impl Connection<'_> {
    /// Who it is.
    pub fn remote(&self) -> Option<IpEndpoint> {
        self.socket.remote_endpoint()
    }

    /// Takes bytes that have come.
    pub fn receive(&mut self, out: &mut [u8]) -> usize {
        self.socket.recv_slice(out).unwrap_or(0)
    }

    /// Sends as many bytes as there is room for.
    pub fn send(&mut self, bytes: &[u8]) -> usize {
        self.socket.send_slice(bytes).unwrap_or(0)
    }

    /// Whether the client may still send, or has sent what was not taken yet.
    pub fn may_receive(&self) -> bool {
        self.socket.may_recv()
    }

    /// Whether the client may still be told something.
    pub fn may_send(&self) -> bool {
        self.socket.may_send()
    }

    /// Ends the connection once everything is sent.
    pub fn close(&mut self) {
        self.socket.close();
    }

    /// Ends the connection now.
    pub fn abort(&mut self) {
        self.socket.abort();
    }
}

fn socket() -> tcp::Socket<'static> {
    let buffer = |bytes| tcp::SocketBuffer::new(vec![0; bytes]);
    let mut socket = tcp::Socket::new(buffer(RECEIVE), buffer(SEND));
    // Tokens are small, and each is waited for.
    socket.set_nagle_enabled(false);
    socket.set_ack_delay(None);
    socket.set_timeout(Some(SILENCE));
    socket.set_keep_alive(Some(KEEP_ALIVE));
    socket
}

fn echo_socket() -> icmp::Socket<'static> {
    let buffer = || {
        let places = vec![icmp::PacketMetadata::EMPTY; 4];
        icmp::PacketBuffer::new(places, vec![0; 256])
    };
    icmp::Socket::new(buffer(), buffer())
}

fn set_address(interface: &mut Interface, address: Option<Ipv4Cidr>, gateway: Option<Ipv4Addr>) {
    interface.update_ip_addrs(|list| {
        list.clear();
        // There is room for two.
        let _ = list.extend_from_slice(address.map(IpCidr::Ipv4).as_slice());
    });
    let routes = interface.routes_mut();
    routes.remove_default_ipv4_route();
    if let Some(gateway) = gateway {
        // The table was emptied of its only kind.
        let _ = routes.add_default_ipv4_route(gateway);
    }
}

fn instant(nanoseconds: u64) -> Instant {
    Instant::from_micros((nanoseconds / 1000) as i64)
}
