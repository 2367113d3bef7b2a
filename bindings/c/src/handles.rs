//! Handles: numbers that lead to models, streams and sessions. No number is given twice.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, PoisonError, RwLock};
use strata_bindings::{Error, ErrorKind, JsonStream, Model, SharedSession};

/// What C sees of a model.
#[repr(C)]
pub struct StrataModel(PhantomData<*mut u8>);
/// What C sees of a stream.
#[repr(C)]
pub struct StrataStream(PhantomData<*mut u8>);
/// What C sees of a session.
#[repr(C)]
pub struct StrataSession(PhantomData<*mut u8>);

/// All handles of a kind. A handle is a multiple of 16 and the kind's number.
pub(crate) struct Handles<T> {
    kind: usize,
    name: &'static str,
    known: RwLock<HashMap<usize, T>>,
}

static NEXT: AtomicUsize = AtomicUsize::new(1);

type Table<T> = LazyLock<Handles<T>>;
pub(crate) static MODELS: Table<Model> = LazyLock::new(|| Handles::new(1, "model"));
pub(crate) static STREAMS: Table<JsonStream> = LazyLock::new(|| Handles::new(2, "stream"));
pub(crate) static SESSIONS: Table<SharedSession> = LazyLock::new(|| Handles::new(3, "session"));

impl<T: Clone> Handles<T> {
    fn new(kind: usize, name: &'static str) -> Self {
        Self {
            kind,
            name,
            known: RwLock::default(),
        }
    }

    /// A handle to something new.
    pub(crate) fn add<P>(&self, value: T) -> *mut P {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) * 16 + self.kind;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(number, value);
        std::ptr::without_provenance_mut(number)
    }

    /// What a handle leads to.
    pub(crate) fn get<P>(&self, handle: *const P) -> Result<T, Error> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(&handle.addr()).cloned();
        found.ok_or_else(|| {
            let what = match handle.addr() {
                0 => format!("the {} is NULL", self.name),
                number if number % 16 == self.kind => format!("the {} was freed", self.name),
                _ => format!("this is no {}", self.name),
            };
            Error::new(ErrorKind::InvalidArgument, what)
        })
    }

    /// Frees a handle. What it led to is dropped here, unless others hold it.
    pub(crate) fn free<P>(&self, handle: *const P) -> Result<(), Error> {
        if handle.is_null() {
            return Ok(());
        }
        let value = self.get(handle)?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let freed = known.remove(&handle.addr());
        drop(known);
        drop(freed);
        drop(value);
        Ok(())
    }
}
