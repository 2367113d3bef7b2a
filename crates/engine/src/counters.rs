//! What the engine has done, and how it stands: plain numbers that any front end can export.

use core::time::Duration;

/// Everything counted since the engine began, and how it stands now.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Requests taken.
    pub submitted: u64,
    /// Requests not taken, because the queue was full.
    pub rejected: u64,
    /// Requests not taken, for other reasons.
    pub refused: u64,
    /// Requests of which all answers are complete.
    pub finished: u64,
    /// Requests that ended with an error.
    pub failed: u64,
    /// Requests that were canceled.
    pub canceled: u64,
    /// Tokens of the prompts of requests that have started.
    pub prompt_tokens: u64,
    /// Those of them that were cached.
    pub cached_tokens: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Tokens drafted.
    pub drafted_tokens: u64,
    /// Drafted tokens that were accepted.
    pub accepted_tokens: u64,
    /// Drafts made, of one or more tokens each.
    pub drafts: u64,
    /// Tokens of the longest sequence there was.
    pub longest: usize,
    /// Tokens that a constraint left no choice for, and that were not sampled.
    pub forced_tokens: u64,
    /// Sequences whose beginning was looked for in the cache.
    pub cache_queries: u64,
    /// Those of which something was found.
    pub cache_hits: u64,
    /// Kept pages that were given up for others.
    pub evicted_pages: u64,
    /// Kept pages of which the part that layers with windows see was given up for others.
    pub window_evictions: u64,
    /// Pages put into the store.
    pub stored_pages: u64,
    /// Pages brought back from the store.
    pub restored_pages: u64,
    /// Sequences that had to give their pages back, to be computed again.
    pub preemptions: u64,
    /// Steps taken.
    pub steps: u64,
    /// Sequences that wait.
    pub waiting: usize,
    /// Sequences that run.
    pub running: usize,
    /// Pages in all.
    pub pages: usize,
    /// Pages that nobody uses.
    pub free_pages: usize,
    /// Pages that only the cache holds: whoever needs them can have them.
    pub kept_pages: usize,
    /// What sequences wait for, if any do.
    pub blocked: Option<Blocked>,
    /// From submission to the first computation, in seconds.
    pub queue_time: Histogram,
    /// From submission to the first token, in seconds.
    pub first_token_time: Histogram,
    /// Between two tokens of a sequence, in seconds.
    pub token_time: Histogram,
    /// Steps, in seconds.
    pub step_time: Histogram,
    /// Sequences in a step.
    pub batch_texts: Histogram,
    /// Tokens in a step.
    pub batch_tokens: Histogram,
}

/// What keeps waiting sequences from being admitted.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// As many run as may run side by side.
    Slots,
    /// The pages are in use.
    Memory,
    /// One sequence more would make steps too long for the others.
    Time,
}

/// Upper ends of the buckets: 1, 2 and 5 times powers of ten. Seconds fill them from the left, counts from 1 on.
pub const BUCKETS: [f64; 22] = [
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0,
    10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0,
];

/// How often values fell into each bucket.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// Values up to each of [`BUCKETS`], and above the one before it; the last is for those above all.
    pub buckets: [u64; BUCKETS.len() + 1],
    /// Their sum.
    pub sum: f64,
    /// How many there were.
    pub count: u64,
}

impl Histogram {
    /// Counts a value.
    pub fn record(&mut self, value: f64) {
        let bucket = BUCKETS.partition_point(|&end| end < value);
        self.buckets[bucket] += 1;
        self.sum += value;
        self.count += 1;
    }

    /// Counts a time.
    pub fn record_time(&mut self, time: Duration) {
        self.record(time.as_secs_f64());
    }

    /// The end of the bucket that this share of the values is under; infinity if it is above all.
    pub fn quantile(&self, share: f64) -> f64 {
        let wanted = share * self.count as f64;
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen as f64 >= wanted {
                return BUCKETS.get(bucket).copied().unwrap_or(f64::INFINITY);
            }
        }
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_into_the_bucket_they_are_not_above() {
        let mut histogram = Histogram::default();
        for value in [0.0, 0.0001, 0.00011, 1.0, 1.5, 5000.0] {
            histogram.record(value);
        }
        assert_eq!(histogram.buckets[0], 2);
        assert_eq!(histogram.buckets[1], 1);
        assert_eq!(histogram.buckets[12], 1);
        assert_eq!(histogram.buckets[13], 1);
        assert_eq!(histogram.buckets[BUCKETS.len()], 1);
        assert_eq!(histogram.count, 6);
        assert_eq!(histogram.quantile(0.5), 0.0002);
        assert_eq!(histogram.quantile(1.0), f64::INFINITY);
    }
}
