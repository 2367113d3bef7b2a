//! JSON schemas as grammars.
//!
//! A schema that was checked ([`crate::schema`]) is read into what it says of each kind of value, with `allOf`, references
//! and the like worked in ([`read`], [`merge`]); that is written as rules ([`write`]).

mod digits;
mod formats;
mod merge;
mod number;
mod read;
mod write;

use crate::regex::{Alphabet, Arena, Emptiness, Expr};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use hashbrown::HashMap;

pub(crate) use write::write;

/// Why a schema has no grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// No value matches; where it is one of several, the others are left.
    Never(String),
    /// It cannot be used.
    Refused(String),
    /// Reading it takes too long.
    TooLarge,
}

/// What a value must be.
#[derive(Clone, Debug)]
enum Schema {
    Any,
    /// No value matches, for this reason.
    Never(String),
    Null,
    Boolean(Option<bool>),
    Number(Number),
    Text(Text),
    List(List),
    Object(Object),
    /// One of several.
    AnyOf(Vec<Schema>),
    /// Just one of several.
    OneOf(Vec<Schema>),
    /// What a place in the schema says.
    Ref(String),
}

#[derive(Copy, Clone, Debug, Default)]
struct Number {
    minimum: Option<f64>,
    maximum: Option<f64>,
    /// Bounds that are not reached.
    above: Option<f64>,
    below: Option<f64>,
    integer: bool,
    multiple_of: Option<Decimal>,
}

/// A coefficient and digits after the point.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Decimal {
    coefficient: u32,
    scale: u32,
}

#[derive(Clone, Debug, Default)]
struct Text {
    least: usize,
    most: Option<usize>,
    pattern: Option<Pattern>,
}

#[derive(Clone, Debug)]
enum Pattern {
    Literal(String),
    Expr(Expr),
}

#[derive(Clone, Debug, Default)]
struct List {
    least: usize,
    most: Option<usize>,
    /// The first items.
    prefix: Vec<Schema>,
    /// The others.
    items: Option<Box<Schema>>,
}

#[derive(Clone, Debug, Default)]
struct Object {
    properties: Properties,
    patterns: Properties,
    /// Properties that are not named.
    others: Option<Box<Schema>>,
    required: Vec<String>,
    least: usize,
    most: Option<usize>,
}

/// Schemas by name, in order.
#[derive(Clone, Debug, Default)]
struct Properties {
    list: Vec<(String, Schema)>,
    places: HashMap<String, usize>,
}

impl Properties {
    fn get(&self, name: &str) -> Option<&Schema> {
        self.places.get(name).map(|place| &self.list[*place].1)
    }

    fn insert(&mut self, name: String, schema: Schema) {
        match self.places.get(&name) {
            Some(place) => self.list[*place].1 = schema,
            None => {
                self.places.insert(name.clone(), self.list.len());
                self.list.push((name, schema));
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = &(String, Schema)> {
        self.list.iter()
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        self.list.iter().map(|(name, _)| name)
    }
}

static ANY: Schema = Schema::Any;

/// What is said of items or properties that are not named.
fn of_others(others: &Option<Box<Schema>>) -> &Schema {
    others.as_deref().unwrap_or(&ANY)
}

impl Object {
    /// Names that must be there, each once.
    fn require(&mut self, name: String) {
        if !self.required.contains(&name) {
            self.required.push(name);
        }
    }
}

/// Finds out what patterns match.
struct Matching {
    alphabet: Alphabet,
    emptiness: Emptiness,
    /// Patterns of property names, as they are looked for.
    searches: HashMap<String, Expr>,
    limit: u64,
}

impl Matching {
    fn new(arena: &Arena, limit: u64) -> Self {
        Self {
            alphabet: Alphabet::new(arena),
            emptiness: Emptiness::default(),
            searches: HashMap::new(),
            limit,
        }
    }

    /// Whether any text matches.
    fn some_text(&mut self, arena: &mut Arena, expr: Expr) -> Result<bool, Problem> {
        self.alphabet.refine(arena);
        let found = self
            .emptiness
            .some_text(arena, &self.alphabet, expr, self.limit);
        found.ok_or(Problem::TooLarge)
    }

    /// Whether a pattern is found in a name.
    fn is_found(&mut self, arena: &mut Arena, pattern: &str, name: &str) -> Result<bool, Problem> {
        let expr = self.search(arena, pattern)?;
        let end = name.bytes().fold(expr, |e, byte| arena.derivative(e, byte));
        Ok(arena.is_nullable(end))
    }

    fn search(&mut self, arena: &mut Arena, pattern: &str) -> Result<Expr, Problem> {
        if let Some(known) = self.searches.get(pattern) {
            return Ok(*known);
        }
        let expr = arena.search(pattern)?;
        self.searches.insert(pattern.into(), expr);
        Ok(expr)
    }

    /// What an object says of a property.
    fn property<'o>(
        &mut self,
        arena: &mut Arena,
        object: &'o Object,
        name: &str,
    ) -> Result<&'o Schema, Problem> {
        if let Some(schema) = object.properties.get(name) {
            return Ok(schema);
        }
        for (pattern, schema) in object.patterns.iter() {
            if self.is_found(arena, pattern, name)? {
                return Ok(schema);
            }
        }
        Ok(of_others(&object.others))
    }
}

impl Arena {
    fn search(&mut self, pattern: &str) -> Result<Expr, Problem> {
        let expr = self.pattern(pattern, crate::regex::Reading::Search);
        expr.map_err(|error| Problem::Refused(alloc::format!("{error}")))
    }
}
