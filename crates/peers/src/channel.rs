//! Frames over TCP: a length, what it says sealed with AES-256-GCM, and the tag. The nonce counts a direction's frames, so
//! that none can be left out, repeated or moved; the length is authenticated too.

use crate::error::PeerError;
use crate::message::Message;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// A side that has said nothing for so long is lost: whoever computes says so each second.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);

/// Bytes of a frame at most.
const LONGEST: usize = 1 << 30;

/// Memory for a frame is taken as its bytes come, this much at a time.
const STEP: usize = 1 << 20;

/// Bytes that wait to be sent together at most.
const WAITING: usize = 1 << 20;

const TAG: usize = 16;

/// A key and how many frames it has sealed or opened.
struct Counted {
    key: LessSafeKey,
    frames: u64,
}

impl Counted {
    fn new(key: &[u8; 32]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, key).expect("32 bytes are such a key");
        Self {
            key: LessSafeKey::new(key),
            frames: 0,
        }
    }

    fn nonce(&mut self) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        nonce[..8].copy_from_slice(&self.frames.to_le_bytes());
        self.frames += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

/// The half of a connection that sends.
pub(crate) struct Sender {
    stream: TcpStream,
    key: Counted,
    out: Vec<u8>,
}

impl Sender {
    pub(crate) fn new(stream: TcpStream, key: &[u8; 32]) -> Self {
        Self {
            stream,
            key: Counted::new(key),
            out: Vec::new(),
        }
    }

    /// Has a message wait, to be sent with the next that is flushed.
    pub(crate) fn push(&mut self, message: &Message<'_>) -> Result<(), PeerError> {
        let start = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        message.write(&mut self.out);
        let bytes = self.out.len() - start - 4;
        if bytes > LONGEST {
            self.out.truncate(start);
            return Err(PeerError::Long { bytes });
        }
        let length = (bytes as u32).to_le_bytes();
        self.out[start..start + 4].copy_from_slice(&length);
        let nonce = self.key.nonce();
        let (key, sealed) = (&self.key.key, &mut self.out[start + 4..]);
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(length), sealed);
        let tag = tag.map_err(|_| PeerError::Forged)?;
        self.out.extend_from_slice(tag.as_ref());
        if self.out.len() > WAITING {
            self.flush()?;
        }
        Ok(())
    }

    /// Sends what waits.
    pub(crate) fn flush(&mut self) -> Result<(), PeerError> {
        let sent = self.stream.write_all(&self.out);
        self.out.clear();
        Ok(sent?)
    }

    /// Sends a message, and what waits before it.
    pub(crate) fn send(&mut self, message: &Message<'_>) -> Result<(), PeerError> {
        self.push(message)?;
        self.flush()
    }

    /// Whether the other side is on this machine.
    pub(crate) fn is_here(&self) -> bool {
        let address = self.stream.peer_addr();
        address.is_ok_and(|address| address.ip().is_loopback())
    }

    /// Ends the connection for both halves.
    pub(crate) fn close(&self) {
        // It may have ended already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// The half that receives.
pub(crate) struct Receiver {
    stream: BufReader<TcpStream>,
    key: Counted,
    frame: Vec<u8>,
}

impl Receiver {
    pub(crate) fn new(stream: TcpStream, key: &[u8; 32]) -> Self {
        Self {
            stream: BufReader::with_capacity(1 << 16, stream),
            key: Counted::new(key),
            frame: Vec::new(),
        }
    }

    /// Waits for the next message.
    pub(crate) fn receive(&mut self) -> Result<Message<'_>, PeerError> {
        self.next()?;
        self.message()
    }

    /// Waits for the next message, and says whether it is more than a sign of life.
    pub(crate) fn wait(&mut self) -> Result<bool, PeerError> {
        self.next()?;
        Ok(self.message()? != Message::Working)
    }

    /// The message that came last.
    pub(crate) fn message(&self) -> Result<Message<'_>, PeerError> {
        Message::parse(&self.frame)
    }

    /// Has the next frame's bytes in `frame`.
    fn next(&mut self) -> Result<(), PeerError> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let bytes = u32::from_le_bytes(length) as usize;
        if bytes > LONGEST {
            return Err(PeerError::Long { bytes });
        }
        let all = bytes + TAG;
        self.frame.truncate(all);
        let mut read = 0;
        while read < all {
            let end = all.min(read + STEP);
            if self.frame.len() < end {
                self.frame.resize(end, 0);
            }
            self.stream.read_exact(&mut self.frame[read..end])?;
            read = end;
        }
        let nonce = self.key.nonce();
        let key = &self.key.key;
        let opened = key.open_in_place(nonce, Aad::from(length), &mut self.frame);
        opened.map_err(|_| PeerError::Forged)?;
        self.frame.truncate(bytes);
        Ok(())
    }
}
