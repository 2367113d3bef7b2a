//! Attention over a long context in chunks of a fixed size, joined in their order.

// ANCHOR: partial
/// What one chunk of positions has gathered for a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Partial {
    /// The largest score of the chunk.
    max: f32,
    /// The sum of e^(score - max).
    sum: f32,
    /// The values, each times its e^(score - max).
    values: Vec<f32>,
}

impl Partial {
    /// A chunk's part: positions with their scores and values.
    pub fn new(scores: &[f32], values: &[Vec<f32>]) -> Partial {
        let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let width = values.first().map_or(0, Vec::len);
        let mut partial = Partial {
            max,
            sum: 0.0,
            values: vec![0.0; width],
        };
        for (score, value) in scores.iter().zip(values) {
            let weight = (score - max).exp();
            partial.sum += weight;
            for (out, value) in partial.values.iter_mut().zip(value) {
                *out += weight * value;
            }
        }
        partial
    }

    /// Adds the chunk that follows. The one with the smaller maximum is scaled to the other.
    pub fn join(&mut self, next: &Partial) {
        let max = self.max.max(next.max);
        let (ours, theirs) = ((self.max - max).exp(), (next.max - max).exp());
        self.sum = self.sum * ours + next.sum * theirs;
        for (out, value) in self.values.iter_mut().zip(&next.values) {
            *out = *out * ours + value * theirs;
        }
        self.max = max;
    }

    /// The weighted mean of the values.
    pub fn finish(self) -> Vec<f32> {
        let sum = self.sum;
        self.values.into_iter().map(|value| value / sum).collect()
    }
}
// ANCHOR_END: partial

// ANCHOR: chunked
/// Attention in chunks of `chunk` positions, computed by so many threads. The chunks do not depend on the threads.
pub fn attend(scores: &[f32], values: &[Vec<f32>], chunk: usize, threads: usize) -> Vec<f32> {
    let parts: Vec<_> = scores.chunks(chunk).zip(values.chunks(chunk)).collect();
    let share = parts.len().div_ceil(threads).max(1);
    let computed: Vec<Partial> = std::thread::scope(|scope| {
        let workers: Vec<_> = parts
            .chunks(share)
            .map(|parts| {
                let compute = || {
                    parts
                        .iter()
                        .map(|part| Partial::new(part.0, part.1))
                        .collect()
                };
                scope.spawn::<_, Vec<Partial>>(compute)
            })
            .collect();
        let results = workers.into_iter();
        results
            .flat_map(|worker| worker.join().expect("no worker panics"))
            .collect()
    });
    // Always from the first to the last, whoever was ready first.
    let joined = computed.into_iter().reduce(|mut all, next| {
        all.join(&next);
        all
    });
    joined.map(Partial::finish).unwrap_or_default()
}
// ANCHOR_END: chunked
