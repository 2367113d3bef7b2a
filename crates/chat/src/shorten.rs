//! Shortening conversations that do not fit the context.

use crate::message::{Message, Role};
use alloc::vec::Vec;

/// The most tokens a prompt may have to leave room for an answer: `max_tokens`, but at most a quarter of the context.
pub fn prompt_room(context: usize, max_tokens: Option<usize>) -> usize {
    let answer = max_tokens.unwrap_or(usize::MAX).min(context / 4).max(1);
    context.saturating_sub(answer).max(1)
}

/// Shortens a conversation until it `fits`, and returns what is left.
///
/// Drops whole exchanges, oldest first: a user message with the assistant and tool messages that answer it. So what is
/// left begins with a user message, and no tool result loses its call. System messages, the last user message and
/// what follows it always stay, even if they do not fit.
pub fn shorten<E>(
    messages: &[Message],
    mut fits: impl FnMut(&[Message]) -> Result<bool, E>,
) -> Result<Vec<Message>, E> {
    let starts = starts(messages);
    let mut kept = messages.to_vec();
    if fits(&kept)? {
        return Ok(kept);
    }
    // Find the fewest exchanges to drop by bisection: each try renders and tokenizes a whole prompt.
    let (mut low, mut high) = (0, starts.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if fits(&from(messages, starts[middle]))? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    if let Some(&start) = starts.get(low).or(starts.last()) {
        kept = from(messages, start);
    }
    Ok(kept)
}

/// Where a shorter conversation can begin: at each user message but the first message.
fn starts(messages: &[Message]) -> Vec<usize> {
    let said = |message: &Message| message.role != Role::System;
    let first = messages.iter().position(said).unwrap_or(messages.len());
    let numbered = messages.iter().enumerate().skip(first + 1);
    let users = numbered.filter(|(_, message)| message.role == Role::User);
    users.map(|(at, _)| at).collect()
}

/// The messages from `start` on, with the system messages before it.
fn from(messages: &[Message], start: usize) -> Vec<Message> {
    let (before, after) = messages.split_at(start);
    let system = before.iter().filter(|m| m.role == Role::System);
    system.chain(after).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::convert::Infallible;

    /// A message for each letter: system, user, assistant or tool.
    fn conversation(roles: &str) -> Vec<Message> {
        let role = |letter| match letter {
            's' => Role::System,
            'u' => Role::User,
            'a' => Role::Assistant,
            _ => Role::Tool,
        };
        let numbered = roles.chars().enumerate();
        numbered
            .map(|(i, letter)| Message::text(role(letter), alloc::format!("{letter}{i}")))
            .collect()
    }

    /// What is left of a conversation where so many messages fit.
    fn left(roles: &str, most: usize) -> alloc::string::String {
        let fits = |messages: &[Message]| Ok::<_, Infallible>(messages.len() <= most);
        let Ok(kept) = shorten(&conversation(roles), fits);
        let texts: Vec<_> = kept.iter().map(Message::joined).collect();
        texts.join(" ")
    }

    #[test]
    fn whole_exchanges_go_and_the_oldest_first() {
        for (roles, most, expected) in [
            ("uaua", 4, "u0 a1 u2 a3"),
            ("uauau", 4, "u2 a3 u4"),
            ("uauau", 2, "u4"),
            // Calls and their results go with the question.
            ("suatatauatau", 9, "s0 u7 a8 t9 a10 u11"),
            ("suatatauatau", 5, "s0 u11"),
            // System messages stay wherever they are.
            ("suasuau", 4, "s0 s3 u6"),
            // A greeting is nobody's answer.
            ("auau", 3, "u1 a2 u3"),
            ("uuau", 3, "u1 a2 u3"),
        ] {
            assert_eq!(left(roles, most), expected, "{roles} in {most}");
        }
    }

    #[test]
    fn the_last_question_stays_with_what_follows_it() {
        for (roles, expected) in [
            ("uauatat", "u2 a3 t4 a5 t6"),
            ("u", "u0"),
            ("su", "s0 u1"),
            ("saa", "s0 a1 a2"),
            ("", ""),
        ] {
            assert_eq!(left(roles, 0), expected, "{roles}");
        }
    }

    #[test]
    fn few_prompts_are_tried() {
        let (mut tries, messages) = (0, conversation(&"ua".repeat(500)));
        let kept = shorten(&messages, |messages| {
            tries += 1;
            Ok::<_, Infallible>(messages.len() <= 300)
        });
        assert_eq!(kept.map(|kept| kept.len()), Ok(300));
        assert!(tries <= 11, "{tries}");
    }

    #[test]
    fn what_cannot_be_asked_ends_it() {
        let refused = shorten(&conversation("uau"), |_| Err("why"));
        assert_eq!(refused, Err("why"));
    }

    #[test]
    fn an_answer_has_a_quarter_or_what_it_wants() {
        assert_eq!(prompt_room(100, None), 75);
        assert_eq!(prompt_room(100, Some(10)), 90);
        assert_eq!(prompt_room(100, Some(50)), 75);
        assert_eq!(prompt_room(100, Some(0)), 99);
        assert_eq!(prompt_room(0, None), 1);
    }
}
