//! What a handshake costs the server on one processor, beside rustls with the same certificate and suite:
//! `cargo bench -p strata-tls --bench handshake`. The bare machine's program is made small:
//! `CARGO_PROFILE_BENCH_OPT_LEVEL=z` measures it as it is there.

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{self, cipher_suite};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strata_tls::{Identity, Random, Session};

const SEED: [u8; 32] = [5; 32];
const ROUNDS: usize = 300;
/// What a handshake may take.
const MOST: Duration = Duration::from_millis(50);

/// The server's side, and how long it has worked.
trait Server {
    fn receive(&mut self, bytes: &[u8]);
    fn outgoing(&mut self) -> Vec<u8>;
}

impl Server for Session {
    fn receive(&mut self, bytes: &[u8]) {
        Self::receive(self, bytes);
    }

    fn outgoing(&mut self) -> Vec<u8> {
        let bytes = Self::outgoing(self).to_vec();
        self.sent(bytes.len());
        bytes
    }
}

impl Server for ServerConnection {
    fn receive(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            self.read_tls(&mut bytes).expect("memory");
            self.process_new_packets().expect("a client");
        }
    }

    fn outgoing(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while self.wants_write() {
            self.write_tls(&mut out).expect("memory");
        }
        out
    }
}

/// The time that a server works for one handshake.
fn handshake<S: Server>(config: &Arc<ClientConfig>, new: impl FnOnce() -> S) -> Duration {
    let name = ServerName::try_from("box.example").expect("a name");
    let mut client = ClientConnection::new(Arc::clone(config), name).expect("a client");
    let begin = Instant::now();
    let mut server = new();
    let mut spent = begin.elapsed();
    while client.is_handshaking() || client.wants_write() {
        let mut sent = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut sent).expect("memory");
        }
        let begin = Instant::now();
        if !sent.is_empty() {
            server.receive(&sent);
        }
        let coming = server.outgoing();
        spent += begin.elapsed();
        let mut rest = &coming[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).expect("memory");
            client.process_new_packets().expect("a server");
        }
    }
    client.writer().write_all(b"done").expect("a session");
    spent
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn main() {
    let identity = Arc::new(Identity::self_signed(SEED, &["box.example"]));
    let certificate = CertificateDer::from(identity.certificates()[0].clone());
    let provider = Arc::new(CryptoProvider {
        cipher_suites: vec![cipher_suite::TLS13_CHACHA20_POLY1305_SHA256],
        kx_groups: vec![ring::kx_group::X25519],
        ..ring::default_provider()
    });
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("a certificate");
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let client = client.with_protocol_versions(&[&TLS13]).expect("TLS 1.3");
    let client = client.with_root_certificates(roots).with_no_client_auth();
    let client = Arc::new(client);
    // PKCS#8 (RFC 8410) of the same key.
    let pkcs8 = [
        &b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20"[..],
        &SEED,
    ];
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pkcs8.concat()));
    let server = ServerConfig::builder_with_provider(provider);
    let server = server.with_protocol_versions(&[&TLS13]).expect("TLS 1.3");
    let mut server = server
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("the certificate's key");
    // The other has none either.
    server.send_tls13_tickets = 0;
    let server = Arc::new(server);

    let mut random = Random::new([6; 32]);
    let (mut own, mut theirs) = (Vec::new(), Vec::new());
    // Alternately, so that both see the same disturbances.
    for _ in 0..ROUNDS {
        own.push(handshake(&client, || {
            Session::new(Arc::clone(&identity), &mut random)
        }));
        theirs.push(handshake(&client, || {
            ServerConnection::new(Arc::clone(&server)).expect("a session")
        }));
    }
    let (own, theirs) = (median(own), median(theirs));
    println!(
        "a handshake, medians of {ROUNDS}: {:.3} ms, rustls {:.3} ms, ratio {:.2}",
        own.as_secs_f64() * 1e3,
        theirs.as_secs_f64() * 1e3,
        own.as_secs_f64() / theirs.as_secs_f64()
    );
    assert!(own < MOST, "a handshake takes longer than {MOST:?}");
}
