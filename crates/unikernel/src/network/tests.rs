//! The network against clients over a wire that tests hold both ends of.

mod client;
mod sequence;

use super::*;
use crate::drivers::MAX_FRAME;
pub(crate) use client::{Client, settings, wire};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv4Packet, Icmpv4Repr, IpAddress, IpProtocol,
    Ipv4Packet, Ipv4Repr, TcpPacket,
};
use std::sync::Arc;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SERVER_CARD: [u8; 6] = [2, 0, 0, 0, 0, 1];
const CLIENT_CARD: [u8; 6] = [2, 0, 0, 0, 0, 2];
const PORT: u16 = 80;
/// Connections of one address.
const SHARE: usize = Budgets::BARE_METAL.address_connections;

/// Sends back what comes, and closes when the client does.
fn echo(network: &mut Network<'_>) {
    for index in 0..CONNECTIONS {
        let Some(mut connection) = network.connection(index) else {
            continue;
        };
        let mut bytes = [0; 256];
        let len = connection.receive(&mut bytes);
        connection.send(&bytes[..len]);
        if !connection.may_receive() {
            connection.close();
        }
    }
}

/// Whether a word comes back over a new connection.
fn talks(network: &mut Network<'_>, client: &mut Client<'_>, now: &mut u64) -> bool {
    client.connect();
    let mut heard = Vec::new();
    let mut said = false;
    for _ in 0..400 {
        *now += 1_000_000;
        client.poll(*now);
        network.poll(*now);
        echo(network);
        let socket = client.socket();
        if socket.can_send() && !said {
            said = socket.send_slice(b"hello") == Ok(5);
        }
        let mut bytes = [0; 16];
        let len = socket.recv_slice(&mut bytes).unwrap_or(0);
        heard.extend_from_slice(&bytes[..len]);
        if heard == b"hello" {
            socket.close();
            for _ in 0..5 {
                *now += 1_000_000;
                client.poll(*now);
                network.poll(*now);
                echo(network);
            }
            return true;
        }
    }
    false
}

#[test]
fn many_clients_follow_each_other() {
    let (mut server, mut other) = wire();
    let mut network = Network::new(&mut server, &settings(), [1, 2], 0);
    let mut client = Client::new(&mut other);
    let mut now = 0;
    for i in 0..5 * CONNECTIONS {
        assert!(talks(&mut network, &mut client, &mut now), "client {i}");
    }
    assert_eq!(network.address(), settings().address);
}

#[test]
fn clients_that_vanish_give_their_place_back() {
    let (mut server, mut other) = wire();
    let mut network = Network::new(&mut server, &settings(), [1, 2], 0);
    let mut client = Client::new(&mut other);
    let mut now = 0;
    for _ in 0..SHARE {
        client.connect();
        for _ in 0..10 {
            now += 1_000_000;
            client.poll(now);
            network.poll(now);
        }
        assert!(client.socket().may_send());
        // Gone without a word: neither a close nor a reset.
        client.sockets.remove(client.socket);
        client.socket = client.sockets.add(socket());
        client.card.device.receive(&mut [0; MAX_FRAME]);
    }
    let taken = |network: &mut Network<'_>| {
        (0..CONNECTIONS)
            .filter(|&index| network.connection(index).is_some())
            .count()
    };
    assert_eq!(taken(&mut network), SHARE);
    // One address may not have them all.
    client.connect();
    for _ in 0..10 {
        now += 1_000_000;
        client.poll(now);
        network.poll(now);
    }
    assert!(!client.socket().may_send());
    for _ in 0..120 {
        now += 1_000_000_000;
        network.poll(now);
    }
    assert_eq!(taken(&mut network), 0);
    assert!(talks(&mut network, &mut client, &mut now));
}

#[test]
fn clients_keep_their_connections_while_the_machine_computes() {
    let (mut server, mut other) = wire();
    let mut network = Network::new(&mut server, &settings(), [1, 2], 0);
    let mut client = Client::new(&mut other);
    // A client that waits for as long as it takes.
    client.socket().set_timeout(None);
    client.socket().set_keep_alive(None);
    let mut now = 0;
    client.connect();
    for _ in 0..10 {
        now += 1_000_000;
        client.poll(now);
        network.poll(now);
    }
    // Steps that are longer than a client may be silent.
    for _ in 0..20 {
        for _ in 0..100 {
            now += 1_000_000_000;
            client.poll(now);
        }
        network.poll(now);
    }
    let word = b"still here";
    assert_eq!(client.socket().send_slice(word), Ok(word.len()));
    client.poll(now);
    network.poll(now);
    echo(&mut network);
    network.poll(now);
    client.poll(now);
    let mut bytes = [0; 16];
    assert_eq!(client.socket().recv_slice(&mut bytes), Ok(word.len()));
}

/// A frame from the client's card with an IPv4 packet in it.
fn frame(from: Ipv4Addr, protocol: IpProtocol, payload: &[u8]) -> Vec<u8> {
    let ip = Ipv4Repr {
        src_addr: from,
        dst_addr: SERVER,
        next_header: protocol,
        payload_len: payload.len(),
        hop_limit: 64,
    };
    let ethernet = EthernetRepr {
        src_addr: EthernetAddress(CLIENT_CARD),
        dst_addr: EthernetAddress(SERVER_CARD),
        ethertype: EthernetProtocol::Ipv4,
    };
    let mut bytes = vec![0; ethernet.buffer_len() + ip.buffer_len() + payload.len()];
    let mut outer = EthernetFrame::new_unchecked(&mut bytes);
    ethernet.emit(&mut outer);
    let mut inner = Ipv4Packet::new_unchecked(outer.payload_mut());
    ip.emit(&mut inner, &ChecksumCapabilities::default());
    inner.payload_mut().copy_from_slice(payload);
    bytes
}

#[test]
fn an_echo_is_answered() {
    let (mut server, mut other) = wire();
    let to = Arc::clone(&server.from);
    let heard = Arc::clone(&server.to);
    let mut network = Network::new(&mut server, &settings(), [1, 2], 0);
    let mut client = Client::new(&mut other);
    let mut now = 0;
    assert!(talks(&mut network, &mut client, &mut now));
    let mut answer = |data: &[u8]| {
        heard.lock().unwrap().clear();
        to.lock().unwrap().push_back(ping(data));
        network.poll(now);
        heard.lock().unwrap().pop_front()
    };
    for data in [&b"are you there?"[..], &[7; 1472]] {
        let frame = answer(data).expect("an answer");
        assert_eq!(frame[..6], CLIENT_CARD);
        let packet = &frame[14 + 20..];
        // Type 0 is the answer to type 8.
        assert_eq!((packet[0], &packet[8..]), (0, data));
    }
    // With this the answer would be longer than a frame, though the question came in one.
    assert_eq!(answer(&[7; 1476]), None);
}

/// A frame that asks for an echo.
fn ping(data: &[u8]) -> Vec<u8> {
    let question = Icmpv4Repr::EchoRequest {
        ident: 7,
        seq_no: 9,
        data,
    };
    let mut bytes = vec![0; question.buffer_len()];
    let mut packet = Icmpv4Packet::new_unchecked(&mut bytes);
    question.emit(&mut packet, &ChecksumCapabilities::default());
    frame(CLIENT, IpProtocol::Icmp, &bytes)
}

/// A TCP header that begins a connection.
fn syn(from: Ipv4Addr, port: u16) -> Vec<u8> {
    let mut header = [0u8; 20];
    header[..2].copy_from_slice(&port.to_be_bytes());
    header[2..4].copy_from_slice(&PORT.to_be_bytes());
    header[4..8].copy_from_slice(&u32::from(port).to_be_bytes());
    header[12] = 5 << 4;
    header[13] = 2;
    header[14] = 0x40;
    let mut packet = TcpPacket::new_unchecked(&mut header[..]);
    packet.fill_checksum(&IpAddress::Ipv4(from), &IpAddress::Ipv4(SERVER));
    frame(from, IpProtocol::Tcp, &header)
}

#[test]
fn a_flood_of_beginnings_stops_neither_a_running_connection_nor_the_next_one_for_long() {
    let (mut server, mut other) = wire();
    let to = Arc::clone(&server.from);
    let mut network = Network::new(&mut server, &settings(), [1, 2], 0);
    let mut client = Client::new(&mut other);
    let mut now = 0;
    client.connect();
    let (mut sent, mut heard) = (0, 0);
    for round in 0..3000u32 {
        now += 1_000_000;
        for i in 0..20 {
            let from = Ipv4Addr::from(0x0a00_0003 + (round * 20 + i) % 250);
            to.lock()
                .unwrap()
                .push_back(syn(from, (round * 7 + i) as u16 | 1024));
        }
        client.poll(now);
        network.poll(now);
        echo(&mut network);
        let socket = client.socket();
        if socket.can_send() && sent == heard {
            sent += socket.send_slice(b"still here").unwrap_or(0);
        }
        heard += socket.recv_slice(&mut [0; 64]).unwrap_or(0);
    }
    assert!(heard > 1000, "only {heard} bytes came through");
    // The flood is over.
    for _ in 0..8 {
        now += 1_000_000_000;
        network.poll(now);
        client.poll(now);
    }
    assert!(talks(&mut network, &mut client, &mut now));
}

/// What travelled to the server in some connections, to be damaged.
fn recorded() -> Vec<Vec<u8>> {
    let (mut server, mut other) = wire();
    let sent = Arc::clone(&other.to);
    let mut network = Network::new(&mut server, &settings(), [1, 2], 0);
    let mut client = Client::new(&mut other);
    let (mut now, mut frames) = (0, Vec::new());
    client.connect();
    for round in 0..30 {
        now += 1_000_000;
        client.poll(now);
        frames.extend(sent.lock().unwrap().iter().cloned());
        network.poll(now);
        echo(&mut network);
        if round == 20 {
            client.socket().close();
        } else if client.socket().can_send() {
            let _ = client.socket().send_slice(b"GET / HTTP/1.1\r\n\r\n");
        }
    }
    frames.push(syn(Ipv4Addr::new(10, 0, 0, 77), 999));
    frames.push(frame(CLIENT, IpProtocol::Udp, &[0, 67, 0, 68, 0, 8, 0, 0]));
    assert!(frames.len() > 10);
    frames
}

/// Splitmix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Makes the checksums right again, so that the damage gets further in.
fn repair(bytes: &mut [u8]) {
    let Ok(mut ethernet) = EthernetFrame::new_checked(bytes) else {
        return;
    };
    let Ok(mut ip) = Ipv4Packet::new_checked(ethernet.payload_mut()) else {
        return;
    };
    ip.fill_checksum();
    let (from, to) = (ip.src_addr().into(), ip.dst_addr().into());
    if ip.next_header() == IpProtocol::Tcp
        && let Ok(mut tcp) = TcpPacket::new_checked(ip.payload_mut())
    {
        tcp.fill_checksum(&from, &to);
    }
}

#[test]
fn damaged_frames_do_no_harm() {
    let corpus = recorded();
    for dynamic in [false, true] {
        let (mut server, mut other) = wire();
        let to = Arc::clone(&server.from);
        let replies = Arc::clone(&server.to);
        let mut given = settings();
        given.address = given.address.filter(|_| !dynamic);
        let mut network = Network::new(&mut server, &given, [1, 2], 0);
        let (mut state, mut now) = (7 + u64::from(dynamic), 0);
        for _ in 0..500_000 / 50 {
            for _ in 0..50 {
                let mut bytes = corpus[random(&mut state) as usize % corpus.len()].clone();
                if random(&mut state).is_multiple_of(8) {
                    bytes.resize(random(&mut state) as usize % 100, 0);
                }
                for _ in 0..random(&mut state) % 4 {
                    let at = random(&mut state) as usize % bytes.len().max(1);
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = random(&mut state) as u8;
                    }
                }
                if random(&mut state).is_multiple_of(2) {
                    repair(&mut bytes);
                }
                to.lock().unwrap().push_back(bytes);
            }
            now += 1_000_000;
            network.poll(now);
            echo(&mut network);
            replies.lock().unwrap().clear();
        }
        if !dynamic {
            now += 200_000_000_000;
            (0..50).for_each(|i| {
                network.poll(now + i * 1_000_000_000);
                echo(&mut network);
            });
            now += 50_000_000_000;
            replies.lock().unwrap().clear();
            let mut client = Client::new(&mut other);
            client.port = 50_000;
            assert!(talks(&mut network, &mut client, &mut now));
        }
    }
}

#[test]
fn a_client_that_begins_twice_gets_one_connection() {
    let (mut server, client) = wire();
    let mut network = Network::new(&mut server, &settings(), [1, 2], 0);
    let send = |frame| client.to.lock().unwrap().push_back(frame);
    send(syn(CLIENT, 1000));
    send(syn(CLIENT, 2000));
    network.poll(0);
    // The first goes, and its place, which comes before the second's, listens again.
    let first = network.pool[0].handle;
    network.sockets.get_mut::<tcp::Socket<'_>>(first).abort();
    network.poll(1_000_000);
    send(syn(CLIENT, 2000));
    network.poll(2_000_000);
    let remote = |pooled: &PooledSocket| {
        let socket = network.sockets.get::<tcp::Socket<'_>>(pooled.handle);
        socket.remote_endpoint().map(|remote| remote.port)
    };
    let second = network
        .pool
        .iter()
        .filter(|pooled| remote(pooled) == Some(2000));
    assert_eq!(second.count(), 1);
}

#[test]
fn an_echo_is_asked_for_and_heard() {
    let (mut server, mut other) = wire();
    let mut network = Network::new(&mut server, &settings(), [1, 2], 0);
    let mut client = Client::new(&mut other);
    assert_eq!(network.take_echo(), None);
    assert!(network.ask_echo(CLIENT, 7));
    for i in 0..10 {
        network.poll(i * 1_000_000);
        client.poll(i * 1_000_000);
    }
    assert_eq!(network.take_echo(), Some((IpAddress::Ipv4(CLIENT), 7)));
    assert_eq!(network.take_echo(), None);
    // Questions that nobody can take on their way are refused, not kept.
    let asked = (0..100).filter(|&i| network.ask_echo(Ipv4Addr::new(9, 9, 9, 9), i));
    assert!(asked.count() < 10);
}

#[test]
fn a_closed_door_lets_nobody_in_until_it_opens() {
    let (mut server, mut other) = wire();
    let mut network = Network::new(&mut server, &settings(), [1, 2], 0);
    let mut client = Client::new(&mut other);
    let mut now = 0;
    assert!(talks(&mut network, &mut client, &mut now));
    client.connect();
    for _ in 0..5 {
        now += 1_000_000;
        client.poll(now);
        network.poll(now);
    }
    assert_eq!(network.connections().count(), 1);
    network.set_open(false);
    for _ in 0..5 {
        now += 1_000_000;
        network.poll(now);
        client.poll(now);
    }
    assert_eq!(network.connections().count(), 0);
    assert!(!client.socket().is_open());
    assert!(!talks(&mut network, &mut client, &mut now));
    // Who knocks is told so, and does not wait.
    client.connect();
    for _ in 0..5 {
        now += 1_000_000;
        client.poll(now);
        network.poll(now);
    }
    client.poll(now);
    assert!(!client.socket().is_open());
    network.set_open(true);
    network.poll(now);
    assert!(talks(&mut network, &mut client, &mut now));
}

#[test]
fn clients_for_whom_there_is_no_place_are_not_sent_away() {
    let (mut server, client) = wire();
    let mut network = Network::new(&mut server, &settings(), [1, 2], 0);
    let begin = |port| client.to.lock().unwrap().push_back(syn(CLIENT, port));
    (0..2 * CONNECTIONS as u16).for_each(|i| begin(2000 + i));
    for i in 0..10 {
        network.poll(i * 1_000_000);
        // The first answers wait for the client's Ethernet address.
        while let Some(frame) = client.from.lock().unwrap().pop_front() {
            let question = EthernetFrame::new_unchecked(&frame).ethertype();
            if question == EthernetProtocol::Arp {
                client.to.lock().unwrap().push_back(here());
            } else {
                let ip = Ipv4Packet::new_checked(&frame[14..]).unwrap();
                let answer = TcpPacket::new_checked(ip.payload()).unwrap();
                assert!(answer.syn() && !answer.rst(), "{answer}");
            }
        }
    }
    assert_eq!(network.connections().count(), SHARE);
    // Those who never complete what they began lose their places to those who try again.
    let later = 2 * HANDSHAKE;
    network.poll(later);
    network.poll(later + 1_000_000);
    begin(9999);
    network.poll(later + 2_000_000);
    let mut remotes = network.connections().filter_map(|(_, remote, ..)| remote);
    assert!(remotes.any(|remote| remote.port == 9999));
}

/// The client's answer to who has its address.
fn here() -> Vec<u8> {
    let mut frame = Vec::new();
    for piece in [
        &SERVER_CARD[..],
        &CLIENT_CARD,
        &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2],
        &CLIENT_CARD,
        &CLIENT.octets(),
        &SERVER_CARD,
        &SERVER.octets(),
    ] {
        frame.extend_from_slice(piece);
    }
    frame
}
