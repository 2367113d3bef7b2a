//! Who called whom: the chain of frame pointers.

/// More calls than this are not shown.
const MOST: usize = 48;

/// Calls `tell` with each return address, innermost first, as far as frames can be read and lie further and further up.
pub fn walk(frame: u64, read: impl Fn(u64) -> Option<u64>, mut tell: impl FnMut(u64)) {
    let mut at = frame;
    for _ in 0..MOST {
        if at == 0 || !at.is_multiple_of(8) {
            return;
        }
        let (Some(next), Some(back)) = (read(at), at.checked_add(8).and_then(&read)) else {
            return;
        };
        if back == 0 {
            return;
        }
        tell(back);
        if next <= at {
            return;
        }
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn trace(frame: u64, stack: &[u64]) -> Vec<u64> {
        let mut found = Vec::new();
        let read = |at: u64| stack.get((at as usize).checked_sub(0x1000)? / 8).copied();
        walk(frame, read, |address| found.push(address));
        found
    }

    #[test]
    fn the_chain_is_followed_to_its_end() {
        let stack = [0x1010, 1, 0x1020, 2, 0, 3];
        assert_eq!(trace(0x1000, &stack), [1, 2, 3]);
        assert_eq!(trace(0x1010, &stack), [2, 3]);
    }

    #[test]
    fn a_damaged_chain_ends() {
        assert!(trace(0, &[]).is_empty());
        assert!(trace(0x1003, &[1, 2]).is_empty());
        assert!(trace(u64::MAX - 7, &[1, 2]).is_empty());
        // A loop, a chain that goes down, one that leaves the stack.
        assert_eq!(trace(0x1000, &[0x1000, 1]), [1]);
        assert_eq!(trace(0x1010, &[0, 9, 0x1000, 1]), [1]);
        assert_eq!(trace(0x1000, &[0x9000, 1]), [1]);
        let long: Vec<u64> = (0..200).flat_map(|i| [0x1010 + i * 16, i + 1]).collect();
        assert_eq!(trace(0x1000, &long).len(), MOST);
    }
}
