//! A network card as smoltcp sees one.

use crate::drivers::{MAX_FRAME, NetDevice};
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, TcpPacket};

/// An Ethernet frame without a VLAN tag.
const FRAME: usize = 1514;

/// A card with room for one frame in each direction.
pub(super) struct Card<'a> {
    pub(super) device: &'a mut dyn NetDevice,
    received: [u8; MAX_FRAME],
    sent: [u8; FRAME],
    /// Frames that came and that went.
    pub(super) frames: (u64, u64),
    /// Clients that have a connection, by address and port.
    pub(super) known: Vec<(Ipv4Addr, u16)>,
    /// Whether there is a place for one more.
    pub(super) has_place: bool,
}

impl<'a> Card<'a> {
    pub(super) fn new(device: &'a mut dyn NetDevice) -> Self {
        Self {
            device,
            received: [0; MAX_FRAME],
            sent: [0; FRAME],
            frames: (0, 0),
            known: Vec::new(),
            has_place: true,
        }
    }
}

/// Who begins a TCP connection with this frame.
fn beginner(frame: &[u8]) -> Option<(Ipv4Addr, u16)> {
    let ethernet = EthernetFrame::new_checked(frame).ok()?;
    if ethernet.ethertype() != EthernetProtocol::Ipv4 {
        return None;
    }
    let packet = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
    if packet.next_header() != IpProtocol::Tcp {
        return None;
    }
    let segment = TcpPacket::new_checked(packet.payload()).ok()?;
    let begins = segment.syn() && !segment.ack();
    begins.then(|| (packet.src_addr(), segment.src_port()))
}

/// A frame that has come.
pub(super) struct Received<'c>(&'c [u8]);

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

/// Room for a frame to send.
pub(super) struct Room<'c> {
    device: &'c mut dyn NetDevice,
    buffer: &'c mut [u8; FRAME],
    count: &'c mut u64,
}

impl TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        // The stack keeps to the largest frame that it was told of.
        let frame = &mut self.buffer[..len];
        frame.fill(0);
        let result = write(frame);
        // A frame that is lost is sent again by whoever needs it.
        *self.count += u64::from(self.device.send(frame).is_ok());
        result
    }
}

impl Device for Card<'_> {
    type RxToken<'c>
        = Received<'c>
    where
        Self: 'c;
    type TxToken<'c>
        = Room<'c>
    where
        Self: 'c;

    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Room<'_>)> {
        // What comes may need an answer, so it waits in the card until there is room for one.
        if !self.device.can_send() {
            return None;
        }
        let len = loop {
            let len = self.device.receive(&mut self.received)?.min(MAX_FRAME);
            self.frames.0 += 1;
            let Some(client) = beginner(&self.received[..len]) else {
                break len;
            };
            // A client that is impatient begins its connection twice. Another socket that listens would take the second
            // beginning for a new client, and the two would end each other. One for whom there is no place is not sent
            // away: it tries again by itself.
            if self.has_place && !self.known.contains(&client) {
                break len;
            }
        };
        let room = Room {
            device: self.device,
            buffer: &mut self.sent,
            count: &mut self.frames.1,
        };
        Some((Received(&self.received[..len]), room))
    }

    fn transmit(&mut self, _: Instant) -> Option<Room<'_>> {
        self.device.can_send().then_some(Room {
            device: self.device,
            buffer: &mut self.sent,
            count: &mut self.frames.1,
        })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = FRAME;
        capabilities
    }
}
