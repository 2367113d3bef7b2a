//! The bounds of a render: how they are set, and the meter that holds values to the one on memory.
use super::error::{Fault, LimitKind, Run};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Bounds on what a template may use. The defaults keep any template within 250 ms, 64 MiB and 4 MiB of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of source that [`Template::parse`](super::Template::parse) accepts.
    pub source_bytes: usize,
    /// Evaluation steps: one for each expression, statement and iteration, and one for each 64 bytes of text moved.
    pub steps: u64,
    /// Bytes of output.
    pub output_bytes: usize,
    /// Bytes of values that the template made and that are alive at one moment.
    pub memory_bytes: usize,
    /// Levels of nesting: of evaluation, of values, and (half as many) of the source. 200 levels fit a stack of 768 KiB.
    pub depth: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            source_bytes: 256 << 10,
            steps: 3_000_000,
            output_bytes: 4 << 20,
            memory_bytes: 24 << 20,
            depth: 200,
        }
    }
}

/// Counts the bytes of a render's live values against their limit.
#[derive(Debug)]
pub(crate) struct Meter {
    used: AtomicUsize,
    limit: usize,
}

impl Meter {
    pub(crate) fn new(limit: usize) -> Arc<Meter> {
        Arc::new(Meter {
            used: AtomicUsize::new(0),
            limit,
        })
    }

    /// Takes `bytes` until the charge is dropped.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Run<Charge> {
        let mut charge = Charge {
            meter: Some(self.clone()),
            bytes: 0,
        };
        charge.grow(bytes)?;
        Ok(charge)
    }
}

/// Bytes taken from a [`Meter`], given back on drop.
#[derive(Debug, Default)]
pub(crate) struct Charge {
    meter: Option<Arc<Meter>>,
    bytes: usize,
}

impl Charge {
    /// Takes `more` bytes; fails before anything is allocated.
    pub(crate) fn grow(&mut self, more: usize) -> Run<()> {
        if let Some(meter) = &self.meter {
            let used = meter.used.load(Ordering::Relaxed);
            let total = used.saturating_add(more);
            if total > meter.limit {
                return Err(Fault::Limit(LimitKind::Memory, meter.limit as u64));
            }
            meter.used.store(total, Ordering::Relaxed);
            self.bytes += more;
        }
        Ok(())
    }

    /// Gives back what exceeds `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        if let Some(meter) = &self.meter
            && self.bytes > bytes
        {
            meter.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            self.bytes = bytes;
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// A string under construction that pays for its capacity before it grows.
#[derive(Debug)]
pub(crate) struct Buffer {
    text: String,
    charge: Charge,
}

/// What a string costs beyond its bytes: its header and its counts.
pub(crate) const STRING_OVERHEAD: usize = 96;

impl Buffer {
    pub(crate) fn new(meter: &Arc<Meter>) -> Run<Buffer> {
        Ok(Buffer {
            text: String::new(),
            charge: meter.charge(STRING_OVERHEAD)?,
        })
    }

    pub(crate) fn with_capacity(meter: &Arc<Meter>, bytes: usize) -> Run<Buffer> {
        let mut buffer = Buffer::new(meter)?;
        buffer.reserve(bytes)?;
        Ok(buffer)
    }

    fn reserve(&mut self, more: usize) -> Run<()> {
        let needed = self.text.len().saturating_add(more);
        if needed > self.text.capacity() {
            let target = needed.max(self.text.capacity().saturating_mul(2)).max(16);
            self.charge.grow(target - self.text.capacity())?;
            self.text.reserve_exact(target - self.text.len());
        }
        Ok(())
    }

    pub(crate) fn push_str(&mut self, text: &str) -> Run<()> {
        self.reserve(text.len())?;
        self.text.push_str(text);
        Ok(())
    }

    pub(crate) fn push(&mut self, c: char) -> Run<()> {
        self.reserve(c.len_utf8())?;
        self.text.push(c);
        Ok(())
    }

    /// Appends `count` copies of `text`.
    pub(crate) fn push_repeated(&mut self, text: &str, count: usize) -> Run<()> {
        self.reserve(text.len().saturating_mul(count))?;
        for _ in 0..count {
            self.text.push_str(text);
        }
        Ok(())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// The text with what it holds of the meter.
    pub(crate) fn finish(mut self) -> (String, Charge) {
        self.text.shrink_to_fit();
        self.charge.shrink_to(self.text.len() + STRING_OVERHEAD);
        (self.text, self.charge)
    }
}

/// A list under construction that pays for its capacity before it grows.
#[derive(Debug)]
pub(crate) struct Growing<T> {
    items: Vec<T>,
    charge: Charge,
}

impl<T> Growing<T> {
    pub(crate) fn new(meter: &Arc<Meter>) -> Run<Self> {
        Ok(Growing {
            items: Vec::new(),
            charge: meter.charge(STRING_OVERHEAD)?,
        })
    }

    pub(crate) fn with_capacity(meter: &Arc<Meter>, count: usize) -> Run<Self> {
        let mut growing = Growing::new(meter)?;
        growing.reserve(count)?;
        Ok(growing)
    }

    fn reserve(&mut self, more: usize) -> Run<()> {
        let needed = self.items.len().saturating_add(more);
        if needed > self.items.capacity() {
            let target = needed.max(self.items.capacity().saturating_mul(2)).max(4);
            let added = target - self.items.capacity();
            self.charge.grow(added.saturating_mul(size_of::<T>()))?;
            self.items.reserve_exact(target - self.items.len());
        }
        Ok(())
    }

    pub(crate) fn push(&mut self, item: T) -> Run<()> {
        self.reserve(1)?;
        self.items.push(item);
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn items_mut(&mut self) -> &mut Vec<T> {
        &mut self.items
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        &self.items
    }

    pub(crate) fn finish(self) -> (Vec<T>, Charge) {
        (self.items, self.charge)
    }
}
