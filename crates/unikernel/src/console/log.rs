//! The latest output, kept for `dmesg`.

const CAPACITY: usize = 32 << 10;

/// A ring of bytes: the oldest give way.
pub struct Log {
    bytes: [u8; CAPACITY],
    /// How many were ever written.
    written: usize,
}

impl Log {
    /// An empty log.
    pub const fn new() -> Self {
        Self {
            bytes: [0; CAPACITY],
            written: 0,
        }
    }

    /// Adds a byte.
    pub fn push(&mut self, byte: u8) {
        self.bytes[self.written % CAPACITY] = byte;
        self.written = self.written.wrapping_add(1);
    }

    /// What is left, oldest first, in two pieces.
    pub fn pieces(&self) -> [&[u8]; 2] {
        let at = self.written % CAPACITY;
        if self.written < CAPACITY {
            [&self.bytes[..at], &[]]
        } else {
            [&self.bytes[at..], &self.bytes[..at]]
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_bytes_are_kept_in_order() {
        let mut log = Log::new();
        b"hello".iter().for_each(|&byte| log.push(byte));
        assert_eq!(log.pieces(), [&b"hello"[..], &[]]);
        for i in 0..CAPACITY + 3 {
            log.push(i as u8);
        }
        let all = log.pieces().concat();
        assert_eq!(all.len(), CAPACITY);
        assert!(all.iter().enumerate().all(|(i, &b)| b == (i + 3) as u8));
    }
}
