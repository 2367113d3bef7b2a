//! The few commands of a TPM 2.0 that measuring and attesting take (TPM 2.0 Library, part 3), and what they answer.

use crate::drivers::DeviceError;
use crate::drivers::tpm::{HEADER, Tpm};
use alloc::vec::Vec;
use core::ops::Range;
use thiserror::Error;

pub(crate) const SHA_256: u16 = 0x000b;
const ECC: u16 = 0x0023;
const ECDSA: u16 = 0x0018;
const P_256: u16 = 0x0003;
const NOTHING: u16 = 0x0010;
/// What is fixed in this TPM, made by it, used with an empty password, and signs only what the TPM says itself.
const ATTESTATION_KEY: u32 = 0x0005_0472;
const ENDORSEMENT: u32 = 0x4000_000b;
/// It was started by somebody else.
const STARTED: u32 = 0x100;

const EXTEND: u32 = 0x182;
const CREATE_PRIMARY: u32 = 0x131;
const STARTUP: u32 = 0x144;
const QUOTE: u32 = 0x158;
const PCR_READ: u32 = 0x17e;

/// Why a TPM did not do what it was asked.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum TpmError {
    /// It cannot be talked to.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// It refused.
    #[error("the TPM refuses command {command:#x} with {code:#x}")]
    Refused {
        /// Which command.
        command: u32,
        /// Why.
        code: u32,
    },
    /// Its answer cannot be read.
    #[error("what the TPM answers to command {command:#x} cannot be read")]
    Malformed {
        /// Which command.
        command: u32,
    },
}

/// What the TPM says of its registers, signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quote {
    /// What is signed: TPMS_ATTEST.
    pub message: Vec<u8>,
    /// TPMT_SIGNATURE.
    pub signature: Vec<u8>,
}

/// A key of the TPM's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttestationKey {
    handle: u32,
    /// The public point on P-256.
    pub point: [[u8; 32]; 2],
}

/// The parts of a response.
struct Reader<'a> {
    rest: &'a [u8],
    malformed: TpmError,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], TpmError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(self.malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    fn number(&mut self, bytes: usize) -> Result<u32, TpmError> {
        let bytes = self.take(bytes)?;
        Ok(bytes
            .iter()
            .fold(0, |sum, &byte| sum << 8 | u32::from(byte)))
    }

    /// Bytes behind their length.
    fn sized(&mut self) -> Result<&'a [u8], TpmError> {
        let len = self.number(2)? as usize;
        self.take(len)
    }
}

/// Sends a command: the handles, an empty password for each command that wants one, and the parameters. Gives what follows
/// the response's header.
fn send(
    tpm: &mut Tpm,
    code: u32,
    handle: Option<u32>,
    parameters: &[u8],
) -> Result<Vec<u8>, TpmError> {
    let mut command = Vec::from(if handle.is_some() {
        [0x80, 2]
    } else {
        [0x80, 1]
    });
    command.extend([0; 4]);
    command.extend(code.to_be_bytes());
    if let Some(handle) = handle {
        command.extend(handle.to_be_bytes());
        // An authorization of nine bytes: the password session, no nonce, no attributes, an empty password.
        command.extend([0, 0, 0, 9, 0x40, 0, 0, 9, 0, 0, 0, 0, 0]);
    }
    command.extend(parameters);
    let len = (command.len() as u32).to_be_bytes();
    command[2..6].copy_from_slice(&len);
    let mut response = tpm.transmit(&command)?;
    let malformed = TpmError::Malformed { command: code };
    let head = response.get(..HEADER).ok_or(malformed)?;
    let refusal = head[6..]
        .iter()
        .fold(0, |sum, &byte| sum << 8 | u32::from(byte));
    match refusal {
        0 => Ok(response.split_off(HEADER)),
        refusal => Err(TpmError::Refused {
            command: code,
            code: refusal,
        }),
    }
}

fn reader(bytes: &[u8], command: u32) -> Reader<'_> {
    Reader {
        rest: bytes,
        malformed: TpmError::Malformed { command },
    }
}

/// Starts the TPM, if firmware has not.
pub(super) fn startup(tpm: &mut Tpm) -> Result<(), TpmError> {
    match send(tpm, STARTUP, None, &[0, 0]) {
        Err(TpmError::Refused { code: STARTED, .. }) => Ok(()),
        answer => answer.map(drop),
    }
}

/// Adds a digest to a register.
pub(super) fn extend(tpm: &mut Tpm, register: u32, digest: &[u8; 32]) -> Result<(), TpmError> {
    let mut parameters = Vec::from([0, 0, 0, 1]);
    parameters.extend(SHA_256.to_be_bytes());
    parameters.extend(digest);
    send(tpm, EXTEND, Some(register), &parameters).map(drop)
}

/// TPML_PCR_SELECTION.
fn selection(registers: Range<u32>) -> Vec<u8> {
    let bits = registers.fold(0u32, |bits, register| bits | 1 << register);
    let mut out = Vec::from([0, 0, 0, 1]);
    out.extend(SHA_256.to_be_bytes());
    out.push(3);
    out.extend(&bits.to_le_bytes()[..3]);
    out
}

/// The values of registers, of which the TPM tells at most eight at a time.
pub(super) fn read(tpm: &mut Tpm, registers: Range<u32>) -> Result<Vec<[u8; 32]>, TpmError> {
    let mut values = Vec::new();
    let malformed = TpmError::Malformed { command: PCR_READ };
    while values.len() < registers.len() {
        let from = registers.start + values.len() as u32;
        let asked = selection(from..registers.end.min(from + 8));
        let answer = send(tpm, PCR_READ, None, &asked)?;
        let mut answer = reader(&answer, PCR_READ);
        answer.take(4 + asked.len())?;
        let count = answer.number(4)?;
        if count == 0 {
            return Err(malformed);
        }
        for _ in 0..count {
            values.push(answer.sized()?.try_into().map_err(|_| malformed)?);
        }
    }
    Ok(values)
}

/// The key that signs quotes. The TPM makes the same one from its endorsement seed each time.
pub(super) fn attestation_key(tpm: &mut Tpm) -> Result<AttestationKey, TpmError> {
    let mut public = Vec::new();
    public.extend(ECC.to_be_bytes());
    public.extend(SHA_256.to_be_bytes());
    public.extend(ATTESTATION_KEY.to_be_bytes());
    // No policy, nothing symmetric, ECDSA with SHA-256 on P-256, no derivation, no point yet.
    for number in [0, NOTHING, ECDSA, SHA_256, P_256, NOTHING, 0, 0] {
        public.extend(number.to_be_bytes());
    }
    let mut parameters = Vec::from([0, 4, 0, 0, 0, 0]);
    parameters.extend((public.len() as u16).to_be_bytes());
    parameters.extend(public);
    parameters.extend([0; 6]);
    let answer = send(tpm, CREATE_PRIMARY, Some(ENDORSEMENT), &parameters)?;
    let mut answer = reader(&answer, CREATE_PRIMARY);
    let handle = answer.number(4)?;
    answer.take(4)?;
    let mut public = reader(answer.sized()?, CREATE_PRIMARY);
    public.take(10)?;
    public.take(10)?;
    let mut coordinate = || -> Result<[u8; 32], TpmError> {
        let bytes = public.sized()?;
        let mut out = [0; 32];
        // Zeros in front may be left out.
        let start = 32usize.checked_sub(bytes.len()).ok_or(public.malformed)?;
        out[start..].copy_from_slice(bytes);
        Ok(out)
    };
    let point = [coordinate()?, coordinate()?];
    Ok(AttestationKey { handle, point })
}

/// Has the registers signed, together with what the asker sent.
pub(super) fn quote(
    tpm: &mut Tpm,
    key: &AttestationKey,
    nonce: &[u8],
    registers: Range<u32>,
) -> Result<Quote, TpmError> {
    let mut parameters = Vec::from((nonce.len() as u16).to_be_bytes());
    parameters.extend(nonce);
    parameters.extend(NOTHING.to_be_bytes());
    parameters.extend(selection(registers));
    let answer = send(tpm, QUOTE, Some(key.handle), &parameters)?;
    let mut answer = reader(&answer, QUOTE);
    let len = answer.number(4)? as usize;
    let mut parameters = reader(answer.take(len)?, QUOTE);
    let message = parameters.sized()?.into();
    Ok(Quote {
        message,
        signature: parameters.rest.into(),
    })
}
