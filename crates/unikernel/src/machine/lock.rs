//! A lock that spins.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

/// The bare lock, for the heap too.
pub struct Spin(AtomicBool);

impl Spin {
    const fn new() -> Self {
        Self(AtomicBool::new(false))
    }
}

// SAFETY: the exchange that takes the lock succeeds for one at a time, with acquire and release ordering.
unsafe impl talc::lock_api::RawMutex for Spin {
    #[allow(clippy::declare_interior_mutable_const)] // what the trait asks for
    const INIT: Self = Self::new();
    type GuardMarker = talc::lock_api::GuardSend;

    fn lock(&self) {
        while !self.try_lock() {
            while self.0.load(Ordering::Relaxed) {
                core::hint::spin_loop();
            }
        }
    }

    fn try_lock(&self) -> bool {
        !self.0.swap(true, Ordering::Acquire)
    }

    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A value that one processor uses at a time. Not for interrupt handlers.
pub struct Lock<T: ?Sized> {
    spin: Spin,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached through a guard, of which there is one at a time.
unsafe impl<T: Send + ?Sized> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        Self {
            spin: Spin::new(),
            value: UnsafeCell::new(value),
        }
    }
}

impl<T: ?Sized> Lock<T> {
    /// Waits for the value.
    pub fn lock(&self) -> Guard<'_, T> {
        talc::lock_api::RawMutex::lock(&self.spin);
        Guard(self)
    }

    /// Frees the lock whoever holds it. Only for a machine that is about to stop, whose holder may never go on.
    pub fn break_open(&self) {
        self.spin.0.store(false, Ordering::Release);
    }
}

/// The right to use a lock's value.
pub struct Guard<'a, T: ?Sized>(&'a Lock<T>);

impl<T: ?Sized> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one.
        unsafe { &*self.0.value.get() }
    }
}

impl<T: ?Sized> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T: ?Sized> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.spin.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let lock = Lock::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), 40_000);
    }
}
