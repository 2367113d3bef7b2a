//! Exercise 5.1: the next merge.

/// The pair of neighbours that occurs most often in the words; of equals the smallest, `None` if no word has two.
pub fn most_frequent(words: &[Vec<u32>]) -> Option<(u32, u32)> {
    // Your code here.
    words.first().map(|word| (word[0], word[0]))
}
