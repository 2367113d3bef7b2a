//! Compiled grammars that were used lately, bounded by bytes.

use std::collections::HashMap;

use crate::matcher::Matcher;
use strata_grammar::{Grammar, Limits};

pub(crate) struct Cache {
    entries: HashMap<(Grammar, Limits), Entry>,
    bytes: usize,
    capacity: usize,
    clock: u64,
}

struct Entry {
    matcher: Matcher,
    bytes: usize,
    used: u64,
}

impl Cache {
    pub(crate) fn new(capacity: usize) -> Self {
        Cache {
            entries: HashMap::new(),
            bytes: 0,
            capacity,
            clock: 0,
        }
    }

    /// A copy of what was compiled.
    pub(crate) fn get(&mut self, grammar: &Grammar, limits: &Limits) -> Option<Matcher> {
        self.clock += 1;
        let entry = self.entries.get_mut(&(grammar.clone(), *limits))?;
        entry.used = self.clock;
        Some(entry.matcher.clone())
    }

    /// Keeps a compiled grammar, in place of those that have not been used for longest.
    pub(crate) fn keep(
        &mut self,
        grammar: &Grammar,
        limits: &Limits,
        matcher: &Matcher,
        bytes: usize,
    ) {
        let key = (grammar.clone(), *limits);
        if bytes > self.capacity || self.entries.contains_key(&key) {
            return;
        }
        while self.bytes > self.capacity - bytes {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                break;
            };
            if let Some(entry) = self.entries.remove(&oldest) {
                self.bytes -= entry.bytes;
            }
        }
        self.clock += 1;
        self.bytes += bytes;
        let entry = Entry {
            matcher: matcher.clone(),
            bytes,
            used: self.clock,
        };
        self.entries.insert(key, entry);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}
