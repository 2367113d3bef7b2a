//! A network card as smoltcp sees one.

use super::sequence::SequenceKey;
use crate::drivers::{MAX_FRAME, NetDevice};
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, TcpPacket};
use strata_wire::budgets::Budgets;

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
    /// Whether there is a place for one more, and whether somebody came while there was none.
    pub(super) has_place: bool,
    pub(super) turned_away: bool,
    /// Hides the stack's sequence numbers.
    key: Option<SequenceKey>,
}

impl<'a> Card<'a> {
    pub(super) fn new(device: &'a mut dyn NetDevice, key: Option<SequenceKey>) -> Self {
        Self {
            device,
            received: [0; MAX_FRAME],
            sent: [0; FRAME],
            frames: (0, 0),
            known: Vec::new(),
            has_place: true,
            turned_away: false,
            key,
        }
    }

    /// Whether a client has as many connections as one address may.
    fn has_its_share(&self, client: Ipv4Addr) -> bool {
        let own = self.known.iter().filter(|(address, _)| *address == client);
        own.count() >= Budgets::BARE_METAL.address_connections
    }
}

/// Looks at the TCP segment in a frame, if there is one: from which address, to which, and the segment.
pub(super) fn tcp_segment<R>(
    frame: &mut [u8],
    look: impl FnOnce([u8; 4], [u8; 4], &mut TcpPacket<&mut [u8]>) -> R,
) -> Option<R> {
    let mut ethernet = EthernetFrame::new_checked(frame).ok()?;
    if ethernet.ethertype() != EthernetProtocol::Ipv4 {
        return None;
    }
    let mut packet = Ipv4Packet::new_checked(ethernet.payload_mut()).ok()?;
    if packet.next_header() != IpProtocol::Tcp || packet.more_frags() || packet.frag_offset() != 0 {
        return None;
    }
    let (from, to) = (packet.src_addr().octets(), packet.dst_addr().octets());
    let mut segment = TcpPacket::new_checked(packet.payload_mut()).ok()?;
    Some(look(from, to, &mut segment))
}

/// Who begins a TCP connection with this frame.
fn beginner(frame: &mut [u8]) -> Option<(Ipv4Addr, u16)> {
    let begins = tcp_segment(frame, |from, _, segment| {
        let begins = segment.syn() && !segment.ack();
        begins.then(|| (from.into(), segment.src_port()))
    });
    begins.flatten()
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
    key: Option<SequenceKey>,
}

impl TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        // The stack keeps to the largest frame that it was told of.
        let frame = &mut self.buffer[..len];
        frame.fill(0);
        let result = write(frame);
        if let Some(key) = self.key {
            key.hide(frame);
        }
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
            let Some(client) = beginner(&mut self.received[..len]) else {
                break len;
            };
            // A client that is impatient begins its connection twice. Another socket that listens would take the second
            // beginning for a new client, and the two would end each other. One for whom there is no place is not sent
            // away: it tries again by itself.
            if self.known.contains(&client) || self.has_its_share(client.0) {
                continue;
            }
            if self.has_place {
                break len;
            }
            self.turned_away = true;
        };
        if let Some(key) = self.key {
            key.reveal(&mut self.received[..len]);
        }
        let room = Room {
            device: self.device,
            buffer: &mut self.sent,
            count: &mut self.frames.1,
            key: self.key,
        };
        Some((Received(&self.received[..len]), room))
    }

    fn transmit(&mut self, _: Instant) -> Option<Room<'_>> {
        self.device.can_send().then_some(Room {
            device: self.device,
            buffer: &mut self.sent,
            count: &mut self.frames.1,
            key: self.key,
        })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = FRAME;
        capabilities
    }
}
