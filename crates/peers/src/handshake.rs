//! Who is at the other end, and the keys of the connection.
//!
//! | | head | peer |
//! |---|---|---|
//! | 1 | magic, version, X25519 key | |
//! | 2 | | magic, version, X25519 key |
//! | 3 | proof | |
//! | 4 | | verdict, proof |
//!
//! All keys come by HKDF-SHA256 from the agreed secret and the shared key, salted with the digest of the first two
//! messages. A proof is an HMAC-SHA256 of that digest under a key of each side's own. So who does not know the shared key
//! learns nothing, not even by listening and trying keys later: that takes being one of the two ends. The head proves
//! itself first, so that a peer, which listens, answers strangers nothing that keys could be tried on.

use crate::channel::{Receiver, SILENCE, Sender};
use crate::error::PeerError;
use crate::key::PeerKey;
use crate::message::PROTOCOL;
use ring::agreement::{self, EphemeralPrivateKey, UnparsedPublicKey, X25519};
use ring::digest::{SHA256, digest};
use ring::hkdf::{self, HKDF_SHA256, Prk, Salt};
use ring::hmac;
use ring::rand::SystemRandom;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const MAGIC: &[u8; 8] = b"STRATAPR";
const PUBLIC: usize = 32;
const HELLO: usize = MAGIC.len() + 2 + PUBLIC;
const PROOF: usize = 32;

/// How long a handshake takes at most.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection whose other end knows the key.
pub(crate) struct Connected {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
}

/// One side of a handshake.
struct Side {
    private: EphemeralPrivateKey,
    hello: [u8; HELLO],
}

impl Side {
    fn new() -> Result<Self, PeerError> {
        let random = |_| PeerError::Connection("the system gives no random bytes".into());
        let private =
            EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).map_err(random)?;
        let public = private.compute_public_key().map_err(random)?;
        let mut hello = [0; HELLO];
        hello[..8].copy_from_slice(MAGIC);
        hello[8..10].copy_from_slice(&PROTOCOL.to_le_bytes());
        hello[10..].copy_from_slice(public.as_ref());
        Ok(Self { private, hello })
    }

    /// The keys, if the other side speaks this protocol. `hellos` are the head's and the peer's.
    fn agree(
        self,
        theirs: &[u8; HELLO],
        hellos: [&[u8; HELLO]; 2],
        key: &PeerKey,
    ) -> Result<Keys, PeerError> {
        check(theirs)?;
        let transcript = digest(&SHA256, &hellos.map(|hello| hello.as_slice()).concat());
        let public = UnparsedPublicKey::new(&X25519, &theirs[10..]);
        let salt = Salt::new(HKDF_SHA256, transcript.as_ref());
        let derive = |secret: &[u8]| salt.extract(&[secret, key.bytes()].concat());
        let secret = agreement::agree_ephemeral(self.private, &public, derive)
            .map_err(|_| PeerError::Foreign)?;
        let mut digest = [0; 32];
        digest.copy_from_slice(transcript.as_ref());
        Ok(Keys { secret, digest })
    }
}

fn check(hello: &[u8; HELLO]) -> Result<(), PeerError> {
    if hello[..8] != *MAGIC {
        return Err(PeerError::Foreign);
    }
    let theirs = u16::from_le_bytes([hello[8], hello[9]]);
    if theirs != PROTOCOL {
        let ours = PROTOCOL;
        return Err(PeerError::Version { theirs, ours });
    }
    Ok(())
}

/// What both sides know.
struct Keys {
    secret: Prk,
    digest: [u8; 32],
}

/// The length of a key, for `ring`.
struct Length;

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        32
    }
}

impl Keys {
    fn derive(&self, label: &str) -> [u8; 32] {
        let mut key = [0; 32];
        let parts = [label.as_bytes()];
        let expanded = self.secret.expand(&parts, Length);
        let filled = expanded.and_then(|okm| okm.fill(&mut key));
        filled.expect("32 bytes are not too many for HKDF");
        key
    }

    fn proof_key(&self, label: &str) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.derive(label))
    }

    fn prove(&self, label: &str) -> hmac::Tag {
        hmac::sign(&self.proof_key(label), &self.digest)
    }

    fn verify(&self, label: &str, proof: &[u8]) -> Result<(), PeerError> {
        hmac::verify(&self.proof_key(label), &self.digest, proof).map_err(|_| PeerError::Key)
    }
}

const HEAD: &str = "strata head proof";
const PEER: &str = "strata peer proof";
const TO_PEER: &str = "strata head to peer";
const TO_HEAD: &str = "strata peer to head";

/// The head's side of a handshake.
pub(crate) fn connect(mut stream: TcpStream, key: &PeerKey) -> Result<Connected, PeerError> {
    let end = Instant::now() + PATIENCE;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(SILENCE))?;
    let side = Side::new()?;
    let own = side.hello;
    stream.write_all(&own)?;
    let mut theirs = [0; HELLO];
    read_by(&mut stream, &mut theirs, end)?;
    let keys = side.agree(&theirs, [&own, &theirs], key)?;
    stream.write_all(keys.prove(HEAD).as_ref())?;
    let mut answer = [0; 1 + PROOF];
    read_by(&mut stream, &mut answer, end)?;
    if answer[0] == 0 {
        return Err(PeerError::Key);
    }
    keys.verify(PEER, &answer[1..])?;
    connected(stream, &keys.derive(TO_PEER), &keys.derive(TO_HEAD))
}

/// The peer's side.
pub(crate) fn accept(mut stream: TcpStream, key: &PeerKey) -> Result<Connected, PeerError> {
    let end = Instant::now() + PATIENCE;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(SILENCE))?;
    let mut theirs = [0; HELLO];
    read_by(&mut stream, &mut theirs, end)?;
    let side = Side::new()?;
    let own = side.hello;
    if theirs[..8] == *MAGIC {
        // One of another version learns which this is.
        stream.write_all(&own)?;
    }
    let keys = side.agree(&theirs, [&theirs, &own], key)?;
    let mut proof = [0; PROOF];
    read_by(&mut stream, &mut proof, end)?;
    if let Err(error) = keys.verify(HEAD, &proof) {
        stream.write_all(&[0; 1 + PROOF])?;
        return Err(error);
    }
    let mut answer = vec![1];
    answer.extend_from_slice(keys.prove(PEER).as_ref());
    stream.write_all(&answer)?;
    connected(stream, &keys.derive(TO_HEAD), &keys.derive(TO_PEER))
}

fn connected(
    stream: TcpStream,
    sends: &[u8; 32],
    receives: &[u8; 32],
) -> Result<Connected, PeerError> {
    stream.set_read_timeout(Some(SILENCE))?;
    Ok(Connected {
        sender: Sender::new(stream.try_clone()?, sends),
        receiver: Receiver::new(stream, receives),
    })
}

/// Fills `bytes` by some time: who sends them one by one gains nothing.
fn read_by(stream: &mut TcpStream, bytes: &mut [u8], end: Instant) -> Result<(), PeerError> {
    let mut read = 0;
    while read < bytes.len() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let seconds = PATIENCE.as_secs();
            return Err(PeerError::Silence { seconds });
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes[read..]) {
            Ok(0) => return Err(PeerError::Connection("the connection was closed".into())),
            Ok(more) => read += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
