//! Regular expressions over bytes as nodes of a graph without duplicates, with derivatives (Brzozowski 1964; Owens, Reppy
//! and Turon 2009): the derivative by a byte is what may follow that byte.
//!
//! What is built is simplified by fixed rules, so that the derivatives of an expression are finitely many. Nothing here
//! recurses along a sequence, only into parts of parts, which the sources bound.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use hashbrown::HashMap;

/// An expression of an [`Arena`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Expr(u32);

/// Repetitions without end.
pub(crate) const ENDLESS: u32 = u32::MAX;

/// Bytes: byte b is bit b % 64 of word b / 64.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ByteSet(pub(crate) [u64; 4]);

impl ByteSet {
    pub(crate) const EMPTY: Self = Self([0; 4]);
    pub(crate) const ALL: Self = Self([u64::MAX; 4]);

    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut set = Self::EMPTY;
        bytes.iter().for_each(|byte| set.insert(*byte));
        set
    }

    pub(crate) fn range(from: u8, to: u8) -> Self {
        let mut set = Self::EMPTY;
        (from..=to).for_each(|byte| set.insert(byte));
        set
    }

    pub(crate) fn insert(&mut self, byte: u8) {
        self.0[byte as usize / 64] |= 1 << (byte % 64);
    }

    pub(crate) fn remove(&mut self, byte: u8) {
        self.0[byte as usize / 64] &= !(1 << (byte % 64));
    }

    pub(crate) fn contains(&self, byte: u8) -> bool {
        self.0[byte as usize / 64] >> (byte % 64) & 1 == 1
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=255).filter(|byte| self.contains(*byte))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    fn join(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// No text at all.
    Nothing,
    /// The empty text.
    Empty,
    /// One byte of a set, which is not empty.
    Bytes(ByteSet),
    /// One after the other; the first is no sequence.
    Seq(Expr, Expr),
    /// Any of several, in order.
    Or(Box<[Expr]>),
    /// All of several, in order.
    And(Box<[Expr]>),
    Not(Expr),
    /// Again and again, so many times at least and at most.
    Repeat(Expr, u32, u32),
    /// A decimal number that is a multiple.
    Multiple(Multiple),
}

/// The digits of a number whose multiple of `10^scale` leaves no remainder, after some that leave `remainder`. At the start
/// that is the divisor itself: the empty text is no number.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Multiple {
    pub(crate) divisor: u32,
    pub(crate) remainder: u32,
    /// Digits that may still follow the point.
    pub(crate) scale: u32,
    /// Whether the point has come.
    pub(crate) fraction: bool,
}

#[derive(Copy, Clone, Default)]
struct Facts {
    /// The empty text matches.
    nullable: bool,
    /// It is sure that a text matches.
    positive: bool,
}

/// Expressions, each once.
#[derive(Clone)]
pub(crate) struct Arena {
    nodes: Vec<Node>,
    facts: Vec<Facts>,
    numbers: HashMap<Node, Expr>,
    derivatives: HashMap<(Expr, u8), Expr>,
    /// What was computed so far, in steps.
    pub(crate) work: u64,
}

impl Arena {
    pub(crate) const NOTHING: Expr = Expr(0);
    pub(crate) const EMPTY: Expr = Expr(1);
    /// Any bytes, also none.
    pub(crate) const ANYTHING: Expr = Expr(3);

    pub(crate) fn new() -> Self {
        let mut arena = Self {
            nodes: Vec::new(),
            facts: Vec::new(),
            numbers: HashMap::new(),
            derivatives: HashMap::new(),
            work: 0,
        };
        arena.add(Node::Nothing);
        arena.add(Node::Empty);
        let byte = arena.add(Node::Bytes(ByteSet::ALL));
        arena.add(Node::Repeat(byte, 0, ENDLESS));
        arena
    }

    pub(crate) fn node(&self, expr: Expr) -> &Node {
        &self.nodes[expr.0 as usize]
    }

    pub(crate) fn is_nullable(&self, expr: Expr) -> bool {
        self.facts[expr.0 as usize].nullable
    }

    pub(crate) fn is_positive(&self, expr: Expr) -> bool {
        self.facts[expr.0 as usize].positive
    }

    /// Bytes of memory, about.
    pub(crate) fn bytes(&self) -> usize {
        self.nodes.len() * 120 + self.derivatives.len() * 24
    }

    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The sets of bytes among the nodes from one on.
    pub(crate) fn byte_sets(&self, from: usize) -> impl Iterator<Item = ByteSet> + '_ {
        self.nodes[from..].iter().filter_map(|node| match node {
            Node::Bytes(set) => Some(*set),
            _ => None,
        })
    }

    fn add(&mut self, node: Node) -> Expr {
        self.work += 1;
        if let Some(known) = self.numbers.get(&node) {
            return *known;
        }
        let facts = self.facts_of(&node);
        let expr = Expr(self.nodes.len() as u32);
        self.numbers.insert(node.clone(), expr);
        self.nodes.push(node);
        self.facts.push(facts);
        expr
    }

    fn facts_of(&self, node: &Node) -> Facts {
        let of = |expr: Expr| self.facts[expr.0 as usize];
        let nullable = match node {
            Node::Nothing | Node::Bytes(_) => false,
            Node::Empty => true,
            Node::Seq(a, b) => of(*a).nullable && of(*b).nullable,
            Node::Or(parts) => parts.iter().any(|part| of(*part).nullable),
            Node::And(parts) => parts.iter().all(|part| of(*part).nullable),
            Node::Not(part) => !of(*part).nullable,
            Node::Repeat(_, least, _) => *least == 0,
            Node::Multiple(multiple) => multiple.remainder == 0,
        };
        let positive = nullable
            || match node {
                Node::Bytes(_) | Node::Multiple(_) => true,
                Node::Seq(a, b) => of(*a).positive && of(*b).positive,
                Node::Or(parts) => parts.iter().any(|part| of(*part).positive),
                Node::Repeat(part, ..) => of(*part).positive,
                _ => false,
            };
        Facts { nullable, positive }
    }

    pub(crate) fn bytes_of(&mut self, set: ByteSet) -> Expr {
        if set.is_empty() {
            Self::NOTHING
        } else {
            self.add(Node::Bytes(set))
        }
    }

    pub(crate) fn literal(&mut self, bytes: &[u8]) -> Expr {
        let mut expr = Self::EMPTY;
        for byte in bytes.iter().rev() {
            let head = self.bytes_of(ByteSet::of(&[*byte]));
            expr = self.seq(head, expr);
        }
        expr
    }

    /// One expression after the other.
    pub(crate) fn seq(&mut self, first: Expr, rest: Expr) -> Expr {
        match (first, rest) {
            (Self::EMPTY, other) | (other, Self::EMPTY) => return other,
            (Self::NOTHING, _) | (_, Self::NOTHING) => return Self::NOTHING,
            _ => {}
        }
        // A sequence leans to the right.
        let mut heads = Vec::new();
        let mut last = first;
        while let Node::Seq(head, tail) = self.node(last) {
            heads.push(*head);
            last = *tail;
        }
        let mut expr = self.add(Node::Seq(last, rest));
        for head in heads.into_iter().rev() {
            expr = self.add(Node::Seq(head, expr));
        }
        expr
    }

    pub(crate) fn seq_of(&mut self, parts: &[Expr]) -> Expr {
        let parts = parts.iter().rev();
        parts.fold(Self::EMPTY, |rest, part| self.seq(*part, rest))
    }

    /// Any of several.
    pub(crate) fn or(&mut self, parts: Vec<Expr>) -> Expr {
        let mut flat = Vec::with_capacity(parts.len());
        let mut set = ByteSet::EMPTY;
        for part in parts {
            match self.node(part) {
                Node::Or(inner) => flat.extend_from_slice(inner),
                _ => flat.push(part),
            }
        }
        self.work += flat.len() as u64;
        flat.retain(|part| match self.node(*part) {
            Node::Nothing => false,
            Node::Bytes(bytes) => {
                set.join(bytes);
                false
            }
            _ => true,
        });
        if flat.contains(&Self::ANYTHING) {
            return Self::ANYTHING;
        }
        if !set.is_empty() {
            flat.push(self.bytes_of(set));
        }
        flat.sort_unstable();
        flat.dedup();
        match flat.as_slice() {
            [] => Self::NOTHING,
            [one] => *one,
            _ => self.add(Node::Or(flat.into())),
        }
    }

    /// All of several.
    pub(crate) fn and(&mut self, parts: Vec<Expr>) -> Expr {
        let mut flat = Vec::with_capacity(parts.len());
        for part in parts {
            match self.node(part) {
                Node::And(inner) => flat.extend_from_slice(inner),
                _ => flat.push(part),
            }
        }
        self.work += flat.len() as u64;
        flat.retain(|part| *part != Self::ANYTHING);
        flat.sort_unstable();
        flat.dedup();
        match flat.as_slice() {
            [] => Self::ANYTHING,
            [one] => *one,
            // In order, these two come first.
            [Self::NOTHING, ..] => Self::NOTHING,
            [Self::EMPTY, rest @ ..] => {
                if rest.iter().all(|part| self.is_nullable(*part)) {
                    Self::EMPTY
                } else {
                    Self::NOTHING
                }
            }
            _ => self.add(Node::And(flat.into())),
        }
    }

    pub(crate) fn not(&mut self, part: Expr) -> Expr {
        match (part, self.node(part)) {
            (Self::NOTHING, _) => Self::ANYTHING,
            (Self::ANYTHING, _) => Self::NOTHING,
            (_, Node::Not(inner)) => *inner,
            _ => self.add(Node::Not(part)),
        }
    }

    pub(crate) fn repeat(&mut self, part: Expr, least: u32, most: u32) -> Expr {
        match part {
            Self::NOTHING if least > 0 => Self::NOTHING,
            Self::NOTHING | Self::EMPTY => Self::EMPTY,
            _ if most == 0 => Self::EMPTY,
            _ if (least, most) == (1, 1) => part,
            _ => {
                let least = if self.is_nullable(part) { 0 } else { least };
                self.add(Node::Repeat(part, least, most))
            }
        }
    }

    /// Numbers that are multiples of `coefficient / 10^scale`.
    pub(crate) fn multiple(&mut self, coefficient: u32, scale: u32) -> Expr {
        self.multiple_from(Multiple {
            divisor: coefficient,
            remainder: coefficient,
            scale,
            fraction: false,
        })
    }

    fn multiple_from(&mut self, multiple: Multiple) -> Expr {
        let Multiple {
            divisor,
            remainder,
            scale,
            fraction,
        } = multiple;
        if !fraction {
            return self.add(Node::Multiple(multiple));
        }
        if scale == 0 && remainder == 0 {
            return Self::EMPTY;
        }
        let room = 10u64.pow(scale);
        let missing = (divisor - remainder) % divisor;
        if u64::from(missing) >= room {
            return Self::NOTHING;
        }
        if room > u64::from(divisor) {
            return self.add(Node::Multiple(multiple));
        }
        // No choice is left.
        let mut digits = vec![b'0'; scale as usize];
        let mut left = missing;
        for digit in digits.iter_mut().rev() {
            *digit += (left % 10) as u8;
            left /= 10;
        }
        self.literal(&digits)
    }

    fn after_digit(&mut self, multiple: Multiple, byte: u8) -> Expr {
        let Multiple {
            divisor,
            remainder,
            scale,
            fraction,
        } = multiple;
        if byte == b'.' && !fraction && scale > 0 {
            return self.multiple_from(Multiple {
                fraction: true,
                ..multiple
            });
        }
        if !byte.is_ascii_digit() || (fraction && scale == 0) {
            return Self::NOTHING;
        }
        let (before, scale) = if fraction {
            (u64::from(remainder), scale - 1)
        } else {
            (u64::from(remainder) * 10, scale)
        };
        let more = u64::from(byte - b'0') * 10u64.pow(scale);
        self.multiple_from(Multiple {
            divisor,
            remainder: ((before + more) % u64::from(divisor)) as u32,
            scale,
            fraction,
        })
    }

    /// What may follow a byte.
    pub(crate) fn derivative(&mut self, expr: Expr, byte: u8) -> Expr {
        match self.node(expr) {
            Node::Nothing | Node::Empty => return Self::NOTHING,
            Node::Bytes(set) => {
                return if set.contains(byte) {
                    Self::EMPTY
                } else {
                    Self::NOTHING
                };
            }
            // Most branches of many begin with another byte.
            Node::Seq(head, _) => {
                if let Node::Bytes(set) = self.node(*head)
                    && !set.contains(byte)
                {
                    return Self::NOTHING;
                }
            }
            _ => {}
        }
        if let Some(known) = self.derivatives.get(&(expr, byte)) {
            return *known;
        }
        self.work += 1;
        let result = match self.node(expr).clone() {
            Node::Nothing | Node::Empty | Node::Bytes(_) => Self::NOTHING,
            Node::Seq(..) => self.sequence_derivative(expr, byte),
            Node::Or(parts) => {
                let parts = parts.iter().map(|part| self.derivative(*part, byte));
                let parts = parts.collect();
                self.or(parts)
            }
            Node::And(parts) => {
                let parts = parts.iter().map(|part| self.derivative(*part, byte));
                let parts = parts.collect();
                self.and(parts)
            }
            Node::Not(part) => {
                let part = self.derivative(part, byte);
                self.not(part)
            }
            Node::Repeat(part, least, most) => {
                let first = self.derivative(part, byte);
                if first == Self::NOTHING {
                    Self::NOTHING
                } else {
                    let most = if most == ENDLESS { most } else { most - 1 };
                    let rest = self.repeat(part, least.saturating_sub(1), most);
                    self.seq(first, rest)
                }
            }
            Node::Multiple(multiple) => self.after_digit(multiple, byte),
        };
        self.derivatives.insert((expr, byte), result);
        result
    }

    /// The derivative of a sequence, along those of its parts that may be empty.
    fn sequence_derivative(&mut self, expr: Expr, byte: u8) -> Expr {
        let mut branches = Vec::new();
        let mut at = expr;
        loop {
            self.work += 1;
            let Node::Seq(head, tail) = *self.node(at) else {
                branches.push(self.derivative(at, byte));
                break;
            };
            let first = self.derivative(head, byte);
            branches.push(self.seq(first, tail));
            if !self.is_nullable(head) {
                break;
            }
            at = tail;
        }
        match branches.as_slice() {
            [one] => *one,
            _ => self.or(branches),
        }
    }
}

#[cfg(test)]
mod tests;
