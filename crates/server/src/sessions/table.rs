//! All sessions, by user: in memory, and in a folder where there is one and they may be there.

use super::session::Session;
use crate::owner_names::{OwnerNames, create_private_folder, write_private};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strata_chat::json::Json;
use strata_chat::{Fault, FaultKind};

/// A session that several tasks know.
pub(super) type Shared = Arc<Mutex<Session>>;

/// How many sessions there may be, and where they are kept.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// A folder in which sessions outlive the server; they are in memory only if not given.
    pub folder: Option<PathBuf>,
    /// Sessions of a user at most.
    pub per_user: usize,
    /// Bytes of all that is said in a user's sessions at most.
    pub user_bytes: usize,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            folder: None,
            per_user: 64,
            user_bytes: 64 << 20,
        }
    }
}

/// The sessions of all users.
pub(crate) struct Sessions {
    settings: SessionSettings,
    names: Option<OwnerNames>,
    users: Mutex<HashMap<u32, BTreeMap<String, Shared>>>,
}

impl Sessions {
    pub(crate) fn new(settings: SessionSettings) -> io::Result<Self> {
        let folder = settings.folder.as_deref();
        Ok(Self {
            names: folder.map(OwnerNames::of).transpose()?,
            settings,
            users: Mutex::default(),
        })
    }

    fn users(&self) -> MutexGuard<'_, HashMap<u32, BTreeMap<String, Shared>>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings a user's sessions back from the folder, the first time; gives those that came.
    pub(super) fn recall(&self, uid: u32) -> Vec<Shared> {
        let mut users = self.users();
        if users.contains_key(&uid) {
            return Vec::new();
        }
        let found = self
            .folder(uid)
            .map_or_else(Vec::new, |folder| read(&folder));
        let own = found.into_iter().filter(|session| session.owner == uid);
        let own = own.map(|session| (session.id.clone(), Arc::new(Mutex::new(session))));
        let own: BTreeMap<String, Shared> = own.collect();
        let came = own.values().cloned().collect();
        users.insert(uid, own);
        came
    }

    /// A user's sessions.
    pub(super) fn of(&self, uid: u32) -> Vec<Shared> {
        let users = self.users();
        let own = users.get(&uid).into_iter().flat_map(BTreeMap::values);
        own.cloned().collect()
    }

    /// One of a user's sessions. Of others' nobody learns whether they are there.
    pub(super) fn get(&self, uid: u32, id: &str) -> Result<Shared, Fault> {
        let users = self.users();
        let found = users.get(&uid).and_then(|own| own.get(id));
        found.cloned().ok_or_else(|| unknown(id))
    }

    /// How many sessions a user has, and the bytes of what is said in them.
    pub(super) fn held(&self, uid: u32) -> (usize, usize) {
        let own = self.of(uid);
        let bytes = own.iter().map(|session| lock(session).bytes());
        (own.len(), bytes.sum())
    }

    /// An error if so many bytes more are too many for a user.
    pub(super) fn check_bytes(&self, uid: u32, more: usize) -> Result<(), Fault> {
        let most = self.settings.user_bytes;
        if self.held(uid).1.saturating_add(more) <= most {
            return Ok(());
        }
        let problem = format_args!("the sessions of a user hold {most} bytes at most");
        Err(Fault::new(too_many(), problem))
    }

    /// Adds a session, if its user may have another.
    pub(super) fn add(&self, session: Session) -> Result<Shared, Fault> {
        let (uid, id) = (session.owner, session.id.clone());
        self.check_bytes(uid, session.bytes())?;
        let mut users = self.users();
        let own = users.entry(uid).or_default();
        let most = self.settings.per_user;
        if own.len() >= most {
            let problem = format_args!("a user has {most} sessions at most; DELETE one first");
            return Err(Fault::new(too_many(), problem));
        }
        self.write(&session).map_err(|error| failed(&error))?;
        let shared = Arc::new(Mutex::new(session));
        own.insert(id, Arc::clone(&shared));
        Ok(shared)
    }

    /// Drops a session, and its file.
    pub(super) fn remove(&self, uid: u32, id: &str) -> Result<Shared, Fault> {
        let removed = self.users().get_mut(&uid).and_then(|own| own.remove(id));
        let removed = removed.ok_or_else(|| unknown(id))?;
        lock(&removed).closed = true;
        if let Some(folder) = self.folder(uid) {
            let _ = fs::remove_file(file(&folder, id));
        }
        Ok(removed)
    }

    /// Whether sessions that may be are on disk.
    pub(super) fn keeps(&self, session: &Session) -> bool {
        self.names.is_some() && session.may_be_kept()
    }

    /// Writes a session down, whole or not at all, if it may be.
    pub(super) fn write(&self, session: &Session) -> io::Result<()> {
        let Some(folder) = self.folder(session.owner) else {
            return Ok(());
        };
        if session.closed || !session.may_be_kept() {
            return Ok(());
        }
        create_private_folder(&folder)?;
        let path = file(&folder, &session.id);
        let draft = path.with_extension("part");
        write_private(&draft, session.to_json().text().as_bytes())?;
        fs::rename(&draft, &path)
    }

    fn folder(&self, uid: u32) -> Option<PathBuf> {
        let path = self.settings.folder.as_ref()?;
        Some(path.join(self.names.as_ref()?.name(&uid.to_string())))
    }
}

pub(super) fn lock(session: &Shared) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

fn file(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.json"))
}

/// The sessions in a folder. What is none is passed over.
fn read(folder: &Path) -> Vec<Session> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let id = name.strip_suffix(".json")?;
        let json = Json::parse(&fs::read(entry.path()).ok()?).ok()?;
        Session::from_json(id, &json)
    });
    found.collect()
}

fn unknown(id: &str) -> Fault {
    let problem = format_args!("you have no session {id:?}; GET /sessions lists those you have");
    Fault::new(FaultKind::NotFound, problem)
}

pub(super) fn failed(error: &io::Error) -> Fault {
    let problem = format_args!("the session could not be kept: {error}");
    Fault::new(FaultKind::Internal, problem)
}

fn too_many() -> FaultKind {
    FaultKind::RateLimited {
        retry_after: std::time::Duration::from_secs(60),
    }
}
