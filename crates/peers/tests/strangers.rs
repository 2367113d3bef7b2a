//! Who is not let in, and what is said to those who do not speak the protocol.

use crate::machines::{Peer, assignment, golden, key, spread};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use strata_peers::{Link, Overlap, PROTOCOL, PeerError, PeerKey, PeerStates, Told, ask};

fn open(peer: &Peer, key: &PeerKey, first: usize, end: usize) -> Result<Link, PeerError> {
    let states = PeerStates::default();
    let progress = &mut |_, _| true;
    let assignment = assignment(first, end);
    Link::open(&peer.address, key, assignment, vec![], (&states, progress))
}

/// Waits until the peer has told of something.
fn heard(peer: &Peer, of: impl Fn(&Told) -> bool) {
    let start = Instant::now();
    while !peer.told().iter().any(&of) {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{:?}",
            peer.told()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn another_key_opens_nothing() {
    let peer = Peer::start(&golden("llama"));
    assert_eq!(ask(&peer.address, &key()).unwrap().workers, 1);
    let other = PeerKey::new("another key").unwrap();
    assert_eq!(ask(&peer.address, &other), Err(PeerError::Key));
    assert_eq!(open(&peer, &other, 1, 2).err(), Some(PeerError::Key));
    heard(&peer, |told| {
        matches!(
            told,
            Told::Stranger {
                error: PeerError::Key,
                ..
            }
        )
    });
    assert!(PeerKey::new(" short  ").is_err());
    assert!(
        !format!("{:?}", key()).contains("tests"),
        "keys are not shown"
    );
}

/// Somebody who has only the port.
#[test]
fn what_does_not_speak_the_protocol_is_sent_away() {
    let peer = Peer::start(&golden("llama"));
    let answer = |sent: &[u8]| {
        let mut stream = TcpStream::connect(&peer.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.write_all(sent).unwrap();
        let mut answer = Vec::new();
        // A connection that is ended while bytes are under way ends in a reset.
        let _ = stream.read_to_end(&mut answer);
        answer
    };
    assert!(answer(b"GET / HTTP/1.1\r\nHost: localhost:1234\r\nAccept: */*\r\n\r\n").is_empty());
    heard(&peer, |told| {
        matches!(
            told,
            Told::Stranger {
                error: PeerError::Foreign,
                ..
            }
        )
    });
    // Another version learns which this is.
    let mut hello = b"STRATAPR\x63\x00".to_vec();
    hello.extend([9; 32]);
    let said = answer(&hello);
    assert_eq!(
        said[..10],
        *[b"STRATAPR", &PROTOCOL.to_le_bytes()[..]].concat()
    );
    let version = |told: &Told| {
        matches!(
            told,
            Told::Stranger {
                error: PeerError::Version { theirs: 99, .. },
                ..
            }
        )
    };
    heard(&peer, version);
    // A key that agrees on nothing, and a proof that is none.
    let mut hello = b"STRATAPR".to_vec();
    hello.extend(PROTOCOL.to_le_bytes());
    assert_eq!(answer(&[&hello[..], &[0; 32], &[0; 32]].concat()).len(), 42);
    let said = answer(&[&hello[..], &[9; 32], &[7; 32]].concat());
    assert_eq!(said[42..], [0; 33]);
    // It goes on for those who know the key.
    assert!(ask(&peer.address, &key()).is_ok());
}

#[test]
fn a_head_says_what_listens_instead_of_a_peer() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answers: [&[u8]; 3] = [
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        b"STRATAPR\x07\x00................................",
        b"STRATA",
    ];
    let thread = std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut hello = [0; 42];
            stream.read_exact(&mut hello).unwrap();
            stream.write_all(answer).unwrap();
        }
    });
    assert_eq!(ask(&address, &key()), Err(PeerError::Foreign));
    let version = ask(&address, &key()).unwrap_err();
    assert!(version.to_string().contains("version 7"), "{version}");
    let cut = ask(&address, &key()).unwrap_err();
    assert!(cut.to_string().contains("was closed"), "{cut}");
    thread.join().unwrap();
    let gone = ask(&address, &key()).unwrap_err();
    assert!(gone.to_string().contains("refused"), "{gone}");
    let nowhere = ask("no port", &key()).unwrap_err();
    assert!(nowhere.to_string().contains("no port"), "{nowhere}");
}

#[test]
fn what_a_peer_cannot_load_is_refused_in_words() {
    let bytes = golden("llama");
    let peer = Peer::start(&bytes);
    let states = PeerStates::default();
    let mut other = assignment(1, 2);
    other.samples = [3; 32];
    let refused = Link::open(
        &peer.address,
        &key(),
        other,
        vec![],
        (&states, &mut |_, _| true),
    );
    let refused = refused.err().unwrap().to_string();
    assert_eq!(refused, "it has another model");
    let refused = open(&peer, &key(), 1, 99).err().unwrap().to_string();
    assert!(refused.contains("there are no such layers"), "{refused}");
    assert!(states.now().is_empty());
    // One head at a time.
    let (_head, _) = spread(&bytes, &[&peer], &[1], Overlap::Auto).unwrap();
    let second = spread(&bytes, &[&peer], &[1], Overlap::Auto);
    assert_eq!(second.err().unwrap().to_string(), "it serves another head");
    assert!(
        ask(&peer.address, &key()).is_ok(),
        "those who only look are let in"
    );
}
