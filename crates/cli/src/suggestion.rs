//! What somebody may have meant by a word that is not known.

/// The candidate that a word most likely stands for, if one is near enough to be a slip of the fingers.
pub(crate) fn nearest<'c>(
    word: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    let most = match word.chars().count() {
        0..=1 => return None,
        2..=5 => 1,
        _ => 2,
    };
    let found = candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate));
    let near = found.filter(|&(distance, _)| distance <= most);
    near.min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// The model among those here that a name is a slip of. Names that differ in a digit or in one letter for another
/// (`llava` and `llama`) are names of different models.
pub(crate) fn misspelt<'c>(
    name: &str,
    known: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    let digits = |text: &str| -> String { text.chars().filter(char::is_ascii_digit).collect() };
    let sorted = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    known.into_iter().find(|known| {
        let swapped = sorted(known) == sorted(name);
        let longer = known.chars().count() != name.chars().count();
        known.len() >= 4
            && digits(known) == digits(name)
            && (swapped || longer)
            && distance(name, known) == 1
    })
}

/// How many letters must be inserted, left out, replaced, or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let differs = usize::from(a[i - 1] != b[j - 1]);
            let mut least = (rows[i - 1][j - 1] + differs)
                .min(rows[i - 1][j] + 1)
                .min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_understood_and_other_words_are_not() {
        let commands = [
            "run", "serve", "pull", "push", "list", "quantize", "tokenize",
        ];
        for (word, meant) in [
            ("rnu", Some("run")),
            ("sevre", Some("serve")),
            ("quantise", Some("quantize")),
            ("tokenzie", Some("tokenize")),
            ("run", Some("run")),
            ("llama", None),
            ("x", None),
        ] {
            assert_eq!(nearest(word, commands), meant, "{word}");
        }
        for (name, meant) in [
            ("tael", Some("tale")),
            ("tal", Some("tale")),
            ("talle", Some("tale")),
            ("tile", None),
            ("tale2", None),
            ("llava", None),
            ("qwen2", None),
            ("gema3", Some("gemma3")),
        ] {
            let known = ["tale", "llama", "qwen3", "gemma3"];
            assert_eq!(misspelt(name, known), meant, "{name}");
        }
    }
}
