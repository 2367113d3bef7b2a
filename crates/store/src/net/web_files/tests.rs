//! A server of this machine stands for the internet: the fetcher of these tests takes its address for a public one, and
//! no other.

use super::*;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs};
use ureq::unversioned::transport::NextTimeout;

/// `example.test` is the server; everything else is looked up as ever.
#[derive(Debug)]
struct OneHost(SocketAddr, PublicOnly);

impl Resolver for OneHost {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        if uri.host() != Some("example.test") {
            return self.1.resolve(uri, config, timeout);
        }
        let mut found = DefaultResolver::default().empty();
        found.push(self.0);
        Ok(found)
    }
}

/// Answers each path with what it says.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut head = [0; 4096];
                let read = stream.read(&mut head).unwrap_or(0);
                let head = String::from_utf8_lossy(&head[..read]).into_owned();
                let path = head.split(' ').nth(1).unwrap_or("/").to_owned();
                let to = |place: &str| {
                    format!("HTTP/1.1 302 Found\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n")
                };
                let reply = match path.as_str() {
                    "/image" => "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nGIF8".into(),
                    "/moved" => to("/image"),
                    "/round" => to("/round"),
                    "/huge" => "HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n".into(),
                    "/endless" => "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".into(),
                    "/packed" => {
                        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 1\r\n\r\nx"
                            .into()
                    }
                    "/slow" => "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nG".into(),
                    other => match other.strip_prefix("/to/") {
                        Some(place) => to(&place.replacen(':', "://", 1)),
                        None => "HTTP/1.1 404 Not Found\r\ncontent-length: 6\r\n\r\nsecret".into(),
                    },
                };
                let _ = stream.write_all(reply.as_bytes());
                match path.as_str() {
                    "/endless" => while stream.write_all(&[0; 4096]).is_ok() {},
                    "/slow" => std::thread::sleep(Duration::from_secs(3)),
                    _ => {}
                }
            });
        }
    });
    address
}

fn fetch(files: &WebFiles, url: &str) -> Result<Vec<u8>, NetError> {
    files.get(url, 1000, Instant::now() + Duration::from_secs(1))
}

#[test]
fn a_file_is_fetched_within_its_limits() {
    let address = serve();
    let files = WebFiles::with(OneHost(address, PublicOnly::default()), true);
    let fetch = |path: &str| {
        let begun = Instant::now();
        let fetched = fetch(
            &files,
            &format!("http://example.test:{}{path}", address.port()),
        );
        assert!(begun.elapsed() < Duration::from_millis(2500), "{path}");
        fetched
    };
    assert_eq!(fetch("/image").unwrap(), b"GIF8");
    assert_eq!(fetch("/moved").unwrap(), b"GIF8");
    let host = || format!("example.test:{}", address.port());
    assert_eq!(fetch("/round"), Err(NetError::Redirects(host())));
    let large = NetError::TooLarge {
        host: host(),
        most: 1000,
    };
    assert_eq!(fetch("/huge"), Err(large.clone()));
    assert_eq!(fetch("/endless"), Err(large));
    assert!(matches!(fetch("/packed"), Err(NetError::Encoding { .. })));
    assert_eq!(fetch("/slow"), Err(NetError::Stalled(host())));
    let missing = fetch("/none").unwrap_err();
    assert!(matches!(missing, NetError::Status { status: 404, .. }));
    assert!(!missing.to_string().contains("secret"), "{missing}");
}

/// Ways to write addresses of this machine and its network.
fn own_spellings() -> Vec<&'static str> {
    vec![
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1.",
        "localhost",
        "LocalHost",
        "localhost.",
        "x.localhost",
        "0",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]",
        "[2001:0:7f00:1::1]",
        "[fe80::1]",
        "[fd00::1]",
        "[ff02::1]",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
    ]
}

#[test]
fn no_spelling_of_an_own_address_is_connected_to() {
    let address = serve();
    let port = address.port();
    let files = WebFiles::with(OneHost(address, PublicOnly::default()), true);
    for host in own_spellings() {
        let direct = fetch(&files, &format!("http://{host}:{port}/image"));
        let led = fetch(
            &files,
            &format!("http://example.test:{port}/to/http:{host}:{port}/image"),
        );
        for fetched in [direct, led] {
            // Or an address that is none.
            let refused = matches!(fetched, Err(NetError::NotPublic(_) | NetError::Url(_)));
            assert!(refused, "{host}: {fetched:?}");
        }
    }
}

#[test]
fn users_get_tls_and_the_internet_alone() {
    let port = serve().port();
    let files = WebFiles::default();
    let refused = fetch(&files, "http://example.com/image");
    assert!(matches!(refused, Err(NetError::Insecure(_))), "{refused:?}");
    for host in own_spellings() {
        let refused = fetch(&files, &format!("https://{host}:{port}/image"));
        assert!(refused.is_err(), "{host}");
    }
    let refused = fetch(&files, &format!("https://127.0.0.1:{port}/image"));
    assert!(
        matches!(refused, Err(NetError::NotPublic(_))),
        "{refused:?}"
    );
    for bad in [
        "https://",
        "https:///x",
        "file:///etc/passwd",
        "https://user@example.com/",
        "https://example.com:99999/",
        "https://exa mple.com/",
    ] {
        assert!(matches!(fetch(&files, bad), Err(NetError::Url(_))), "{bad}");
    }
}
