//! The built-in model is a storyteller. Given the first words of a story it mostly goes on with them, but now and then
//! talks about itself; so an answer to first words begins with them.

use std::path::Path;
use strata::load::BUILT_IN;

/// How stories begin, in lower case.
const BEGINNINGS: &[&str] = &[
    "once ",
    "long ago",
    "long, long ago",
    "a long time ago",
    "far away",
    "far, far away",
    "there once ",
    "there was ",
    "there were ",
    "there lived ",
    "one day",
    "one morning",
    "one evening",
    "one night",
    "in a ",
    "deep in ",
];

/// What the answer to `prompt` begins with; nothing unless `model` is the built-in one and the prompt begins a story.
pub(crate) fn beginning<'a>(model: &Path, prompt: &'a str) -> &'a str {
    let text = prompt.trim();
    let lower = text.to_lowercase();
    let begins = BEGINNINGS.iter().any(|words| lower.starts_with(words));
    if model.as_os_str() == BUILT_IN && begins && !text.ends_with('?') {
        text
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_first_words_of_a_story_are_continued_and_only_by_the_storyteller() {
        let tale = Path::new(BUILT_IN);
        assert_eq!(beginning(tale, "Once upon a time\n"), "Once upon a time");
        assert_eq!(beginning(tale, "There was a fox"), "There was a fox");
        assert_eq!(beginning(tale, "Tell me a story."), "");
        assert_eq!(beginning(tale, "Once more, what is your name?"), "");
        assert_eq!(beginning(Path::new("./tale"), "Once upon a time"), "");
    }
}
