//! A wire between the machine and a client, both in the test.

use super::*;
use crate::drivers::{DeviceError, MAX_FRAME};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

type Frames = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// One end of a wire.
pub(crate) struct End {
    pub(super) address: [u8; 6],
    pub(super) to: Frames,
    pub(super) from: Frames,
}

impl NetDevice for End {
    fn name(&self) -> &'static str {
        "wire"
    }
    fn address(&self) -> [u8; 6] {
        self.address
    }
    fn acknowledge(&mut self) {}
    fn receive(&mut self, frame: &mut [u8; MAX_FRAME]) -> Option<usize> {
        let next = self.from.lock().unwrap().pop_front()?;
        let len = next.len().min(MAX_FRAME);
        frame[..len].copy_from_slice(&next[..len]);
        Some(len)
    }
    fn can_send(&mut self) -> bool {
        true
    }
    fn send(&mut self, frame: &[u8]) -> Result<(), DeviceError> {
        self.to.lock().unwrap().push_back(frame.to_vec());
        Ok(())
    }
}

pub(crate) fn wire() -> (End, End) {
    let (a, b) = (Frames::default(), Frames::default());
    let end = |address, to: &Frames, from: &Frames| End {
        address,
        to: Arc::clone(to),
        from: Arc::clone(from),
    };
    (end(SERVER_CARD, &a, &b), end(CLIENT_CARD, &b, &a))
}

pub(crate) fn settings() -> Settings {
    Settings {
        address: Some(Ipv4Cidr::new(SERVER, 24)),
        gateway: None,
        port: PORT,
    }
}

/// A machine with one client socket.
pub(crate) struct Client<'a> {
    pub(super) card: Card<'a>,
    pub(super) interface: Interface,
    pub(super) sockets: SocketSet<'static>,
    pub(super) socket: SocketHandle,
    pub(super) port: u16,
}

impl<'a> Client<'a> {
    pub(crate) fn new(end: &'a mut End) -> Self {
        let config = Config::new(EthernetAddress(CLIENT_CARD).into());
        let mut card = Card::new(end, None);
        let mut interface = Interface::new(config, &mut card, instant(0));
        set_address(&mut interface, Some(Ipv4Cidr::new(CLIENT, 24)), None);
        let mut sockets = SocketSet::new(Vec::new());
        let socket = sockets.add(socket());
        Self {
            card,
            interface,
            sockets,
            socket,
            port: 40_000,
        }
    }

    pub(crate) fn socket(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.socket)
    }

    /// Goes on under another address of the same network.
    pub(crate) fn move_to(&mut self, last: u8) {
        let address = Ipv4Cidr::new(Ipv4Addr::new(10, 0, 0, last), 24);
        set_address(&mut self.interface, Some(address), None);
    }

    /// Begins a connection and leaves the one before it open.
    pub(crate) fn connect_once_more(&mut self) {
        self.socket = self.sockets.add(socket());
        self.connect();
    }

    pub(crate) fn connect(&mut self) {
        self.port = self.port.checked_add(1).unwrap_or(40_000);
        let (port, context) = (self.port, self.interface.context());
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(self.socket);
        socket.abort();
        let server = (IpAddress::Ipv4(SERVER), PORT);
        socket.connect(context, server, port).unwrap();
    }

    pub(crate) fn poll(&mut self, now: u64) {
        let (time, card) = (instant(now), &mut self.card);
        self.interface.poll(time, card, &mut self.sockets);
    }
}
