//! Places for connections: so many in all, a share for each address and each user, and a few more for `/health`.
//!
//! A server without a free place takes one from a connection that waits for its client, the longest first, so that
//! sockets that say nothing keep nobody out.

use crate::pulse::Pulse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use strata_wire::budgets::Budgets;

/// A connection younger than this is not to make room: its request may be on its way.
const YOUNG: Duration = Duration::from_millis(200);

/// Whose connection it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// Somebody's at an address.
    Address(IpAddr),
    /// A user's of this machine.
    User(u32),
}

/// The places of a server.
pub(crate) struct Places(Mutex<Table>);

#[derive(Default)]
struct Table {
    next: u64,
    taken: HashMap<u64, Taken>,
    /// Connections with room for everything, by source: a flood of others must not make each of them slow.
    whole: HashMap<Source, usize>,
    all_whole: usize,
    counts: PlaceCounts,
}

struct Taken {
    source: Source,
    pulse: Arc<Pulse>,
    room: Room,
}

/// What happened at the door, for metrics.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct PlaceCounts {
    /// Connections that are open.
    pub(crate) open: usize,
    /// Connections that had to make room for others.
    pub(crate) evicted: u64,
    /// Connections for which there was only the room of `/health`.
    pub(crate) crowded: u64,
}

/// What a connection may ask for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Everything.
    Whole,
    /// Whether the server lives.
    Health,
}

/// A place, given back when it is dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) room: Room,
}

impl Places {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::default()))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn counts(&self) -> PlaceCounts {
        let table = self.table();
        PlaceCounts {
            open: table.taken.len(),
            ..table.counts
        }
    }

    /// A place for a connection.
    pub(crate) fn take(self: &Arc<Self>, source: Source, budgets: &Budgets) -> Place {
        let mut table = self.table();
        let own = table.whole.get(&source).copied().unwrap_or(0);
        let all = table.all_whole;
        let free = if own >= budgets.address_connections {
            table.evict(budgets, YOUNG, |taken| {
                taken.room == Room::Whole && taken.source == source
            })
        } else {
            all < budgets.connections
                || table.evict(budgets, YOUNG, |taken| taken.room == Room::Whole)
        };
        let room = if free { Room::Whole } else { Room::Health };
        if room == Room::Health {
            table.counts.crowded += 1;
            let health = |taken: &Taken| taken.room == Room::Health;
            let held = table.taken.values().filter(|taken| health(taken)).count();
            if held >= budgets.health_connections {
                table.evict(budgets, Duration::ZERO, health);
            }
        }
        table.next += 1;
        let (number, pulse) = (table.next, Pulse::new());
        let taken = Taken {
            source,
            pulse: Arc::clone(&pulse),
            room,
        };
        if room == Room::Whole {
            *table.whole.entry(source).or_default() += 1;
            table.all_whole += 1;
        }
        table.taken.insert(number, taken);
        Place {
            places: Arc::clone(self),
            number,
            pulse,
            room,
        }
    }
}

impl Table {
    /// Ends one of these connections, the one that has waited longest for its client. Says whether there was one.
    fn evict(
        &mut self,
        budgets: &Budgets,
        young: Duration,
        which: impl Fn(&Taken) -> bool,
    ) -> bool {
        let now = Instant::now();
        let waiting = self.taken.iter().filter(|(_, taken)| which(taken));
        let waiting = waiting.filter_map(|(number, taken)| {
            let since = taken.pulse.waits_since(budgets)?;
            (now.saturating_duration_since(since) >= young).then_some((since, *number))
        });
        let Some((_, number)) = waiting.min() else {
            return false;
        };
        if let Some(taken) = self.remove(number) {
            taken.pulse.end();
        }
        self.counts.evicted += 1;
        true
    }

    fn remove(&mut self, number: u64) -> Option<Taken> {
        let taken = self.taken.remove(&number)?;
        if taken.room == Room::Whole {
            self.all_whole -= 1;
            if let Some(own) = self.whole.get_mut(&taken.source) {
                *own -= 1;
                if *own == 0 {
                    self.whole.remove(&taken.source);
                }
            }
        }
        Some(taken)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.table().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn address(last: u8) -> Source {
        Source::Address(Ipv4Addr::new(10, 0, 0, last).into())
    }

    #[test]
    fn silent_connections_make_room_and_busy_ones_do_not() {
        let budgets = Budgets {
            connections: 3,
            address_connections: 2,
            health_connections: 1,
            ..Budgets::SERVER
        };
        let places = Places::new();
        let take = |last| places.take(address(last), &budgets);
        let (first, second) = (take(1), take(1));
        let busy = first.pulse.request();
        // Too young to go.
        assert_eq!(take(1).room, Room::Health);
        std::thread::sleep(YOUNG);
        let third = take(1);
        assert_eq!((third.room, places.counts().evicted), (Room::Whole, 1));
        drop(second);
        let other = take(2);
        assert_eq!(other.room, Room::Whole);
        let requests = [third.pulse.request(), other.pulse.request()];
        std::thread::sleep(YOUNG);
        let health = take(3);
        assert_eq!(health.room, Room::Health);
        assert_eq!(places.counts().open, 4);
        drop((requests, busy));
        drop(other);
        let last = take(3);
        assert_eq!(last.room, Room::Whole);
        drop((first, third, health, last));
        let table = places.table();
        assert!(table.taken.is_empty() && table.whole.is_empty() && table.all_whole == 0);
    }
}
