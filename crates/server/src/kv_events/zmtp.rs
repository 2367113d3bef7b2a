//! The publishing side of ZMTP 3.0 with the mechanism NULL: <https://rfc.zeromq.org/spec/23/>.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// How long a peer has to say who it is.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a subscriber may take to read a message.
const STALL: Duration = Duration::from_secs(30);
/// Bytes of what a subscriber says at most.
const LONGEST: u64 = 4096;
/// Subscriptions of one peer at most.
const SUBSCRIPTIONS: usize = 256;

/// Flags of a frame.
const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// A message of several frames; the first is what subscribers choose by.
pub(super) type Message = Arc<[Vec<u8>]>;

/// Speaks with one subscriber until it goes away.
pub(super) async fn publish<S>(stream: S, mut messages: Receiver<Message>) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut reader, mut writer) = tokio::io::split(stream);
    tokio::time::timeout(HANDSHAKE, greet(&mut reader, &mut writer)).await??;
    let mut topics = Topics::default();
    let (said, mut heard) = tokio::sync::mpsc::channel(16);
    // A frame must be read to its end, whatever is to be written meanwhile.
    let listen = async move {
        loop {
            let frame = read_frame(&mut reader).await?;
            if said.send(frame).await.is_err() {
                return io::Result::Ok(());
            }
        }
    };
    let speak = async move {
        loop {
            let out = tokio::select! {
                frame = heard.recv() => match frame {
                    Some((flags, body)) => topics.hear(flags, &body),
                    None => return io::Result::Ok(()),
                },
                message = messages.recv() => match message {
                    Ok(message) if topics.want(&message[0]) => encode(&message),
                    Ok(_) => continue,
                    // Who reads too slowly misses some, and sees so by their numbers.
                    Err(RecvError::Lagged(_)) => continue,
                    Err(RecvError::Closed) => return Ok(()),
                },
            };
            tokio::time::timeout(STALL, writer.write_all(&out)).await??;
        }
    };
    tokio::select! {
        ended = listen => ended,
        ended = speak => ended,
    }
}

/// Tells a peer who we are, and makes sure that it subscribes.
async fn greet<R, W>(reader: &mut R, writer: &mut W) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut greeting = [0; 64];
    (greeting[0], greeting[8], greeting[9], greeting[10]) = (0xff, 1, 0x7f, 3);
    greeting[12..16].copy_from_slice(b"NULL");
    writer.write_all(&greeting).await?;
    let mut theirs = [0; 64];
    reader.read_exact(&mut theirs).await?;
    let speaks = theirs[0] == 0xff && theirs[9] & 1 == 1 && theirs[10] >= 3;
    if !speaks || !theirs[12..32].starts_with(b"NULL\0") {
        return Err(wrong("the peer does not speak ZMTP 3 without a mechanism"));
    }
    let ready = [
        b"\x05READY\x0bSocket-Type".as_slice(),
        &[0, 0, 0, 3],
        b"PUB",
    ]
    .concat();
    writer.write_all(&frame(COMMAND, &ready)).await?;
    let (flags, body) = read_frame(reader).await?;
    let subscribes = |body: &[u8]| {
        let socket = property(body, b"Socket-Type");
        matches!(socket, Some(b"SUB" | b"XSUB"))
    };
    match body.strip_prefix(b"\x05READY") {
        Some(properties) if flags & COMMAND > 0 && subscribes(properties) => Ok(()),
        _ => Err(wrong("the peer does not subscribe")),
    }
}

/// What a peer's properties say under a name.
fn property<'b>(mut body: &'b [u8], wanted: &[u8]) -> Option<&'b [u8]> {
    loop {
        let (&length, rest) = body.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(length))?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        if name.eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        body = rest;
    }
}

/// What a subscriber wants to hear of.
#[derive(Debug, Default)]
struct Topics(BTreeMap<Vec<u8>, usize>);

impl Topics {
    fn want(&self, topic: &[u8]) -> bool {
        self.0.keys().any(|prefix| topic.starts_with(prefix))
    }

    /// Takes in what a peer says, and gives what is to be said to it.
    fn hear(&mut self, flags: u8, body: &[u8]) -> Vec<u8> {
        let command = flags & COMMAND > 0;
        let subscribed = if command {
            body.strip_prefix(b"\x09SUBSCRIBE")
        } else {
            body.strip_prefix(b"\x01")
        };
        let canceled = if command {
            body.strip_prefix(b"\x06CANCEL")
        } else {
            body.strip_prefix(b"\x00")
        };
        if let Some(prefix) = subscribed {
            if self.0.len() < SUBSCRIPTIONS {
                *self.0.entry(prefix.to_vec()).or_default() += 1;
            }
        } else if let Some(prefix) = canceled {
            if let Some(count) = self.0.get_mut(prefix) {
                *count -= 1;
                if *count == 0 {
                    self.0.remove(prefix);
                }
            }
        } else if let Some(rest) = body.strip_prefix(b"\x04PING").filter(|_| command) {
            // Two bytes say how long the peer waits; the rest comes back.
            let context = rest.get(2..).unwrap_or_default();
            return frame(COMMAND, &[b"\x04PONG", context].concat());
        }
        Vec::new()
    }
}

fn wrong(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

async fn read_frame<R: AsyncRead + Unpin>(reader: &mut R) -> io::Result<(u8, Vec<u8>)> {
    let flags = reader.read_u8().await?;
    let length = if flags & LONG > 0 {
        reader.read_u64().await?
    } else {
        u64::from(reader.read_u8().await?)
    };
    if flags & !(MORE | LONG | COMMAND) > 0 || length > LONGEST {
        return Err(wrong("a frame that no subscriber sends"));
    }
    let mut body = vec![0; length as usize];
    reader.read_exact(&mut body).await?;
    Ok((flags, body))
}

fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 9);
    match u8::try_from(body.len()) {
        Ok(length) => out.extend([flags, length]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend((body.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(body);
    out
}

fn encode(message: &[Vec<u8>]) -> Vec<u8> {
    let last = message.len().saturating_sub(1);
    let frames = message.iter().enumerate();
    let frames = frames.map(|(at, body)| frame(if at < last { MORE } else { 0 }, body));
    frames.collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;
    use tokio::sync::broadcast;

    /// What a subscriber of libzmq sends first.
    fn subscriber() -> Vec<u8> {
        let mut bytes = vec![0; 64];
        (bytes[0], bytes[9], bytes[10], bytes[11]) = (0xff, 0x7f, 3, 1);
        bytes[12..16].copy_from_slice(b"NULL");
        let ready = b"\x05READY\x0bSocket-Type\0\0\0\x03SUB\x08Identity\0\0\0\0";
        bytes.extend(frame(COMMAND, ready));
        bytes
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(test);
    }

    #[test]
    fn a_subscriber_gets_what_it_asked_for() {
        run(async {
            let (ours, mut theirs) = duplex(1 << 16);
            let (sender, receiver) = broadcast::channel(16);
            let publishing = tokio::spawn(publish(ours, receiver));
            theirs.write_all(&subscriber()).await.unwrap();
            theirs.write_all(&frame(0, b"\x01kv@a")).await.unwrap();
            theirs
                .write_all(&frame(COMMAND, b"\x04PING\0\x01hi"))
                .await
                .unwrap();
            let mut greeting = [0; 64 + 2 + 25];
            theirs.read_exact(&mut greeting).await.unwrap();
            assert_eq!(greeting[66..], *b"\x05READY\x0bSocket-Type\0\0\0\x03PUB");
            let mut pong = [0; 9];
            theirs.read_exact(&mut pong).await.unwrap();
            assert_eq!(&pong, b"\x04\x07\x04PONGhi");
            let message = |topic: &str| Message::from([topic.as_bytes().to_vec(), vec![7; 300]]);
            sender.send(message("kv@b")).unwrap();
            sender.send(message("kv@a@m")).unwrap();
            let mut got = [0; 2 + 6 + 9 + 300];
            theirs.read_exact(&mut got).await.unwrap();
            assert_eq!(got[..8], *b"\x01\x06kv@a@m");
            assert_eq!(got[8..17], [LONG, 0, 0, 0, 0, 0, 0, 1, 44]);
            drop(theirs);
            assert!(publishing.await.unwrap().is_err());
        });
    }

    #[test]
    fn other_peers_are_sent_away() {
        let good = subscriber();
        let publisher = String::from_utf8_lossy(&good).replace("SUB", "PUB");
        let mut plain = good.clone();
        plain[12..17].copy_from_slice(b"PLAIN");
        let mut old = good.clone();
        old[10] = 1;
        let mut huge = good[..64].to_vec();
        huge.extend([COMMAND | LONG, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        let cut = [&good[..64], b"\x04\x0a\x05READY\xff\0\0"].concat();
        let http = b"GET / HTTP/1.1\r\n\r\n".repeat(9);
        for bytes in [publisher.into_bytes(), plain, old, huge, cut, http] {
            run(async {
                let (ours, mut theirs) = duplex(1 << 16);
                let (_sender, receiver) = broadcast::channel(16);
                theirs.write_all(&bytes).await.unwrap();
                assert!(publish(ours, receiver).await.is_err(), "{bytes:?}");
            });
        }
    }

    #[test]
    fn subscriptions_are_counted() {
        let mut topics = Topics::default();
        assert!(!topics.want(b"kv"));
        topics.hear(0, b"\x01");
        assert!(topics.want(b"kv"));
        topics.hear(COMMAND, b"\x09SUBSCRIBE");
        topics.hear(0, b"\x00");
        assert!(topics.want(b"kv"));
        topics.hear(COMMAND, b"\x06CANCEL");
        assert!(!topics.want(b"kv"));
        topics.hear(0, b"\x00");
        for number in 0..1000u32 {
            topics.hear(0, &[b"\x01".as_slice(), &number.to_be_bytes()].concat());
        }
        assert_eq!(topics.0.len(), SUBSCRIPTIONS);
    }
}
