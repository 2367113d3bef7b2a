//! Schemas for the same value, made one.

use super::read::Reader;
use super::{
    List, Matching, Number, Object, Pattern, Problem, Properties, Schema, Text, of_others,
};
use crate::regex::Arena;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;

type Read = Result<Schema, Problem>;

/// How deeply schemas are merged, references followed.
const DEEPEST: usize = 96;

impl Schema {
    fn never(why: &str) -> Self {
        Self::Never(why.to_string())
    }

    /// What can be said more simply, one level deep.
    pub(super) fn simplified(self, arena: &mut Arena, matching: &mut Matching) -> Self {
        let (options, exclusive) = match self {
            Self::AnyOf(options) => (options, false),
            Self::OneOf(options) => (options, true),
            other => return other,
        };
        let mut never = None;
        let mut valid = Vec::with_capacity(options.len());
        for option in options {
            match option {
                Self::Any if !exclusive => return Self::Any,
                Self::Never(why) => never = never.or(Some(Self::Never(why))),
                Self::AnyOf(inner) if !exclusive => valid.extend(inner),
                Self::OneOf(inner) if exclusive => valid.extend(inner),
                other => valid.push(other),
            }
        }
        match valid.len() {
            0 => never.unwrap_or_else(|| Self::never("there is nothing to choose from")),
            1 => valid.remove(0),
            _ if !exclusive => Self::AnyOf(valid),
            _ => {
                let apart = valid.iter().enumerate().all(|(i, one)| {
                    let mut others = valid.iter().skip(i + 1);
                    others.all(|other| one.is_apart(other, arena, matching))
                });
                if apart {
                    Self::AnyOf(valid)
                } else {
                    Self::OneOf(valid)
                }
            }
        }
    }

    /// Whether it is plain that no value matches both.
    fn is_apart(&self, other: &Self, arena: &mut Arena, matching: &mut Matching) -> bool {
        let mut each = |options: &[Self], one: &Self, first: bool| {
            options.iter().all(|option| {
                let (a, b) = if first { (option, one) } else { (one, option) };
                a.is_apart(b, arena, matching)
            })
        };
        match (self, other) {
            (Self::Never(_), _) | (_, Self::Never(_)) => true,
            (Self::Any | Self::Ref(_), _) | (_, Self::Any | Self::Ref(_)) => false,
            (Self::Boolean(a), Self::Boolean(b)) => a.is_some() && b.is_some() && a != b,
            (Self::AnyOf(options), _) => each(options, other, true),
            (_, Self::AnyOf(options)) => each(options, self, false),
            (Self::OneOf(options), _) => each(options, other, true),
            (_, Self::OneOf(options)) => each(options, self, false),
            (Self::Text(a), Self::Text(b)) => match (&a.pattern, &b.pattern) {
                (Some(Pattern::Literal(a)), Some(Pattern::Literal(b))) => a != b,
                _ => false,
            },
            (Self::Object(a), Self::Object(b)) => {
                let mut names = a.required.iter().chain(&b.required);
                names.any(|name| {
                    let property = |matching: &mut Matching, arena: &mut Arena, object| {
                        let found = matching.property(arena, object, name);
                        found.cloned().unwrap_or(Self::Any)
                    };
                    let a = property(matching, arena, a);
                    let b = property(matching, arena, b);
                    a.is_apart(&b, arena, matching)
                })
            }
            _ => core::mem::discriminant(self) != core::mem::discriminant(other),
        }
    }
}

impl Reader<'_> {
    pub(super) fn simplify(&mut self, schema: Schema) -> Schema {
        schema.simplified(self.arena, self.matching)
    }

    /// What both schemas allow.
    pub(super) fn merge(&mut self, one: Schema, other: Schema, depth: usize) -> Read {
        self.count(&one)?;
        if depth > DEEPEST {
            return Err(Problem::TooLarge);
        }
        let depth = depth + 1;
        let merged = match (one, other) {
            (Schema::Any, other) | (other, Schema::Any) => other,
            (Schema::Never(why), _) | (_, Schema::Never(why)) => Schema::Never(why),
            (Schema::Ref(place), other) => self.merge_ref(&place, other, true, depth)?,
            (other, Schema::Ref(place)) => self.merge_ref(&place, other, false, depth)?,
            (Schema::OneOf(options), other) => {
                Schema::OneOf(self.merge_each(options, other, true, depth)?)
            }
            (other, Schema::OneOf(options)) => {
                Schema::OneOf(self.merge_each(options, other, false, depth)?)
            }
            (Schema::AnyOf(options), other) => {
                Schema::AnyOf(self.merge_each(options, other, true, depth)?)
            }
            (other, Schema::AnyOf(options)) => {
                Schema::AnyOf(self.merge_each(options, other, false, depth)?)
            }
            (Schema::Null, Schema::Null) => Schema::Null,
            (Schema::Boolean(a), Schema::Boolean(b)) => match (a, b) {
                (Some(a), Some(b)) if a != b => Schema::never("a value cannot be true and false"),
                (a, b) => Schema::Boolean(a.or(b)),
            },
            (Schema::Number(a), Schema::Number(b)) => Schema::Number(merge_numbers(a, b)?),
            (Schema::Text(a), Schema::Text(b)) => Schema::Text(self.merge_texts(a, b)),
            (Schema::List(a), Schema::List(b)) => Schema::List(self.merge_lists(a, b, depth)?),
            (Schema::Object(a), Schema::Object(b)) => self.merge_objects(a, b, depth)?,
            _ => Schema::never("a value cannot be of two types"),
        };
        Ok(self.simplify(merged))
    }

    fn merge_each(
        &mut self,
        options: Vec<Schema>,
        other: Schema,
        first: bool,
        depth: usize,
    ) -> Result<Vec<Schema>, Problem> {
        let options = options.into_iter().map(|option| {
            let other = other.clone();
            if first {
                self.merge(option, other, depth)
            } else {
                self.merge(other, option, depth)
            }
        });
        options.collect()
    }

    pub(super) fn merge_ref(
        &mut self,
        place: &str,
        schema: Schema,
        ref_first: bool,
        depth: usize,
    ) -> Read {
        self.define(place)?;
        let Some(found) = self.definitions.get(place).cloned() else {
            let why = alloc::format!("{place} leads in a circle, with keywords beside it");
            return Err(Problem::Refused(why));
        };
        if ref_first {
            self.merge(found, schema, depth + 1)
        } else {
            self.merge(schema, found, depth + 1)
        }
    }

    fn merge_texts(&mut self, a: Text, b: Text) -> Text {
        let pattern = match (a.pattern, b.pattern) {
            (Some(a), Some(b)) => {
                let (a, b) = (self.pattern_expr(&a), self.pattern_expr(&b));
                Some(Pattern::Expr(self.arena.and([a, b].into())))
            }
            (a, b) => a.or(b),
        };
        Text {
            least: a.least.max(b.least),
            most: lesser(a.most, b.most),
            pattern,
        }
    }

    fn pattern_expr(&mut self, pattern: &Pattern) -> crate::regex::Expr {
        match pattern {
            Pattern::Literal(text) => self.arena.literal(text.as_bytes()),
            Pattern::Expr(expr) => *expr,
        }
    }

    fn merge_lists(&mut self, mut a: List, mut b: List, depth: usize) -> Result<List, Problem> {
        let length = a.prefix.len().max(b.prefix.len());
        for list in [&mut a, &mut b] {
            let other = of_others(&list.items).clone();
            list.prefix.resize(length, other);
        }
        let pairs = a.prefix.into_iter().zip(b.prefix);
        let prefix = pairs.map(|(a, b)| self.merge(a, b, depth));
        let prefix = prefix.collect::<Result<_, _>>()?;
        Ok(List {
            least: a.least.max(b.least),
            most: lesser(a.most, b.most),
            prefix,
            items: self.merge_others(a.items, b.items, depth)?,
        })
    }

    fn merge_others(
        &mut self,
        a: Option<Box<Schema>>,
        b: Option<Box<Schema>>,
        depth: usize,
    ) -> Result<Option<Box<Schema>>, Problem> {
        Ok(match (a, b) {
            (Some(a), Some(b)) => Some(Box::new(self.merge(*a, *b, depth)?)),
            (a, b) => a.or(b),
        })
    }

    fn merge_objects(&mut self, mut a: Object, mut b: Object, depth: usize) -> Read {
        let mut properties = Properties::default();
        for (name, one) in core::mem::take(&mut a.properties.list) {
            let other = self.matching.property(self.arena, &b, &name)?.clone();
            properties.insert(name, self.merge(one, other, depth)?);
        }
        a.properties = Properties::default();
        for (name, other) in core::mem::take(&mut b.properties.list) {
            if properties.get(&name).is_none() {
                let one = self.matching.property(self.arena, &a, &name)?.clone();
                properties.insert(name, self.merge(one, other, depth)?);
            }
        }
        let mut merged = Object {
            properties,
            patterns: self.merge_patterns(&mut a, &mut b, depth)?,
            others: self.merge_others(a.others, b.others, depth)?,
            required: a.required,
            least: a.least.max(b.least),
            most: lesser(a.most, b.most),
        };
        b.required.into_iter().for_each(|name| merged.require(name));
        Ok(merged.checked())
    }

    /// What a pattern is about on one side only is, for the other side, about properties that are not named.
    fn merge_patterns(
        &mut self,
        a: &mut Object,
        b: &mut Object,
        depth: usize,
    ) -> Result<Properties, Problem> {
        let mut merged = Properties::default();
        let theirs = core::mem::take(&mut b.patterns);
        for (pattern, one) in core::mem::take(&mut a.patterns.list) {
            let other = theirs.get(&pattern).or(b.others.as_deref()).cloned();
            let one = match other {
                Some(other) => self.merge(one, other, depth)?,
                None => one,
            };
            merged.insert(pattern, one);
        }
        for (pattern, one) in theirs.list {
            if merged.get(&pattern).is_some() {
                continue;
            }
            let one = match a.others.as_deref().cloned() {
                Some(other) => self.merge(one, other, depth)?,
                None => one,
            };
            merged.insert(pattern, one);
        }
        self.check_apart(&merged)?;
        Ok(merged)
    }

    /// A name must not match two patterns: one schema would have to be chosen.
    pub(super) fn check_apart(&mut self, patterns: &Properties) -> Result<(), Problem> {
        for (i, (one, _)) in patterns.iter().enumerate() {
            for (other, _) in patterns.iter().skip(i + 1) {
                let a = self.matching.search(self.arena, one)?;
                let b = self.matching.search(self.arena, other)?;
                let both = self.arena.and([a, b].into());
                if self.matching.some_text(self.arena, both)? {
                    let why = alloc::format!(
                        "the patterns {one:?} and {other:?} of patternProperties match the same name"
                    );
                    return Err(Problem::Refused(why));
                }
            }
        }
        Ok(())
    }
}

impl Object {
    /// The schema of such objects, if there are any.
    pub(super) fn checked(self) -> Schema {
        let most = self.most.unwrap_or(usize::MAX);
        if self.least > most {
            Schema::never("minProperties is above maxProperties")
        } else if self.required.len() > most {
            Schema::never("more properties are required than there may be")
        } else {
            Schema::Object(self)
        }
    }
}

fn merge_numbers(a: Number, b: Number) -> Result<Number, Problem> {
    Ok(Number {
        minimum: greater(a.minimum, b.minimum),
        maximum: lesser(a.maximum, b.maximum),
        above: greater(a.above, b.above),
        below: lesser(a.below, b.below),
        integer: a.integer || b.integer,
        multiple_of: match (a.multiple_of, b.multiple_of) {
            (Some(a), Some(b)) => Some(a.common_multiple(b)?),
            (a, b) => a.or(b),
        },
    })
}

fn greater<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if a >= b { a } else { b }),
        (a, b) => a.or(b),
    }
}

fn lesser<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if a <= b { a } else { b }),
        (a, b) => a.or(b),
    }
}
