//! How many connections may wait to be accepted.
#![allow(unsafe_code)]

use std::net::TcpListener;

/// What is asked for; the system may allow less.
#[cfg(unix)]
const WAITING: i32 = 4096;

/// Lets more connections wait than the 128 that the standard library asks for: whoever finds the queue full tries again only
/// after a second.
pub fn lengthen_accept_queue(listener: &TcpListener) {
    #[cfg(unix)]
    {
        use std::os::fd::AsRawFd;
        // SAFETY: it is the descriptor of a socket that listens already; this changes its queue and nothing else.
        unsafe { libc::listen(listener.as_raw_fd(), WAITING) };
    }
    #[cfg(not(unix))]
    let _ = listener;
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::net::TcpStream;
    use std::time::{Duration, Instant};

    #[test]
    fn hundreds_of_connections_can_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        lengthen_accept_queue(&listener);
        let address = listener.local_addr().unwrap();
        let start = Instant::now();
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(5)).unwrap();
        let waiting: Vec<TcpStream> = (0..300).map(connect).collect();
        assert!(
            start.elapsed() < Duration::from_millis(900),
            "{:?}",
            start.elapsed()
        );
        drop(waiting);
    }
}
