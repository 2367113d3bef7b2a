//! Random bytes that nobody can guess.
#![allow(unsafe_code)]

use std::io;

/// Fills `bytes` from the system's generator, for keys and secrets.
#[cfg(not(windows))]
pub fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    use io::Read;
    std::fs::File::open("/dev/urandom")?.read_exact(bytes)
}

/// Fills `bytes` from the system's generator, for keys and secrets.
#[cfg(windows)]
pub fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    use windows_sys::Win32::Security::Cryptography::{
        BCRYPT_USE_SYSTEM_PREFERRED_RNG, BCryptGenRandom,
    };
    for part in bytes.chunks_mut(1 << 20) {
        let how = BCRYPT_USE_SYSTEM_PREFERRED_RNG;
        let length = part.len() as u32;
        // SAFETY: the system writes `length` bytes, which `part` has; no generator is named because it chooses its own.
        let status =
            unsafe { BCryptGenRandom(std::ptr::null_mut(), part.as_mut_ptr(), length, how) };
        if status != 0 {
            return Err(io::Error::other("the system gives no random bytes"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_fillings_are_alike() {
        let (mut one, mut two) = ([0; 32], [0; 32]);
        fill_random(&mut one).unwrap();
        fill_random(&mut two).unwrap();
        assert!(one != two && one != [0; 32] && two != [0; 32]);
        fill_random(&mut []).unwrap();
    }
}
