//! Sessions with clients that others have written: rustls, and OpenSSL where it is installed.

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use strata_tls::{Identity, Random, Session, TlsError};

const NAMES: [&str; 3] = ["box.example", "127.0.0.1", "::1"];

fn identity() -> Arc<Identity> {
    Arc::new(Identity::self_signed([5; 32], &NAMES))
}

fn session() -> Session {
    Session::new(identity(), &mut Random::new([6; 32]))
}

fn client_of(config: ClientConfig, name: &'static str) -> ClientConnection {
    let name = ServerName::try_from(name).unwrap();
    ClientConnection::new(Arc::new(config), name).unwrap()
}

fn config(roots: &Identity) -> ClientConfig {
    let mut store = RootCertStore::empty();
    let certificate = roots.certificates()[0].clone();
    store.add(CertificateDer::from(certificate)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap();
    builder.with_root_certificates(store).with_no_client_auth()
}

/// Moves bytes in pieces of a size until nobody has any, or the client has failed.
fn talk(
    client: &mut ClientConnection,
    server: &mut Session,
    piece: usize,
) -> Result<(), rustls::Error> {
    loop {
        let mut sent = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut sent).unwrap();
        }
        sent.chunks(piece).for_each(|part| server.receive(part));
        let coming = server.outgoing().to_vec();
        server.sent(coming.len());
        let done = sent.is_empty() && coming.is_empty();
        let mut rest = &coming[..];
        while !rest.is_empty() {
            let mut part = &rest[..piece.min(rest.len())];
            let taken = client.read_tls(&mut part).unwrap();
            rest = &rest[taken..];
            client.process_new_packets()?;
        }
        if done {
            return Ok(());
        }
    }
}

fn read_all(server: &mut Session) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = [0; 1000];
    loop {
        match server.read(&mut bytes) {
            0 => return out,
            len => out.extend(&bytes[..len]),
        }
    }
}

fn exchange(mut client: ClientConnection, piece: usize) -> ClientConnection {
    let mut server = session();
    talk(&mut client, &mut server, piece).unwrap();
    assert!(!client.is_handshaking() && server.error().is_none());
    let long: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
    let mut rest = &long[..];
    let mut heard: Vec<u8> = Vec::new();
    while !rest.is_empty() {
        let taken = client.writer().write(rest).unwrap();
        rest = &rest[taken..];
        talk(&mut client, &mut server, piece).unwrap();
        heard.extend(read_all(&mut server));
    }
    assert_eq!(heard, long);
    let mut rest = &long[..];
    let mut back: Vec<u8> = Vec::new();
    while !rest.is_empty() {
        let taken = server.write(rest);
        assert!(taken > 0);
        rest = &rest[taken..];
        talk(&mut client, &mut server, piece).unwrap();
        let mut bytes = [0; 20_000];
        while let Ok(len @ 1..) = client.reader().read(&mut bytes) {
            back.extend(&bytes[..len]);
        }
    }
    assert_eq!(back, long);
    // New keys, theirs and then ours.
    client.refresh_traffic_keys().unwrap();
    client.writer().write_all(b"after").unwrap();
    talk(&mut client, &mut server, piece).unwrap();
    assert_eq!(read_all(&mut server), b"after");
    assert_eq!(server.write(b"so it is"), 8);
    talk(&mut client, &mut server, piece).unwrap();
    let mut bytes = [0; 8];
    client.reader().read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"so it is");
    server.close();
    talk(&mut client, &mut server, piece).unwrap();
    assert_eq!(client.reader().read(&mut bytes).unwrap(), 0);
    assert!(server.is_over());
    client
}

#[test]
fn rustls_says_and_hears_what_was_meant() {
    for (name, piece) in [("box.example", usize::MAX), ("127.0.0.1", 1000), ("::1", 7)] {
        let mut config = config(&identity());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let client = exchange(client_of(config, name), piece);
        assert_eq!(client.alpn_protocol(), Some(&b"http/1.1"[..]));
        let suite = client.negotiated_cipher_suite().unwrap().suite();
        assert_eq!(suite, rustls::CipherSuite::TLS13_CHACHA20_POLY1305_SHA256);
    }
}

/// A client that offers a key of another group first is asked for one of ours.
#[test]
fn a_client_is_asked_for_another_key() {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.kx_groups = vec![
        rustls::crypto::ring::kx_group::SECP256R1,
        rustls::crypto::ring::kx_group::X25519,
    ];
    let mut store = RootCertStore::empty();
    let certificate = identity().certificates()[0].clone();
    store.add(CertificateDer::from(certificate)).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(provider));
    let builder = builder
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap();
    let config = builder.with_root_certificates(store).with_no_client_auth();
    exchange(client_of(config, "box.example"), 100);
}

#[test]
fn a_client_that_trusts_another_is_not_served() {
    let other = Identity::self_signed([9; 32], &NAMES);
    for (roots, name) in [(&other, "box.example"), (&*identity(), "other.example")] {
        let mut client = client_of(config(roots), name);
        let mut server = session();
        assert!(talk(&mut client, &mut server, 1000).is_err());
        let mut alert = Vec::new();
        client.write_tls(&mut alert).unwrap();
        server.receive(&alert);
        assert!(server.is_over());
        assert_eq!(server.write(b"secret"), 0);
    }
}

/// A bit of a client's records that is changed on the way is noticed, and none makes the server panic.
#[test]
fn changed_records_end_the_session() {
    let first = |client: &mut ClientConnection| {
        let mut sent = Vec::new();
        client.write_tls(&mut sent).unwrap();
        sent
    };
    let hello = first(&mut client_of(config(&identity()), "box.example"));
    for at in 0..hello.len() {
        let mut changed = hello.clone();
        changed[at] ^= 1 << (at % 8);
        session().receive(&changed);
        session().receive(&hello[..at]);
    }
    let mut client = client_of(config(&identity()), "box.example");
    let mut server = session();
    talk(&mut client, &mut server, usize::MAX).unwrap();
    client.writer().write_all(b"{\"model\":\"tale\"}").unwrap();
    let mut record = first(&mut client);
    let last = record.len() - 1;
    record[last] ^= 1;
    server.receive(&record);
    assert_eq!(server.error(), Some(TlsError::Changed));
    assert!(server.is_over() && read_all(&mut server).is_empty());
    assert!(!server.outgoing().is_empty(), "the client is told");
}

#[test]
fn what_is_no_tls_13_is_refused() {
    for (bytes, error) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], TlsError::NotTls),
        (
            &[22, 3, 1, 0xff, 0xff][..],
            TlsError::TooLong { bytes: 0xffff },
        ),
        (&[23, 3, 3, 0, 1, 0][..], TlsError::Unexpected { kind: 23 }),
        (
            &[22, 3, 1, 0, 4, 20, 0, 0, 0][..],
            TlsError::Unexpected { kind: 20 },
        ),
        (&[22, 3, 1, 0, 4, 1, 0, 0, 0][..], TlsError::Malformed),
        (
            &[22, 3, 1, 0, 4, 1, 1, 0, 0][..],
            TlsError::TooLong { bytes: 1 << 16 },
        ),
    ] {
        let mut server = session();
        server.receive(bytes);
        assert_eq!(server.error(), Some(error), "{bytes:?}");
        assert!(server.is_over() && server.outgoing().starts_with(&[21, 3, 3]));
    }
    // A hello of a client that speaks nothing newer than TLS 1.2: no extensions.
    let mut hello = vec![22, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0x13, 3, 1, 0]);
    let mut server = session();
    server.receive(&hello);
    assert_eq!(server.error(), Some(TlsError::Version));
}

/// Serves one connection: says in capitals what it hears, line by line.
fn echo(listener: &TcpListener) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut server = session();
    let mut bytes = [0; 4096];
    loop {
        let len = stream.read(&mut bytes).unwrap_or(0);
        server.receive(&bytes[..len]);
        let heard = read_all(&mut server).to_ascii_uppercase();
        server.write(&heard);
        if heard.ends_with(b"\n") {
            server.close();
        }
        let out = server.outgoing().to_vec();
        server.sent(out.len());
        if stream.write_all(&out).is_err() || server.is_over() || len == 0 {
            return drop::<TcpStream>(stream);
        }
    }
}

#[test]
fn openssl_verifies_the_certificate_and_talks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("certificate.der");
    std::fs::write(&path, &identity().certificates()[0]).unwrap();
    let pem = folder.path().join("certificate.pem");
    let converted = Command::new("openssl")
        .args(["x509", "-inform", "DER", "-in"])
        .arg(&path)
        .arg("-out")
        .arg(&pem)
        .output();
    match converted {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => return eprintln!("skipped: openssl cannot be started: {error}"),
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serving = std::thread::spawn(move || echo(&listener));
    let mut client = Command::new("openssl")
        .args([
            "s_client",
            "-quiet",
            "-verify_return_error",
            "-verify_ip",
            "127.0.0.1",
        ])
        .args(["-tls1_3", "-CAfile"])
        .arg(&pem)
        .args(["-connect", &address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    client
        .stdin
        .as_mut()
        .unwrap()
        .write_all(b"once upon a time\n")
        .unwrap();
    let output = client.wait_with_output().unwrap();
    serving.join().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.stdout, b"ONCE UPON A TIME\n", "{told}");
    assert!(told.contains("verify return:1"), "{told}");
}
