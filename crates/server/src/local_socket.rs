//! A socket in the file system, through which programs of this machine call. Who calls is known by the system.

use crate::listen::Arrival;
use crate::log::{Log, LogLevel};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;

/// A socket that listens.
#[derive(Debug)]
pub struct LocalSocket {
    listener: UnixListener,
    /// The file and what tells it from others, if it is this server's to remove.
    file: Option<(PathBuf, (u64, u64))>,
}

impl LocalSocket {
    /// Makes a socket that those can use whom the mode lets write. What a server left there that has ended is replaced; what
    /// is in use, or is no socket, is an error.
    pub fn bind(path: &Path, mode: u32) -> io::Result<Self> {
        clear(path)?;
        // Nobody can connect before the mode is set: the name is taken only then.
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", std::process::id()));
        let draft = PathBuf::from(name);
        let _ = fs::remove_file(&draft);
        let listener = UnixListener::bind(&draft)?;
        let placed = fs::set_permissions(&draft, fs::Permissions::from_mode(mode))
            .and_then(|()| fs::rename(&draft, path));
        if let Err(error) = placed {
            let _ = fs::remove_file(&draft);
            return Err(error);
        }
        listener.set_nonblocking(true)?;
        let file = identity(path).map(|identity| (path.to_owned(), identity));
        Ok(Self { listener, file })
    }

    /// A socket that listens already: systemd's, whose file is systemd's too.
    pub fn from_listener(listener: UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            file: None,
        })
    }

    /// Where it is, if it has a name.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        match &self.file {
            Some((path, _)) => Some(path.clone()),
            None => Some(self.listener.local_addr().ok()?.as_pathname()?.to_owned()),
        }
    }

    /// Takes connections for as long as somebody wants them.
    pub(crate) async fn accept(&self, arrivals: mpsc::Sender<Arrival>, log: &Log) {
        let listener = self.listener.try_clone();
        let listener = listener.and_then(tokio::net::UnixListener::from_std);
        let listener = match listener {
            Ok(listener) => listener,
            Err(error) => {
                let pairs = [("problem", error.to_string().into())];
                log.say(LogLevel::Error, "the socket takes no connections", &pairs);
                return;
            }
        };
        let nobody = overflow_uid();
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let Ok(credentials) = stream.peer_cred() else {
                continue;
            };
            let uid = credentials.uid();
            // Users of other namespaces all look like this one.
            if Some(uid) == nobody {
                let problem = "a user of another namespace was not let in";
                log.say(LogLevel::Warn, problem, &[]);
                continue;
            }
            let stream = Box::new(stream);
            if arrivals.send(Arrival { stream, uid }).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        if let Some((path, mine)) = &self.file
            && identity(path) == Some(*mine)
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes a socket that no server listens at any more.
fn clear(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        let problem = "there is something else that is not a socket";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, problem));
    }
    match UnixStream::connect(path) {
        Ok(_) => {
            let problem = "another server listens there";
            Err(io::Error::new(io::ErrorKind::AddrInUse, problem))
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
    }
}

/// What tells a file from another of the same name.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let facts = fs::symlink_metadata(path).ok()?;
    Some((facts.dev(), facts.ino()))
}

/// The user that stands for all whom this namespace does not know.
fn overflow_uid() -> Option<u32> {
    let text = fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let name = format!("strata-local-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn a_socket_has_its_mode_and_goes_with_its_server() {
        let folder = scratch("mode");
        let path = folder.join("s");
        for mode in [0o600, 0o660] {
            let socket = LocalSocket::bind(&path, mode).unwrap();
            let found = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(found, mode);
            UnixStream::connect(&path).unwrap();
            drop(socket);
            assert!(!path.exists());
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_left_behind_is_replaced_and_what_is_in_use_is_not() {
        let folder = scratch("stale");
        let path = folder.join("s");
        // A listener that ends without a word leaves its file.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let socket = LocalSocket::bind(&path, 0o600).unwrap();
        let again = LocalSocket::bind(&path, 0o600).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
        // One that was replaced by hand is not this server's to remove.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "a file").unwrap();
        drop(socket);
        assert_eq!(fs::read_to_string(&path).unwrap(), "a file");
        let file = LocalSocket::bind(&path, 0o600).unwrap_err();
        assert_eq!(file.kind(), io::ErrorKind::AlreadyExists);
        assert!(LocalSocket::bind(&folder.join("no/s"), 0o600).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
