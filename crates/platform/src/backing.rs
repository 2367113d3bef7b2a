//! Where bytes come from, and when they are wanted.

/// Advice about bytes that lie in a file. All of it may be ignored.
pub trait Backing: Sync {
    /// `bytes` are read soon: fetch them while something else is computed.
    fn will_need(&self, bytes: &[u8]);

    /// `bytes` are not read for a while: their memory may serve others. They can still be read, more slowly.
    fn done_with(&self, bytes: &[u8]);
}

/// Bytes that are in memory anyway, which no advice changes.
#[derive(Copy, Clone, Debug, Default)]
pub struct Resident;

impl Backing for Resident {
    fn will_need(&self, _: &[u8]) {}
    fn done_with(&self, _: &[u8]) {}
}
