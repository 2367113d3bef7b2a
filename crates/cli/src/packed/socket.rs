//! Where a packed program serves that was packed to start at a Unix socket.

use crate::failure::{Failure, Kind};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use strata_pack::{Manifest, StartMode};

/// Flags of `serve` that say where it listens.
const NAMING: [&str; 4] = ["--socket", "--socket-only", "--host", "--port"];

/// The socket of an artifact; none where it starts otherwise.
pub(super) struct Socket(Option<String>);

impl Socket {
    pub(super) fn of(manifest: &Manifest) -> Self {
        let at_socket = manifest.start.mode == StartMode::Socket;
        Self(at_socket.then(|| manifest.name.clone()))
    }

    /// Where it is: in the user's folder for such files. `None` where the artifact has none, or the user has no such folder.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty())?;
        Some(Path::new(&folder).join(format!("{}.sock", self.0.as_ref()?)))
    }

    /// The same for a server whose words say nothing of where it listens. A program that gets a socket passed by systemd
    /// uses that one, whatever this says.
    pub(super) fn unless_named(&self, words: &[OsString]) -> Result<Option<PathBuf>, Failure> {
        let names = |word: &OsString| {
            let word = word.to_string_lossy();
            let flag = word.split_once('=').map_or(&*word, |(flag, _)| flag);
            NAMING.contains(&flag)
        };
        if self.0.is_none() || words.iter().any(names) || std::env::var_os("LISTEN_FDS").is_some() {
            return Ok(None);
        }
        if std::env::var_os("OLLAMA_HOST").is_some() {
            let sentence = "OLLAMA_HOST is set, and this program starts at a socket";
            return Err(Failure::new(Kind::Usage, sentence).hint("unset it, or start with `serve`"));
        }
        self.path().map(Some).ok_or_else(|| {
            let sentence = "there is no folder for the socket: XDG_RUNTIME_DIR is not set";
            Failure::new(Kind::Usage, sentence).hint("name one: serve --socket-only --socket PATH")
        })
    }
}
