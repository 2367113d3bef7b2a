//! What the library says, in our words.

/// The first line of what the library says, without the marks it adds for machines.
pub(crate) fn first_line(text: &str) -> String {
    const LONGEST: usize = 300;
    let line = text.lines().find(|line| !line.trim().is_empty());
    let line = line.unwrap_or("no reason given").trim();
    match line.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line.to_string(),
    }
}
