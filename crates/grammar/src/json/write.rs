//! Writing schemas as rules.

use super::read::read;
use super::{List, Matching, Object, Pattern, Problem, Schema, Text, of_others};
use crate::regex::{Arena, ENDLESS, Expr, Reading};
use crate::rules::{Builder, Symbol};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use hashbrown::HashMap;
use serde_json::Value;

type Written = Result<Symbol, Problem>;

/// Symbols of a grammar, at most.
const LARGEST: usize = 200_000;

/// Adds the rules of a schema that was checked, with white space of a pattern between the tokens of JSON. Takes so much
/// work of the arena at most.
pub(crate) fn write(
    builder: &mut Builder,
    schema: &Value,
    space: &str,
    limit: u64,
) -> Result<Symbol, Problem> {
    let space = builder.arena.pattern(space, Reading::Whole);
    let space = space.map_err(|error| Problem::Refused(error.to_string()))?;
    builder.begin_group(Some(space));
    let mut matching = Matching::new(&builder.arena, limit);
    let (schema, definitions) = read(&mut builder.arena, &mut matching, schema)?;
    let mut writer = Writer {
        comma: builder.text(","),
        colon: builder.text(":"),
        builder,
        matching,
        any: None,
        places: HashMap::new(),
        pending: Vec::new(),
    };
    let root = writer.schema(&schema)?;
    while let Some((place, symbol)) = writer.pending.pop() {
        let missing = || Problem::Refused(format!("{place} leads in a circle"));
        let schema = definitions.get(&place).ok_or_else(missing)?;
        let meaning = writer.schema(schema)?;
        writer.builder.define(symbol, meaning);
    }
    writer.builder.end_group();
    Ok(root)
}

struct Writer<'b> {
    builder: &'b mut Builder,
    matching: Matching,
    comma: Symbol,
    colon: Symbol,
    any: Option<Symbol>,
    /// What is referred to.
    places: HashMap<String, Symbol>,
    pending: Vec<(String, Symbol)>,
}

/// A value that may be impossible, where that only leaves it out.
fn possible<T>(result: Result<T, Problem>) -> Result<Option<T>, Problem> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Problem::Never(_)) => Ok(None),
        Err(other) => Err(other),
    }
}

impl Writer<'_> {
    fn schema(&mut self, schema: &Schema) -> Written {
        if let Some(expr) = self.lexeme(schema)? {
            return Ok(self.builder.lexeme(expr));
        }
        match schema {
            Schema::Never(why) => Err(Problem::Never(why.clone())),
            Schema::List(list) => self.list(list),
            Schema::Object(object) => self.object(object),
            Schema::AnyOf(options) => self.any_of(options),
            Schema::OneOf(_) => Err(Problem::Refused(
                "oneOf has schemas that a value could match together; anyOf is supported".into(),
            )),
            Schema::Ref(place) => Ok(self.reference(place)),
            _ => self.any(),
        }
    }

    fn reference(&mut self, place: &str) -> Symbol {
        if let Some(known) = self.places.get(place) {
            return *known;
        }
        let symbol = self.builder.declare();
        self.places.insert(place.to_string(), symbol);
        self.pending.push((place.to_string(), symbol));
        symbol
    }

    /// The expression of a schema of values that have no others in them.
    fn lexeme(&mut self, schema: &Schema) -> Result<Option<Expr>, Problem> {
        if self.builder.size() > LARGEST || self.builder.arena.work > self.matching.limit {
            return Err(Problem::TooLarge);
        }
        let arena = &mut self.builder.arena;
        Ok(Some(match schema {
            Schema::Null => arena.literal(b"null"),
            Schema::Boolean(None) => {
                let both = vec![arena.literal(b"true"), arena.literal(b"false")];
                arena.or(both)
            }
            Schema::Boolean(Some(true)) => arena.literal(b"true"),
            Schema::Boolean(Some(false)) => arena.literal(b"false"),
            Schema::Number(number) => arena.number(number)?,
            Schema::Text(text) => self.text(text)?,
            _ => return Ok(None),
        }))
    }

    fn text(&mut self, text: &Text) -> Result<Expr, Problem> {
        let arena = &mut self.builder.arena;
        let Text { least, most, .. } = *text;
        if most.is_some_and(|most| least > most) {
            return Err(Problem::Never("minLength is above maxLength".into()));
        }
        let bound = |length: usize| u32::try_from(length).map_err(|_| Problem::TooLarge);
        let bounds = (bound(least)?, most.map_or(Ok(ENDLESS), bound)?);
        let expr = match &text.pattern {
            None => return Ok(arena.any_json_string(bounds.0, bounds.1)),
            Some(Pattern::Literal(literal)) => {
                let length = literal.chars().count();
                if length < least || most.is_some_and(|most| length > most) {
                    let why = format!("{literal:?} is too long or too short");
                    return Err(Problem::Never(why));
                }
                return Ok(arena.json_literal(literal));
            }
            Some(Pattern::Expr(expr)) => *expr,
        };
        let mut all = vec![expr];
        if least > 0 || most.is_some() {
            let any = arena.any_character();
            all.push(arena.repeat(any, bounds.0, bounds.1));
        }
        let expr = arena.and(all);
        if !self.matching.some_text(arena, expr)? {
            return Err(Problem::Never("no text matches the pattern".into()));
        }
        Ok(arena.json_string(expr))
    }

    fn any_of(&mut self, options: &[Schema]) -> Written {
        let (mut exprs, mut symbols) = (Vec::new(), Vec::new());
        for option in options {
            match possible(self.lexeme(option))? {
                Some(Some(expr)) => exprs.push(expr),
                Some(None) => symbols.extend(possible(self.schema(option))?),
                None => {}
            }
        }
        if !exprs.is_empty() {
            let one = self.builder.arena.or(exprs);
            symbols.push(self.builder.lexeme(one));
        }
        if symbols.is_empty() {
            return Err(Problem::Never("no schema of anyOf has values".into()));
        }
        Ok(self.builder.select(&symbols))
    }

    fn any(&mut self) -> Written {
        if let Some(known) = self.any {
            return Ok(known);
        }
        let any = self.builder.declare();
        self.any = Some(any);
        let mut options = Vec::new();
        for schema in [
            Schema::Null,
            Schema::Boolean(None),
            Schema::Number(super::Number::default()),
            Schema::Text(Text::default()),
            Schema::List(List::default()),
            Schema::Object(Object::default()),
        ] {
            options.push(self.schema(&schema)?);
        }
        let meaning = self.builder.select(&options);
        self.builder.define(any, meaning);
        Ok(any)
    }

    /// So many of something, with commas between them; one at least.
    fn some(&mut self, item: Symbol, least: usize, most: Option<usize>) -> Symbol {
        let before = self.builder.join(&[item, self.comma]);
        let least = least.saturating_sub(1);
        let most = most.map(|most| most.saturating_sub(1));
        let before = self.builder.repeat(before, least, most);
        self.builder.join(&[before, item])
    }

    fn list(&mut self, list: &List) -> Written {
        let mut most = list.most;
        if most.is_some_and(|most| list.least > most) {
            return Err(Problem::Never("minItems is above maxItems".into()));
        }
        let others = match self.schema(of_others(&list.items)) {
            Err(Problem::Never(_)) if list.prefix.len() >= list.least => None,
            others => Some(others?),
        };
        let (mut required, mut optional) = (Vec::new(), Vec::new());
        for (i, schema) in list.prefix.iter().enumerate() {
            if most.is_some_and(|most| i >= most) {
                break;
            }
            match self.schema(schema) {
                // There can be no more items than come before it.
                Err(Problem::Never(_)) if i >= list.least => {
                    most = Some(i);
                    break;
                }
                item if i < list.least => required.push(item?),
                item => optional.push(item?),
            }
        }
        if let Some(other) = others {
            let known = required.len() + optional.len();
            let least = list.least.saturating_sub(known);
            let most = most.map(|most| most.saturating_sub(known));
            if most != Some(0) {
                let more = self.some(other, least.max(1), most);
                if least == 0 {
                    optional.push(more);
                } else {
                    required.push(more);
                }
            }
        }
        let mut parts = vec![self.builder.text("[")];
        for (i, item) in required.iter().enumerate() {
            if i > 0 {
                parts.push(self.comma);
            }
            parts.push(*item);
        }
        let mut rest = Builder::EMPTY;
        for (i, item) in optional.iter().enumerate().rev() {
            let comma = if i > 0 || !required.is_empty() {
                self.comma
            } else {
                Builder::EMPTY
            };
            rest = self.builder.join(&[comma, *item, rest]);
            rest = self.builder.optional(rest);
        }
        parts.push(rest);
        parts.push(self.builder.text("]"));
        Ok(self.builder.join(&parts))
    }

    fn object(&mut self, object: &Object) -> Written {
        // What names must not be, as strings of JSON.
        let mut taken = Vec::new();
        let mut items: Vec<(Symbol, bool)> = Vec::new();
        let unlisted = object.required.iter();
        let unlisted = unlisted.filter(|name| object.properties.get(name).is_none());
        let names: Vec<&String> = object.properties.names().chain(unlisted).collect();
        for name in &names {
            let arena = &mut self.builder.arena;
            let schema = self.matching.property(arena, object, name)?;
            let is_required = object.required.contains(name);
            let quoted = Value::from(name.as_str()).to_string();
            taken.push(self.builder.arena.literal(quoted.as_bytes()));
            let value = match self.schema(schema) {
                Err(Problem::Never(_)) if !is_required => continue,
                value => value?,
            };
            let name = self.builder.text(&quoted);
            let item = self.builder.join(&[name, self.colon, value]);
            items.push((item, is_required));
        }
        let required = items.iter().filter(|(_, required)| *required).count();
        let optional = items.len() - required;
        let least = object.least.saturating_sub(required);
        let most = object.most.map(|most| most.saturating_sub(required));
        if optional > 0 && (least > 0 || most.is_some()) {
            let closed = matches!(of_others(&object.others), Schema::Never(_));
            let one = least <= 1 && most.unwrap_or(1) == 1;
            if one && object.patterns.is_empty() && closed {
                return Ok(self.one_of_optional(&items, least, most));
            }
            return Err(Problem::Refused(
                "minProperties and maxProperties need all listed properties to be required".into(),
            ));
        }
        let mut others = Vec::new();
        self.patterns(object, &names, &mut taken, &mut others)?;
        if let Some(value) = possible(self.schema(of_others(&object.others)))? {
            let arena = &mut self.builder.arena;
            let any = arena.any_json_string(0, ENDLESS);
            let taken = arena.or(taken);
            let free = arena.not(taken);
            let name = arena.and(vec![any, free]);
            let name = self.builder.lexeme(name);
            others.push(self.builder.join(&[name, self.colon, value]));
        }
        if !others.is_empty() && most != Some(0) {
            let other = self.builder.select(&others);
            let some = self.some(other, least, most);
            items.push((some, least > 0));
        } else if least > 0 {
            return Err(Problem::Never("there are too few properties".into()));
        }
        Ok(self.braces(&items))
    }

    /// Properties whose names match a pattern.
    fn patterns(
        &mut self,
        object: &Object,
        names: &[&String],
        taken: &mut Vec<Expr>,
        others: &mut Vec<Symbol>,
    ) -> Result<(), Problem> {
        let listed = taken.clone();
        for (pattern, schema) in object.patterns.iter() {
            let arena = &mut self.builder.arena;
            let expr = self.matching.search(arena, pattern)?;
            let expr = arena.json_string(expr);
            taken.push(expr);
            let Some(value) = possible(self.schema(schema))? else {
                continue;
            };
            let arena = &mut self.builder.arena;
            let mut excluded = Vec::new();
            for (name, quoted) in names.iter().zip(&listed) {
                if self.matching.is_found(arena, pattern, name)? {
                    excluded.push(*quoted);
                }
            }
            let excluded = arena.or(excluded);
            let free = arena.not(excluded);
            let name = arena.and(vec![expr, free]);
            let name = self.builder.lexeme(name);
            others.push(self.builder.join(&[name, self.colon, value]));
        }
        Ok(())
    }

    /// Objects of which one optional property at most, or at least, is there.
    fn one_of_optional(
        &mut self,
        items: &[(Symbol, bool)],
        least: usize,
        most: Option<usize>,
    ) -> Symbol {
        let mut options = Vec::new();
        for (chosen, (_, required)) in items.iter().enumerate() {
            if *required {
                continue;
            }
            let numbered = items.iter().enumerate();
            let option = numbered.filter_map(|(i, (item, required))| {
                let is_there = *required || i == chosen;
                (is_there || most.is_none()).then_some((*item, is_there))
            });
            let option: Vec<_> = option.collect();
            options.push(self.braces(&option));
        }
        if least == 0 {
            let required = items.iter().copied().filter(|(_, required)| *required);
            let required: Vec<_> = required.collect();
            options.push(self.braces(&required));
        }
        self.builder.select(&options)
    }

    /// An object with items in order, each with whether it must be there.
    fn braces(&mut self, items: &[(Symbol, bool)]) -> Symbol {
        // What may come where an item has come, and where none has.
        let (mut after, mut first) = (Builder::EMPTY, Builder::EMPTY);
        for (item, required) in items.iter().rev() {
            let alone = self.builder.join(&[*item, after]);
            first = if *required {
                alone
            } else {
                self.builder.select(&[alone, first])
            };
            let with_comma = self.builder.join(&[self.comma, *item]);
            let with_comma = if *required {
                with_comma
            } else {
                self.builder.optional(with_comma)
            };
            after = self.builder.join(&[with_comma, after]);
        }
        let open = self.builder.text("{");
        let close = self.builder.text("}");
        self.builder.join(&[open, first, close])
    }
}

impl Arena {
    /// A text as a string of JSON; nothing where it has characters that are not written.
    fn json_literal(&mut self, text: &str) -> Expr {
        let text = self.literal(text.as_bytes());
        self.json_string(text)
    }
}
