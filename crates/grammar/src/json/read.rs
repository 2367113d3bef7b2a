//! Reading schemas.

use super::{Decimal, List, Matching, Number, Object, Pattern, Problem, Properties, Schema, Text};
use crate::regex::Arena;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use hashbrown::{HashMap, HashSet};
use serde_json::{Map, Value};

type Read = Result<Schema, Problem>;
/// The keywords that say something of each type of value.
type Keywords<'v> = Vec<(&'v str, &'v Value)>;

const TYPES: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];

/// Keywords whose schemas are about the same value, in the place of each.
const IN_PLACE: [&str; 6] = ["const", "enum", "allOf", "anyOf", "oneOf", "$ref"];

/// Keywords that say nothing of a value.
const SILENT: [&str; 13] = [
    "$anchor",
    "$defs",
    "definitions",
    "$id",
    "id",
    "$comment",
    "title",
    "description",
    "default",
    "readOnly",
    "writeOnly",
    "examples",
    "contentMediaType",
];

/// Schemas that are read or merged, at most, each property counted.
const MOST: usize = 50_000;
/// References that lead to references, and what is nested in either.
const DEEPEST: usize = 200;

/// Reads the parts of a schema.
pub(super) struct Reader<'a> {
    pub(super) arena: &'a mut Arena,
    pub(super) matching: &'a mut Matching,
    root: &'a Value,
    /// What places in the schema say that something refers to.
    pub(super) definitions: HashMap<String, Schema>,
    seen: HashSet<String>,
    count: usize,
    depth: usize,
}

/// Reads a schema. Gives it with what it refers to.
pub(super) fn read(
    arena: &mut Arena,
    matching: &mut Matching,
    root: &Value,
) -> Result<(Schema, HashMap<String, Schema>), Problem> {
    let mut reader = Reader {
        arena,
        matching,
        root,
        definitions: HashMap::new(),
        seen: HashSet::new(),
        count: 0,
        depth: 0,
    };
    let schema = reader.schema(root)?;
    Ok((schema, reader.definitions))
}

fn refused(reason: &str) -> Problem {
    Problem::Refused(reason.to_string())
}

fn wrong(keyword: &str, value: &Value) -> Problem {
    let mut value = value.to_string();
    if let Some((end, _)) = value.char_indices().nth(100) {
        value.truncate(end);
    }
    Problem::Refused(format!("{keyword} cannot be {value}"))
}

impl<'a> Reader<'a> {
    /// Counts what is read or merged.
    pub(super) fn count(&mut self, schema: &Schema) -> Result<(), Problem> {
        self.count += match schema {
            Schema::Object(object) => 1 + object.properties.list.len() / 4,
            _ => 1,
        };
        if self.count > MOST || self.arena.work > self.matching.limit {
            return Err(Problem::TooLarge);
        }
        Ok(())
    }

    fn schema(&mut self, value: &Value) -> Read {
        let map = match value {
            Value::Bool(true) => return Ok(Schema::Any),
            Value::Bool(false) => return Ok(Schema::Never("the schema is false".to_string())),
            Value::Object(map) => map,
            _ => return Err(refused("a schema is an object or a boolean")),
        };
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Problem::TooLarge);
        }
        let schema = self.keywords(map)?;
        self.depth -= 1;
        Ok(self.simplify(schema))
    }

    fn schemas(&mut self, keyword: &str, value: &Value) -> Result<Vec<Schema>, Problem> {
        let list = value.as_array().ok_or_else(|| wrong(keyword, value))?;
        list.iter().map(|value| self.schema(value)).collect()
    }

    /// What a schema says, keyword by keyword: one that is about the same value takes its turn among the others.
    fn keywords(&mut self, map: &Map<String, Value>) -> Read {
        self.count(&Schema::Any)?;
        let is_silent = |keyword: &str| {
            SILENT.contains(&keyword) || keyword == "contentEncoding" || keyword == "$schema"
        };
        let unknown = ["deprecated", "discriminator", "example"];
        if map
            .keys()
            .all(|key| is_silent(key) || unknown.contains(&key.as_str()))
        {
            return Ok(Schema::Any);
        }
        let named = |keyword: &str| -> Option<Value> {
            let names = map.get(keyword)?.as_object()?.keys();
            Some(
                names
                    .map(|name| (name.as_str(), Value::Bool(true)))
                    .collect(),
            )
        };
        let names = named("properties");
        let prefix = map.get("prefixItems").and_then(Value::as_array);
        let prefix: Option<Value> =
            prefix.map(|items| items.iter().map(|_| Value::Bool(true)).collect());
        let kind = map.get("type");
        let mut result = Schema::Any;
        let mut current: Keywords<'_> = Vec::new();
        for (keyword, value) in map {
            let keyword = keyword.as_str();
            if IN_PLACE.contains(&keyword) {
                result = self.flush(result, &mut current, kind)?;
                result = self.apply(result, keyword, value)?;
            } else if !is_silent(keyword) {
                set(&mut current, keyword, value);
                // What is said of others needs the names of those that are listed.
                let listed = match keyword {
                    "additionalProperties" => Some(("properties", &names)),
                    "items" => Some(("prefixItems", &prefix)),
                    _ => None,
                };
                if let Some((list, Some(names))) = listed
                    && get(&current, list).is_none()
                {
                    set(&mut current, list, names);
                }
            }
        }
        self.flush(result, &mut current, kind)
    }

    fn flush<'v>(
        &mut self,
        result: Schema,
        current: &mut Keywords<'v>,
        kind: Option<&'v Value>,
    ) -> Read {
        if current.is_empty() {
            return Ok(result);
        }
        if let Some(kind) = kind {
            set(current, "type", kind);
        }
        let said = self.of_types(&core::mem::take(current))?;
        self.merge(result, said, 0)
    }

    fn apply(&mut self, result: Schema, keyword: &str, value: &Value) -> Read {
        let said = match keyword {
            "const" => constant(value),
            "enum" => {
                let list = value.as_array().ok_or_else(|| wrong(keyword, value))?;
                Schema::AnyOf(list.iter().map(constant).collect())
            }
            "allOf" => {
                let list = value.as_array().ok_or_else(|| wrong(keyword, value))?;
                return list.iter().try_fold(result, |result, value| {
                    let said = self.schema(value)?;
                    self.merge(result, said, 0)
                });
            }
            "anyOf" => Schema::AnyOf(self.schemas(keyword, value)?),
            "oneOf" => Schema::OneOf(self.schemas(keyword, value)?),
            _ => {
                let place = value.as_str().ok_or_else(|| wrong(keyword, value))?;
                if matches!(result, Schema::Any) {
                    self.define(place)?;
                    return Ok(Schema::Ref(place.to_string()));
                }
                return self.merge_ref(place, result, false, 0);
            }
        };
        self.merge(result, said, 0)
    }

    /// Reads what a reference leads to, once.
    pub(super) fn define(&mut self, place: &str) -> Result<(), Problem> {
        if self.seen.insert(place.to_string()) {
            let value = self.find(place)?;
            let schema = self.schema(value)?;
            self.definitions.insert(place.to_string(), schema);
        }
        Ok(())
    }

    /// What a reference leads to. Its parts are names as they are.
    fn find(&self, place: &str) -> Result<&'a Value, Problem> {
        let nowhere = || Problem::Refused(format!("{place} leads nowhere"));
        let path = place.strip_prefix('#').ok_or_else(nowhere)?;
        let path = path.strip_prefix('/').unwrap_or(path);
        if path.is_empty() {
            return Ok(self.root);
        }
        path.split('/').try_fold(self.root, |value, part| {
            let found = match value {
                Value::Array(list) => part.parse().ok().and_then(|i: usize| list.get(i)),
                value => value.get(part),
            };
            found.ok_or_else(nowhere)
        })
    }

    fn of_types(&mut self, keywords: &Keywords<'_>) -> Read {
        let types: Vec<&str> = match get(keywords, "type") {
            Some(Value::String(kind)) => return self.of_type(kind, keywords),
            Some(Value::Array(types)) => {
                let types = types.iter();
                let types = types.map(|kind| kind.as_str().ok_or_else(|| wrong("type", kind)));
                types.collect::<Result<_, _>>()?
            }
            Some(other) => return Err(wrong("type", other)),
            None => TYPES.to_vec(),
        };
        let options = types.iter().map(|kind| self.of_type(kind, keywords));
        let mut options: Vec<Schema> = options.collect::<Result<_, _>>()?;
        Ok(match options.len() {
            1 => options.remove(0),
            _ => Schema::AnyOf(options),
        })
    }

    fn of_type(&mut self, kind: &str, keywords: &Keywords<'_>) -> Read {
        self.count(&Schema::Any)?;
        match kind {
            "null" => Ok(Schema::Null),
            "boolean" => Ok(Schema::Boolean(None)),
            "number" | "integer" => number(keywords, kind == "integer"),
            "string" => self.text(keywords),
            "array" => self.list(keywords),
            "object" => self.object(keywords),
            _ => Err(Problem::Refused(format!("there is no type {kind:?}"))),
        }
    }

    fn text(&mut self, keywords: &Keywords<'_>) -> Read {
        let mut parts = Vec::new();
        if let Some(pattern) = get(keywords, "pattern") {
            let pattern = pattern.as_str().ok_or_else(|| wrong("pattern", pattern))?;
            parts.push(self.arena.search(pattern)?);
        }
        if let Some(format) = get(keywords, "format") {
            let name = format.as_str().ok_or_else(|| wrong("format", format))?;
            let expr = self.arena.format(name);
            parts.push(
                expr.ok_or_else(|| Problem::Refused(format!("there is no format {name:?}")))?,
            );
        }
        let pattern = match parts.as_slice() {
            [] => None,
            [one] => Some(*one),
            _ => Some(self.arena.and(parts)),
        };
        Ok(Schema::Text(Text {
            least: count(keywords, "minLength")?.unwrap_or(0),
            most: count(keywords, "maxLength")?,
            pattern: pattern.map(Pattern::Expr),
        }))
    }

    fn list(&mut self, keywords: &Keywords<'_>) -> Read {
        let items = get(keywords, "items");
        let additional = get(keywords, "additionalItems");
        // Before draft 2020-12, `items` lists the first ones, and `additionalItems` is about the others.
        let (prefix, items) = match items {
            Some(Value::Array(_)) => (items, additional),
            _ if additional.is_some() => (None, items),
            _ => (get(keywords, "prefixItems"), items),
        };
        let prefix = match prefix {
            Some(prefix) => self.schemas("prefixItems", prefix)?,
            None => Vec::new(),
        };
        let items = items.map(|items| self.schema(items)).transpose()?;
        Ok(Schema::List(List {
            least: count(keywords, "minItems")?.unwrap_or(0),
            most: count(keywords, "maxItems")?,
            prefix,
            items: items.map(Box::new),
        }))
    }

    fn named(&mut self, keywords: &Keywords<'_>, keyword: &str) -> Result<Properties, Problem> {
        let mut named = Properties::default();
        if let Some(value) = get(keywords, keyword) {
            let map = value.as_object().ok_or_else(|| wrong(keyword, value))?;
            for (name, value) in map {
                named.insert(name.clone(), self.schema(value)?);
            }
        }
        Ok(named)
    }

    fn object(&mut self, keywords: &Keywords<'_>) -> Read {
        let mut object = Object {
            properties: self.named(keywords, "properties")?,
            patterns: self.named(keywords, "patternProperties")?,
            least: count(keywords, "minProperties")?.unwrap_or(0),
            most: count(keywords, "maxProperties")?,
            ..Object::default()
        };
        let patterns = core::mem::take(&mut object.patterns);
        self.check_apart(&patterns)?;
        // A property that is listed must satisfy a pattern that its name matches, too.
        for (name, schema) in &mut object.properties.list {
            for (pattern, more) in patterns.iter() {
                if self.matching.is_found(self.arena, pattern, name)? {
                    let own = core::mem::replace(schema, Schema::Null);
                    *schema = self.merge(own, more.clone(), 0)?;
                    break;
                }
            }
        }
        object.patterns = patterns;
        if let Some(others) = get(keywords, "additionalProperties") {
            object.others = Some(Box::new(self.schema(others)?));
        }
        if let Some(value) = get(keywords, "required") {
            let names = value.as_array().ok_or_else(|| wrong("required", value))?;
            for name in names {
                let name = name.as_str().ok_or_else(|| wrong("required", name))?;
                object.require(name.to_string());
            }
        }
        Ok(object.checked())
    }
}

fn get<'v>(keywords: &Keywords<'v>, keyword: &str) -> Option<&'v Value> {
    let mut keywords = keywords.iter();
    keywords.find_map(|(key, value)| (*key == keyword).then_some(*value))
}

fn set<'v>(keywords: &mut Keywords<'v>, keyword: &'v str, value: &'v Value) {
    match keywords.iter_mut().find(|(key, _)| *key == keyword) {
        Some((_, known)) => *known = value,
        None => keywords.push((keyword, value)),
    }
}

fn count(keywords: &Keywords<'_>, keyword: &str) -> Result<Option<usize>, Problem> {
    let Some(value) = get(keywords, keyword) else {
        return Ok(None);
    };
    let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
    count.map(Some).ok_or_else(|| wrong(keyword, value))
}

fn number(keywords: &Keywords<'_>, integer: bool) -> Read {
    let bound = |keyword: &str| -> Result<Option<f64>, Problem> {
        let value = get(keywords, keyword);
        let number = value.map(|value| value.as_f64().ok_or_else(|| wrong(keyword, value)));
        number.transpose()
    };
    // Draft 4 says with a boolean whether a bound is left out.
    let open = |keyword: &str, closed: Option<f64>| match get(keywords, keyword) {
        Some(Value::Bool(true)) => Ok(closed),
        Some(Value::Bool(false)) => Ok(None),
        _ => bound(keyword),
    };
    let (minimum, maximum) = (bound("minimum")?, bound("maximum")?);
    let multiple_of = bound("multipleOf")?;
    Ok(Schema::Number(Number {
        minimum,
        maximum,
        above: open("exclusiveMinimum", minimum)?,
        below: open("exclusiveMaximum", maximum)?,
        integer,
        multiple_of: multiple_of.map(|of| Decimal::of(of.abs())).transpose()?,
    }))
}

/// The schema of one value.
fn constant(value: &Value) -> Schema {
    let never = || Some(Box::new(Schema::Never("the value has no more".to_string())));
    match value {
        Value::Null => Schema::Null,
        Value::Bool(value) => Schema::Boolean(Some(*value)),
        Value::Number(number) => Schema::Number(Number {
            minimum: number.as_f64(),
            maximum: number.as_f64(),
            integer: number.is_i64(),
            ..Number::default()
        }),
        Value::String(text) => Schema::Text(Text {
            pattern: Some(Pattern::Literal(text.clone())),
            ..Text::default()
        }),
        Value::Array(items) => Schema::List(List {
            least: items.len(),
            most: Some(items.len()),
            prefix: items.iter().map(constant).collect(),
            items: never(),
        }),
        Value::Object(map) => {
            let mut object = Object {
                others: never(),
                ..Object::default()
            };
            for (name, value) in map {
                object.properties.insert(name.clone(), constant(value));
                object.require(name.clone());
            }
            Schema::Object(object)
        }
    }
}
