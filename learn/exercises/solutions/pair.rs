//! Exercise 5.1: the next merge.

/// The pair of neighbours that occurs most often in the words; of equals the smallest, `None` if no word has two.
pub fn most_frequent(words: &[Vec<u32>]) -> Option<(u32, u32)> {
    let mut counts = std::collections::BTreeMap::new();
    for pair in words.iter().flat_map(|word| word.windows(2)) {
        *counts.entry((pair[0], pair[1])).or_insert(0) += 1;
    }
    // Of equals the first in the map's order stays.
    let mut best: Option<((u32, u32), i32)> = None;
    for (pair, count) in counts {
        if best.is_none_or(|best| count > best.1) {
            best = Some((pair, count));
        }
    }
    best.map(|best| best.0)
}
