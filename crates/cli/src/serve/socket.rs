//! The socket for users of this machine, and sockets that systemd passes.

use super::listening::ListenArguments;
use crate::failure::{Failure, Kind};
use std::net::SocketAddr;
use std::path::PathBuf;
use strata_server::{Bound, Door, SessionSettings};

/// Where users of this machine reach the server without a key.
#[derive(clap::Args)]
pub(super) struct SocketArguments {
    /// Unix socket for users of this machine. The system says who they are, so they need no key, and they can hold sessions
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Who may use the socket: the mode of its file
    #[arg(long, value_name = "MODE", default_value = "0600", value_parser = mode, requires = "socket")]
    socket_mode: u32,
    /// Listen at the socket only, and at no port
    #[arg(long, requires = "socket", conflicts_with_all = ["host", "port"])]
    socket_only: bool,
    /// Maximum number of sessions of a user
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65536))]
    sessions_per_user: u32,
}

/// Where to listen.
pub(super) struct Doors {
    pub(super) door: Door,
    /// The address of the door, or the one that was asked for.
    pub(super) address: SocketAddr,
    #[cfg(unix)]
    local: Option<strata_server::LocalSocket>,
}

impl SocketArguments {
    /// What holds for sessions, which are kept in a folder if there is one.
    pub(super) fn sessions(&self, folder: Option<PathBuf>) -> SessionSettings {
        SessionSettings {
            folder,
            per_user: self.sessions_per_user as usize,
            ..SessionSettings::default()
        }
    }

    /// The sockets that systemd passes and no others; without any, those of the arguments.
    pub(super) fn doors(&self, listening: &ListenArguments) -> Result<Doors, Failure> {
        let address = listening.address()?;
        #[cfg(target_os = "linux")]
        if let Some(doors) = activated(address)? {
            return Ok(doors);
        }
        let door = if self.socket_only {
            Door::None
        } else {
            Door::Address(address)
        };
        #[cfg(unix)]
        {
            let bind = |path: &PathBuf| {
                strata_server::LocalSocket::bind(path, self.socket_mode)
                    .map_err(|error| unusable(&path.display(), &error))
            };
            let local = self.socket.as_ref().map(bind).transpose()?;
            Ok(Doors {
                door,
                address,
                local,
            })
        }
        #[cfg(not(unix))]
        {
            if self.socket.is_some() {
                let sentence = "--socket is not supported on this system";
                return Err(Failure::new(Kind::Usage, sentence));
            }
            Ok(Doors { door, address })
        }
    }
}

impl Doors {
    /// Gives the server its local socket, if there is one.
    pub(super) fn open(local: Option<Local>, bound: Bound) -> Bound {
        #[cfg(unix)]
        if let Some(local) = local {
            return bound.with_local(local);
        }
        #[cfg(not(unix))]
        let _ = local;
        bound
    }

    /// The local socket.
    pub(super) fn take_local(&mut self) -> Option<Local> {
        #[cfg(unix)]
        return self.local.take();
        #[cfg(not(unix))]
        None
    }
}

#[cfg(unix)]
pub(super) type Local = strata_server::LocalSocket;
#[cfg(not(unix))]
pub(super) type Local = std::convert::Infallible;

#[cfg(target_os = "linux")]
fn activated(address: SocketAddr) -> Result<Option<Doors>, Failure> {
    use strata_host::{ActivatedSocket, activated_sockets};
    let passed = activated_sockets();
    let passed = passed.map_err(|error| unusable(&"the sockets that were passed", &error))?;
    if passed.is_empty() {
        return Ok(None);
    }
    let mut doors = Doors {
        door: Door::None,
        address,
        local: None,
    };
    for socket in passed {
        let another = match socket {
            ActivatedSocket::Unix(listener) => {
                let local = strata_server::LocalSocket::from_listener(listener);
                let local = local.map_err(|error| unusable(&"the socket", &error))?;
                doors.local.replace(local).is_some()
            }
            ActivatedSocket::Tcp(listener) => {
                let bound = listener.local_addr();
                doors.address = bound.map_err(|error| unusable(&"the port", &error))?;
                let before = std::mem::replace(&mut doors.door, Door::Listener(listener));
                !matches!(before, Door::None)
            }
        };
        if another {
            let sentence = "one Unix socket and one port can be passed, not several";
            return Err(Failure::new(Kind::Usage, sentence));
        }
    }
    Ok(Some(doors))
}

#[cfg(unix)]
fn unusable(what: &dyn std::fmt::Display, error: &std::io::Error) -> Failure {
    let said = error.to_string();
    let said = said.split(" (os error").next().unwrap_or(&said);
    let sentence = format_args!("cannot listen on {what}: {}", said.to_lowercase());
    Failure::new(Kind::Failed, sentence)
}

/// A file's mode as `chmod` takes it: who may read and write.
fn mode(text: &str) -> Result<u32, String> {
    let wrong = || format!("invalid mode {text:?}: expected 0600, 0660 or 0666, for example");
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let mode = u32::from_str_radix(digits, 8).map_err(|_| wrong())?;
    let owner = mode & 0o600 == 0o600;
    if owner && mode & !0o666 == 0 {
        Ok(mode)
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_say_who_may_read_and_write() {
        assert_eq!(mode("0600"), Ok(0o600));
        assert_eq!(mode("660"), Ok(0o660));
        assert_eq!(mode("0666"), Ok(0o666));
        for wrong in ["", "0", "0700", "0066", "4660", "rw", "-1", "0688"] {
            assert!(mode(wrong).is_err(), "{wrong}");
        }
    }
}
