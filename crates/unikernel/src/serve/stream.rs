//! A client's bytes on their way between the network and HTTP: as they are, or sealed.

use crate::network::Connection;
use alloc::sync::Arc;
use strata_tls::{Identity, Random, Session};
use strata_wire::http;

/// Who the server is to clients that want to know, and what makes keys for them.
pub struct Tls {
    identity: Arc<Identity>,
    random: Random,
}

impl Tls {
    /// A server of an identity, with random numbers that nobody can guess.
    pub fn new(identity: Identity, seed: [u8; 32]) -> Self {
        Self {
            identity: Arc::new(identity),
            random: Random::new(seed),
        }
    }

    pub(super) fn session(&mut self) -> Session {
        Session::new(Arc::clone(&self.identity), &mut self.random)
    }
}

/// Reads what a client says, as far as there is room for it.
pub(super) fn read(
    session: &mut Option<Session>,
    http: &mut http::Connection,
    connection: &mut Connection<'_>,
    now: u64,
) {
    let mut buffer = [0; 2048];
    loop {
        let room = http.room().min(buffer.len());
        let Some(session) = session.as_mut() else {
            match connection.receive(&mut buffer[..room]) {
                0 => return,
                len => http.feed(&buffer[..len], now),
            }
            continue;
        };
        let opened = session.read(&mut buffer[..room]);
        if opened > 0 {
            http.feed(&buffer[..opened], now);
        } else if room == 0 {
            return;
        } else {
            match connection.receive(&mut buffer) {
                0 => return,
                len => session.receive(&buffer[..len]),
            }
        }
    }
}

/// Sends what can be sent, and ends the connection when all is said.
pub(super) fn send(
    session: &mut Option<Session>,
    http: &mut http::Connection,
    connection: &mut Connection<'_>,
    now: u64,
) {
    let Some(session) = session else {
        let sent = connection.send(http.outgoing());
        http.sent(sent, now);
        if http.is_over() {
            connection.close();
        }
        return;
    };
    // A record at a time, so that what the client does not take waits where it is counted.
    if session.outgoing().is_empty() {
        let taken = session.write(http.outgoing());
        http.sent(taken, now);
    }
    if http.is_over() {
        session.close();
    }
    let sent = connection.send(session.outgoing());
    session.sent(sent);
    if session.is_over() && session.outgoing().is_empty() {
        connection.close();
    }
}
