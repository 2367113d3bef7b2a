//! What a connection, a client, a request and a model may take of a server, in one table.
//!
//! Both servers keep to it: they check it at the door, before work begins, and list it in `/metrics`. `SECURITY.md` has
//! the same table with its defaults.

use alloc::string::String;
use core::fmt::Write;
use core::time::Duration;
use strata_chat::budgets::{
    BYTES_OF_AN_ERROR, INPUTS, MESSAGES, TOKENIZED_BYTES, VALUES_OF_A_BODY,
};

/// The limits of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// How long a connection may take to send its first byte.
    pub first_byte: Duration,
    /// How long a client may take for a request's head.
    pub head: Duration,
    /// How long a connection may stay open without a request.
    pub idle: Duration,
    /// How long a client may take nothing of what it is sent.
    pub stall: Duration,
    /// How long a body may come slowly; from then on it must have come at [`body_rate`](Self::body_rate).
    pub body_grace: Duration,
    /// Bytes of a body in a second, on average.
    pub body_rate: usize,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// Bytes of a request's target.
    pub target_bytes: usize,
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Bytes of a body that needs no place among the large ones.
    pub small_body_bytes: usize,
    /// Bodies that are larger, at a time; others wait.
    pub large_bodies: usize,
    /// Requests at a time, from all clients.
    pub requests: usize,
    /// Streams of an HTTP/2 connection.
    pub streams: usize,
    /// Connections, from all clients. One that says nothing costs little, and one that is ended comes again at once: so there
    /// are many.
    pub connections: usize,
    /// Connections of one address.
    pub address_connections: usize,
    /// Connections beyond these, which are answered `/health` alone.
    pub health_connections: usize,
    /// Threads that parse, render and tokenize requests.
    pub preparing_threads: usize,
    /// Requests with a grammar that are compiled or wait for it on a thread.
    pub grammar_threads: usize,
    /// Threads that write uploads to the disk.
    pub upload_threads: usize,
    /// Requests whose images are fetched or made ready at a time; others wait.
    pub image_fetches: usize,
    /// Of one client.
    pub client_image_fetches: usize,
    /// Images of a request that are fetched. Together they have as many bytes as a body may have.
    pub image_urls: usize,
    /// How long all of them may take.
    pub image_fetch: Duration,
}

impl Budgets {
    /// On an operating system.
    pub const SERVER: Self = Self {
        first_byte: Duration::from_secs(10),
        head: Duration::from_secs(30),
        idle: Duration::from_secs(60),
        stall: Duration::from_secs(30),
        body_grace: Duration::from_secs(20),
        body_rate: 32 << 10,
        head_bytes: 64 << 10,
        target_bytes: 8 << 10,
        body_bytes: 32 << 20,
        small_body_bytes: 128 << 10,
        large_bodies: 4,
        requests: 1024,
        streams: 32,
        connections: 8192,
        address_connections: 4096,
        health_connections: 16,
        preparing_threads: 2,
        grammar_threads: 8,
        upload_threads: 4,
        image_fetches: 8,
        client_image_fetches: 4,
        image_urls: 16,
        image_fetch: Duration::from_secs(20),
    };

    /// On bare metal: one thread, and memory that the model needs.
    pub const BARE_METAL: Self = Self {
        body_grace: Duration::from_secs(30),
        head_bytes: 16 << 10,
        body_bytes: 1 << 20,
        small_body_bytes: 1 << 20,
        large_bodies: 0,
        requests: 48,
        streams: 0,
        connections: 48,
        address_connections: 40,
        health_connections: 0,
        preparing_threads: 0,
        grammar_threads: 0,
        upload_threads: 0,
        image_fetches: 0,
        client_image_fetches: 0,
        image_urls: 0,
        ..Self::SERVER
    };

    /// How many bytes a body must have brought after so long.
    pub fn due(&self, elapsed: Duration) -> u64 {
        let late = elapsed.saturating_sub(self.body_grace);
        late.as_millis() as u64 * self.body_rate as u64 / 1000
    }

    /// The limits under the names that `/metrics` and `SECURITY.md` have for them.
    pub fn rows(&self) -> [(&'static str, u64); 27] {
        [
            ("first_byte_seconds", self.first_byte.as_secs()),
            ("head_seconds", self.head.as_secs()),
            ("idle_seconds", self.idle.as_secs()),
            ("stall_seconds", self.stall.as_secs()),
            ("body_grace_seconds", self.body_grace.as_secs()),
            ("body_bytes_per_second", self.body_rate as u64),
            ("head_bytes", self.head_bytes as u64),
            ("target_bytes", self.target_bytes as u64),
            ("body_bytes", self.body_bytes as u64),
            ("small_body_bytes", self.small_body_bytes as u64),
            ("large_bodies", self.large_bodies as u64),
            ("requests", self.requests as u64),
            ("streams", self.streams as u64),
            ("connections", self.connections as u64),
            ("address_connections", self.address_connections as u64),
            ("health_connections", self.health_connections as u64),
            ("preparing_threads", self.preparing_threads as u64),
            ("grammar_threads", self.grammar_threads as u64),
            ("upload_threads", self.upload_threads as u64),
            ("image_fetches", self.image_fetches as u64),
            ("client_image_fetches", self.client_image_fetches as u64),
            ("image_urls", self.image_urls as u64),
            ("image_fetch_seconds", self.image_fetch.as_secs()),
            ("json_values", VALUES_OF_A_BODY as u64),
            ("messages", MESSAGES as u64),
            ("inputs", INPUTS as u64),
            ("tokenized_bytes", TOKENIZED_BYTES as u64),
        ]
    }

    /// Writes the limits for Prometheus.
    pub fn write(&self, out: &mut String) {
        out.push_str(
            "# HELP strata:limit What clients may take at most.\n# TYPE strata:limit gauge\n",
        );
        for (name, value) in self.rows() {
            // Writing to a string does not fail.
            let _ = writeln!(out, "strata:limit{{name=\"{name}\"}} {value}");
        }
        let _ = writeln!(
            out,
            "strata:limit{{name=\"error_bytes\"}} {BYTES_OF_AN_ERROR}"
        );
    }
}

impl Default for Budgets {
    fn default() -> Self {
        Self::SERVER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_must_keep_its_rate_once_its_grace_is_over() {
        let budgets = Budgets::SERVER;
        assert_eq!(budgets.due(budgets.body_grace), 0);
        let later = budgets.body_grace + Duration::from_secs(3);
        assert_eq!(budgets.due(later), 3 * budgets.body_rate as u64);
    }

    #[test]
    fn the_document_has_the_table() {
        let document = include_str!("../../../SECURITY.md");
        for (name, value) in Budgets::SERVER.rows() {
            let row = alloc::format!("| `{name}` | {value} |");
            assert!(document.contains(&row), "SECURITY.md lacks {row}");
        }
    }
}
