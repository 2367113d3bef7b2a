//! Sockets that systemd opened for this process: <https://www.freedesktop.org/software/systemd/man/sd_listen_fds.html>.
#![allow(unsafe_code)]

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

/// A socket that listens already.
#[derive(Debug)]
pub enum ActivatedSocket {
    /// In the file system.
    Unix(UnixListener),
    /// At an address.
    Tcp(TcpListener),
}

/// The first descriptor that is passed.
const FIRST: RawFd = 3;
/// Nobody passes more.
const MOST: RawFd = 64;

/// Takes the sockets that the variables `LISTEN_PID` and `LISTEN_FDS` speak of; none where they speak to another process or
/// are not there. They can be taken once.
pub fn activated_sockets() -> io::Result<Vec<ActivatedSocket>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let variable = |name: &str| std::env::var(name).ok();
    let count = count(
        variable("LISTEN_PID").as_deref(),
        variable("LISTEN_FDS").as_deref(),
        std::process::id(),
    )?;
    if count == 0 || TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    (FIRST..FIRST + count).map(take).collect()
}

/// How many sockets are passed to a process.
fn count(pid: Option<&str>, sockets: Option<&str>, own: u32) -> io::Result<RawFd> {
    if pid.and_then(|pid| pid.parse().ok()) != Some(own) {
        return Ok(0);
    }
    let wrong = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "LISTEN_FDS is not a number of sockets",
        )
    };
    let count = sockets.ok_or_else(wrong)?;
    let count: RawFd = count.parse().map_err(|_| wrong())?;
    if (0..=MOST).contains(&count) {
        Ok(count)
    } else {
        Err(wrong())
    }
}

/// Takes a descriptor, if it is a socket that listens.
fn take(number: RawFd) -> io::Result<ActivatedSocket> {
    if option(number, libc::SO_ACCEPTCONN)? == 0 {
        let problem = format!("descriptor {number} is a socket that does not listen");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    let domain = option(number, libc::SO_DOMAIN)?;
    // SAFETY: it is open, or its options could not have been read; it was passed to this process, which takes it once.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    // Programs that this one starts do not get it.
    // SAFETY: the descriptor is open; this sets a flag of it.
    unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
    match domain {
        libc::AF_UNIX => Ok(ActivatedSocket::Unix(socket.into())),
        libc::AF_INET | libc::AF_INET6 => Ok(ActivatedSocket::Tcp(socket.into())),
        _ => {
            let problem = format!("descriptor {number} is a socket of an unknown kind");
            Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
        }
    }
}

/// An option of a socket.
fn option(number: RawFd, name: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: it is only borrowed for a call, which fails if it is not open.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the system writes at most `length` bytes to `value`, which has as many.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if status == 0 {
        Ok(value)
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::IntoRawFd;

    #[test]
    fn only_sockets_for_this_process_count() {
        assert_eq!(count(None, Some("1"), 7).unwrap(), 0);
        assert_eq!(count(Some("8"), Some("1"), 7).unwrap(), 0);
        assert_eq!(count(Some("7"), Some("2"), 7).unwrap(), 2);
        for wrong in [None, Some(""), Some("-1"), Some("65"), Some("two")] {
            assert!(count(Some("7"), wrong, 7).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_listens_is_taken_and_nothing_else() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let taken = take(listener.into_raw_fd()).unwrap();
        assert!(matches!(taken, ActivatedSocket::Tcp(it) if it.local_addr().unwrap() == address));
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(take(one.as_raw_fd()).is_err());
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(take(file.as_raw_fd()).is_err());
        assert!(take(9999).is_err());
    }
}
