//! A connection, from the client's first words to its last.

use crate::TlsError;
use crate::client_hello::ClientHello;
use crate::hkdf::{Secret, derive, expand_label, extract, hmac, same};
use crate::identity::Identity;
use crate::random::Random;
use crate::record::{
    ALERT, CHANGE_CIPHER, DATA, Direction, HANDSHAKE, HEADER, LARGEST, OVERHEAD, header,
};
use crate::server_messages::{
    RETRY, certificate, certificate_verify, encrypted_extensions, finished, hello, key_update,
};
use alloc::sync::Arc;
use alloc::vec::Vec;
use ed25519_compact::x25519::{PublicKey, SecretKey};
use strata_platform::Sha256;

/// A client's hello has no more bytes than this, and everything else of it far fewer.
const LARGEST_MESSAGE: usize = 1 << 14;
const CLIENT_HELLO: u8 = 1;
const FINISHED: u8 = 20;
const KEY_UPDATE: u8 = 24;

/// What is waited for.
enum State {
    /// The client's first words, or, if it had to be asked for a key, its second.
    Hello { retried: bool },
    /// The end of its handshake, which says this; then its records are sealed with the next key.
    Finished { code: [u8; 32], next: Secret },
    /// What the connection is for.
    Open,
    /// Nothing.
    Over,
}

/// A server's side of a connection.
pub struct Session {
    identity: Arc<Identity>,
    /// Says who the server is this time, and makes its key.
    random: [[u8; 32]; 2],
    state: State,
    transcript: Sha256,
    reader: Option<Direction>,
    writer: Option<Direction>,
    /// What came and is no whole record yet.
    incoming: Vec<u8>,
    /// What is no whole message yet.
    messages: Vec<u8>,
    /// What was opened and not taken yet.
    opened: Vec<u8>,
    outgoing: Vec<u8>,
    error: Option<TlsError>,
}

impl Session {
    /// A new connection.
    pub fn new(identity: Arc<Identity>, random: &mut Random) -> Self {
        Self {
            identity,
            random: [random.draw(), random.draw()],
            state: State::Hello { retried: false },
            transcript: Sha256::new(),
            reader: None,
            writer: None,
            incoming: Vec::new(),
            messages: Vec::new(),
            opened: Vec::new(),
            outgoing: Vec::new(),
            error: None,
        }
    }

    /// Takes bytes of the wire.
    pub fn receive(&mut self, bytes: &[u8]) {
        if !matches!(self.state, State::Over) {
            self.incoming.extend_from_slice(bytes);
            if let Err(error) = self.records() {
                self.error = Some(error);
                self.end(2, error.alert());
            }
        }
    }

    /// Takes bytes that the client has sealed.
    pub fn read(&mut self, out: &mut [u8]) -> usize {
        let len = out.len().min(self.opened.len());
        out[..len].copy_from_slice(&self.opened[..len]);
        self.opened.drain(..len);
        len
    }

    /// Seals bytes for the client, a record's worth at most, and says how many; none before the handshake is done.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let len = bytes.len().min(LARGEST);
        match (&self.state, &mut self.writer) {
            (State::Open, Some(writer)) if len > 0 => {
                writer.seal(DATA, &bytes[..len], &mut self.outgoing);
                len
            }
            _ => 0,
        }
    }

    /// Tells the client that nothing follows.
    pub fn close(&mut self) {
        if !matches!(self.state, State::Over) {
            self.end(1, 0);
        }
    }

    /// What is to be sent.
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing
    }

    /// So many bytes of it were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.outgoing.drain(..bytes.min(self.outgoing.len()));
    }

    /// Whether nothing more is read or written.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Why it ended, if it was not to end.
    pub fn error(&self) -> Option<TlsError> {
        self.error
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.incoming.len() + self.messages.len() + self.opened.len() + self.outgoing.len()
    }

    fn end(&mut self, level: u8, alert: u8) {
        self.send(ALERT, &[level, alert]);
        self.state = State::Over;
        self.incoming = Vec::new();
    }

    /// Sends a message, sealed where there is a key.
    fn send(&mut self, kind: u8, bytes: &[u8]) {
        for part in bytes.chunks(LARGEST) {
            match &mut self.writer {
                Some(writer) => writer.seal(kind, part, &mut self.outgoing),
                None => {
                    self.outgoing.extend(header(kind, part.len()));
                    self.outgoing.extend(part);
                }
            }
        }
    }

    /// Looks at all whole records.
    fn records(&mut self) -> Result<(), TlsError> {
        while let Some((head, rest)) = self.incoming.split_first_chunk::<HEADER>() {
            let [kind, major, _, high, low] = *head;
            let bytes = usize::from(u16::from_be_bytes([high, low]));
            if !(CHANGE_CIPHER..=DATA).contains(&kind) || major != 3 {
                return Err(TlsError::NotTls);
            }
            if bytes > LARGEST + OVERHEAD {
                return Err(TlsError::TooLong { bytes });
            }
            let Some(record) = rest.get(..bytes) else {
                return Ok(());
            };
            let (head, mut record) = (*head, record.to_vec());
            self.incoming.drain(..HEADER + bytes);
            self.record(head, &mut record)?;
            if matches!(self.state, State::Over) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn record(&mut self, head: [u8; HEADER], record: &mut [u8]) -> Result<(), TlsError> {
        let kind = head[0];
        let unexpected = TlsError::Unexpected { kind };
        // Clients pretend to an older version by this, and may fail before they have keys.
        if kind == CHANGE_CIPHER {
            let early = !matches!(self.state, State::Open);
            return if early && record == [1] {
                Ok(())
            } else {
                Err(unexpected)
            };
        }
        let opening = !matches!(self.state, State::Open);
        let (kind, bytes) = match &mut self.reader {
            Some(_) if kind == ALERT && opening => (kind, &*record),
            Some(reader) if kind == DATA => reader.open(head, record)?,
            Some(_) => return Err(unexpected),
            None => (kind, &*record),
        };
        match (kind, &self.state) {
            (ALERT, _) => {
                self.state = State::Over;
                Ok(())
            }
            (DATA, State::Open) => {
                self.opened.extend_from_slice(bytes);
                Ok(())
            }
            (HANDSHAKE, _) if !bytes.is_empty() => {
                self.messages.extend_from_slice(bytes);
                self.whole_messages()
            }
            _ => Err(TlsError::Unexpected { kind }),
        }
    }

    fn whole_messages(&mut self) -> Result<(), TlsError> {
        while let [kind, a, b, c, rest @ ..] = &self.messages[..] {
            let (kind, bytes) = (*kind, u32::from_be_bytes([0, *a, *b, *c]) as usize);
            if bytes > LARGEST_MESSAGE {
                return Err(TlsError::TooLong { bytes });
            }
            if rest.len() < bytes {
                return Ok(());
            }
            let rest = self.messages.split_off(4 + bytes);
            let message = core::mem::replace(&mut self.messages, rest);
            // After each of these the key is another, so that nothing may follow in the same record.
            if !self.messages.is_empty() {
                return Err(TlsError::Unexpected { kind });
            }
            self.message(kind, &message)?;
        }
        Ok(())
    }

    fn message(&mut self, kind: u8, message: &[u8]) -> Result<(), TlsError> {
        match (kind, &self.state) {
            (CLIENT_HELLO, &State::Hello { retried }) => {
                let hello = ClientHello::parse(&message[4..])?;
                match hello.share {
                    Some(share) => self.answer(message, &hello, share),
                    None if retried => Err(TlsError::Nothing { what: "key" }),
                    None => {
                        self.retry(message, &hello);
                        Ok(())
                    }
                }
            }
            (FINISHED, State::Finished { code, next }) => {
                if !same(code, &message[4..]) {
                    return Err(TlsError::Finished);
                }
                self.reader = Some(Direction::new(*next));
                self.state = State::Open;
                Ok(())
            }
            (KEY_UPDATE, State::Open) => {
                let wants_ours = match message[4..] {
                    [0] => false,
                    [1] => true,
                    _ => return Err(TlsError::Malformed),
                };
                self.reader = self.reader.as_ref().map(Direction::updated);
                if wants_ours {
                    self.send(HANDSHAKE, &key_update());
                    self.writer = self.writer.as_ref().map(Direction::updated);
                }
                Ok(())
            }
            _ => Err(TlsError::Unexpected { kind }),
        }
    }

    /// The handshake so far.
    fn hash(&self) -> [u8; 32] {
        self.transcript.clone().finalize()
    }

    /// Sends a message that is part of the handshake.
    fn say(&mut self, message: &[u8]) {
        self.transcript.update(message);
        self.send(HANDSHAKE, message);
    }

    /// Pretends to an older version, as clients that name a session want it.
    fn change_cipher(&mut self, hello: &ClientHello<'_>) {
        if !hello.session.is_empty() {
            self.outgoing.extend(header(CHANGE_CIPHER, 1));
            self.outgoing.push(1);
        }
    }

    /// Asks for a key of the group that there is.
    fn retry(&mut self, message: &[u8], client: &ClientHello<'_>) {
        // In the transcript, the first words are replaced by their hash.
        self.transcript.update([254, 0, 0, 32]);
        self.transcript.update(Sha256::digest(message));
        self.say(&hello(client, &RETRY, None));
        self.change_cipher(client);
        self.state = State::Hello { retried: true };
    }

    /// The server's whole handshake.
    fn answer(
        &mut self,
        message: &[u8],
        client: &ClientHello<'_>,
        share: [u8; 32],
    ) -> Result<(), TlsError> {
        let [random, secret] = core::mem::take(&mut self.random);
        let secret = SecretKey::new(secret);
        let public = secret.recover_public_key().map_err(|_| TlsError::WeakKey)?;
        let shared = PublicKey::new(share).dh(&secret);
        let shared: Secret = *shared.map_err(|_| TlsError::WeakKey)?;
        self.transcript.update(message);
        self.say(&hello(client, &random, Some(&public)));
        if !matches!(self.state, State::Hello { retried: true }) {
            self.change_cipher(client);
        }

        let nothing = Sha256::digest(b"");
        let early = extract(&[0; 32], &[0; 32]);
        let secret = extract(&derive(&early, "derived", &nothing), &shared);
        let hash = self.hash();
        let theirs = derive(&secret, "c hs traffic", &hash);
        let ours = derive(&secret, "s hs traffic", &hash);
        self.reader = Some(Direction::new(theirs));
        self.writer = Some(Direction::new(ours));
        self.say(&encrypted_extensions(client));
        let identity = Arc::clone(&self.identity);
        self.say(&certificate(&identity));
        self.say(&certificate_verify(&identity, &self.hash()));
        let code = |secret: &Secret, hash: &[u8; 32]| {
            let key: Secret = expand_label(secret, "finished", &[]);
            hmac(&key, hash)
        };
        self.say(&finished(&code(&ours, &self.hash())));

        let hash = self.hash();
        let master = extract(&derive(&secret, "derived", &nothing), &[0; 32]);
        self.writer = Some(Direction::new(derive(&master, "s ap traffic", &hash)));
        self.state = State::Finished {
            code: code(&theirs, &hash),
            next: derive(&master, "c ap traffic", &hash),
        };
        Ok(())
    }
}
