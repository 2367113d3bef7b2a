//! Whether any text matches an expression: a search among its derivatives.

use super::{Alphabet, Arena, Expr};
use alloc::vec;
use alloc::vec::Vec;
use hashbrown::HashMap;

/// What is known of expressions of one arena.
#[derive(Clone, Default)]
pub(crate) struct Emptiness(HashMap<Expr, bool>);

impl Emptiness {
    /// Whether some text matches; nothing if the search would take more than `limit` steps in all of the arena's work.
    pub(crate) fn some_text(
        &mut self,
        arena: &mut Arena,
        alphabet: &Alphabet,
        expr: Expr,
        limit: u64,
    ) -> Option<bool> {
        if arena.is_positive(expr) {
            return Some(true);
        }
        if let Some(known) = self.0.get(&expr) {
            return Some(*known);
        }
        // The way to where the search is: expressions, and which letter comes next.
        let mut way = vec![(expr, 0)];
        let mut seen: Vec<Expr> = vec![expr];
        let mut visited: HashMap<Expr, ()> = HashMap::from_iter([(expr, ())]);
        while let Some((at, letter)) = way.last_mut() {
            let Some(byte) = alphabet.byte(*letter) else {
                way.pop();
                continue;
            };
            *letter += 1;
            let next = arena.derivative(*at, byte);
            if arena.work > limit {
                return None;
            }
            let known = self.0.get(&next).copied();
            if arena.is_positive(next) || known == Some(true) {
                for (at, _) in way {
                    self.0.insert(at, true);
                }
                return Some(true);
            }
            if next != Arena::NOTHING && known.is_none() && visited.insert(next, ()).is_none() {
                seen.push(next);
                way.push((next, 0));
            }
        }
        // All that can be reached is known, and none of it ends.
        for expr in seen {
            self.0.insert(expr, false);
        }
        Some(false)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.len() * 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_ends_with_an_answer_or_at_its_limit() {
        let mut arena = Arena::new();
        let a = arena.literal(b"a");
        let b = arena.literal(b"b");
        let some = arena.repeat(a, 1, u32::MAX);
        let ends_in_b = arena.seq(Arena::ANYTHING, b);
        let never = arena.and(vec![some, ends_in_b]);
        let five = arena.repeat(a, 5, 5);
        let fives = arena.repeat(five, 0, u32::MAX);
        let six = arena.repeat(a, 6, 6);
        let sixes = arena.repeat(six, 1, u32::MAX);
        let thirty = arena.and(vec![fives, sixes]);
        let alphabet = Alphabet::new(&arena);
        let mut known = Emptiness::default();
        let mut ask = |expr, limit| known.some_text(&mut arena, &alphabet, expr, limit);
        assert_eq!(ask(never, u64::MAX), Some(false));
        assert_eq!(ask(thirty, 0), None);
        assert_eq!(ask(thirty, u64::MAX), Some(true));
    }
}
