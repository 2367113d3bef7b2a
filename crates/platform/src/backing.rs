//! Where bytes come from, and when they are wanted.

/// The bytes of a model's files, and advice about them, all of which may be ignored.
pub trait Backing: Send + Sync {
    /// All bytes of one file, by its number; none past the last. They stay where they are.
    fn part(&self, index: usize) -> Option<&[u8]>;

    /// `bytes` are read soon: fetch them while something else is computed.
    fn will_need(&self, bytes: &[u8]);

    /// `bytes` are not read for a while: their memory may serve others. They can still be read, more slowly.
    fn done_with(&self, bytes: &[u8]);

    /// Whether all bytes that were read so far were there. A file may be cut short while it is used.
    fn is_intact(&self) -> bool {
        true
    }
}

/// Bytes that are in memory anyway, which no advice changes.
#[derive(Copy, Clone, Debug, Default)]
pub struct Resident(pub &'static [u8]);

impl Backing for Resident {
    fn part(&self, index: usize) -> Option<&[u8]> {
        (index == 0).then_some(self.0)
    }
    fn will_need(&self, _: &[u8]) {}
    fn done_with(&self, _: &[u8]) {}
}
