//! Measured boot: the program, its settings and its model go into registers of a TPM 2.0, which can only be added to until the
//! machine is reset. Whoever asks gets what they hold, signed by a key that never leaves the TPM, and the list of what was
//! added.

mod commands;
pub mod log;
#[cfg(test)]
mod tests;

pub use commands::{AttestationKey, Quote, TpmError};

use crate::drivers::tpm::Tpm;
use crate::machine::lock::Lock;
use crate::say;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use strata_platform::Sha256;

/// The registers that the program, its settings and its model go into: of those that firmware leaves to what it loads.
pub const PROGRAM: u32 = 8;
/// As above.
pub const SETTINGS: u32 = 9;
/// As above.
pub const MODEL: u32 = 10;
/// What is signed: firmware's registers and ours.
pub const REGISTERS: Range<u32> = 0..11;
/// Bytes that an asker may send to be signed with the registers.
pub const NONCE: Range<usize> = 8..33;

/// Something that was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Where it went.
    pub register: u32,
    /// Its SHA-256.
    pub digest: [u8; 32],
    /// What it was.
    pub what: String,
}

/// What an asker is told.
#[derive(Clone, Debug)]
pub struct Report {
    /// The values of [`REGISTERS`].
    pub values: Vec<[u8; 32]>,
    /// What the TPM says of them.
    pub quote: Quote,
    /// The key that signs.
    pub key: AttestationKey,
    /// What was added to them, in the order of time.
    pub log: Vec<u8>,
}

/// A TPM, and what went into it.
pub struct Attester {
    tpm: Tpm,
    key: Option<AttestationKey>,
    log: Vec<u8>,
    events: Vec<Event>,
}

impl Attester {
    /// Goes on where firmware has stopped, with its log.
    pub fn new(mut tpm: Tpm, firmware: Vec<u8>) -> Result<Self, TpmError> {
        commands::startup(&mut tpm)?;
        let log = if log::first_event(&firmware).is_some() {
            firmware
        } else {
            log::begin()
        };
        Ok(Self {
            tpm,
            key: None,
            log,
            events: Vec::new(),
        })
    }

    /// Adds a digest to a register.
    pub fn measure(&mut self, register: u32, digest: [u8; 32], what: &str) -> Result<(), TpmError> {
        commands::extend(&mut self.tpm, register, &digest)?;
        log::add(&mut self.log, register, &digest, what);
        self.events.push(Event {
            register,
            digest,
            what: what.into(),
        });
        Ok(())
    }

    /// What the registers hold, signed together with an asker's bytes. Nothing is measured in between.
    pub fn report(&mut self, nonce: &[u8]) -> Result<Report, TpmError> {
        let key = match &self.key {
            Some(key) => key.clone(),
            None => commands::attestation_key(&mut self.tpm)?,
        };
        self.key = Some(key.clone());
        let quote = commands::quote(&mut self.tpm, &key, nonce, REGISTERS)?;
        let values = commands::read(&mut self.tpm, REGISTERS)?;
        Ok(Report {
            values,
            quote,
            key,
            log: self.log.clone(),
        })
    }
}

impl Report {
    /// The key as a PEM file (RFC 5480): a point on P-256.
    #[cfg(feature = "engine")]
    pub fn pem(&self) -> String {
        use base64::Engine;
        const HEAD: [u8; 27] = [
            0x30, 0x59, 0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86,
            0x48, 0xce, 0x3d, 3, 1, 7, 3, 0x42, 0, 4,
        ];
        let [x, y] = &self.key.point;
        let der = [&HEAD[..], x, y].concat();
        let body = base64::engine::general_purpose::STANDARD.encode(der);
        let (first, second) = body.split_at(64);
        alloc::format!("-----BEGIN PUBLIC KEY-----\n{first}\n{second}\n-----END PUBLIC KEY-----\n")
    }
}

static ATTESTER: Lock<Option<Attester>> = Lock::new(None);

/// Takes the machine's TPM, with the log that firmware has written.
pub fn start(tpm: Tpm, firmware: Vec<u8>) {
    match Attester::new(tpm, firmware) {
        Ok(attester) => *ATTESTER.lock() = Some(attester),
        Err(error) => say!("the TPM cannot be used: {error}"),
    }
}

/// Whether there is a TPM that can be used.
pub fn is_on() -> bool {
    ATTESTER.lock().is_some()
}

/// Measures a digest, if there is a TPM. One that fails is used no more: it would vouch for less than there is.
pub fn measure(register: u32, digest: [u8; 32], what: &str) {
    let mut attester = ATTESTER.lock();
    let Some(on) = &mut *attester else {
        return;
    };
    let digits = digest.map(|byte| alloc::format!("{byte:02x}")).concat();
    match on.measure(register, digest, what) {
        Ok(()) => say!("measured into register {register}: {what}, {digits}"),
        Err(error) => {
            say!("{error}; it is not used any more");
            *attester = None;
        }
    }
}

/// Measures a text.
pub fn measure_text(register: u32, text: &str, what: &str) {
    if is_on() {
        measure(register, Sha256::digest(text), what);
    }
}

/// What an asker is told, if there is a TPM.
pub fn report(nonce: &[u8]) -> Option<Result<Report, TpmError>> {
    Some(ATTESTER.lock().as_mut()?.report(nonce))
}

/// What was measured by this program.
pub fn events() -> Vec<Event> {
    let attester = ATTESTER.lock();
    attester
        .as_ref()
        .map_or_else(Vec::new, |on| on.events.clone())
}
