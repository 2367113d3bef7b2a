//! Exercise 5.3: a chat that has become too long.

use crate::template::Message;

/// The messages that still fit into `most` bytes of content: the system message, if it comes first, and as many of the
/// latest as possible, in order. A chat that is cut must not begin with an answer: those at the front are dropped too.
pub fn shorten(messages: &[Message], most: usize) -> Vec<Message> {
    let system = messages.first().filter(|first| first.role == "system");
    let mut left = most.saturating_sub(system.map_or(0, |system| system.content.len()));
    let others = &messages[usize::from(system.is_some())..];
    let mut first = others.len();
    while first > 0 && others[first - 1].content.len() <= left {
        left -= others[first - 1].content.len();
        first -= 1;
    }
    let kept = others[first..].iter();
    let kept = kept.skip_while(|message| first > 0 && message.role == "assistant");
    system.into_iter().chain(kept).cloned().collect()
}
