//! What tools' schemas say of their parameters, for families that write values without quotes.

use super::choice::Tool;
use super::loose;
use crate::json::Json;
use alloc::string::String;
use alloc::vec::Vec;

/// The schemas of the tools' arguments, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArgumentSchemas(Vec<(String, Json)>);

impl ArgumentSchemas {
    /// Of these tools.
    pub fn of<'t>(tools: impl IntoIterator<Item = &'t Tool>) -> Self {
        let schemas = tools.into_iter().map(|tool| {
            let schema = tool.parameters.clone();
            (tool.name.clone(), schema)
        });
        Self(schemas.collect())
    }

    /// The schema of a tool's arguments.
    pub(crate) fn arguments(&self, tool: &str) -> Schema<'_> {
        let found = self.0.iter().find(|(name, _)| name == tool);
        Schema(found.map(|(_, schema)| schema))
    }
}

/// The schema of a value, if there is one.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Schema<'s>(Option<&'s Json>);

impl<'s> Schema<'s> {
    /// Of a member of an object.
    pub(crate) fn property(self, key: &str) -> Schema<'s> {
        Schema(self.get("properties").and_then(|of| of.get(key)))
    }

    /// Of the items of an array.
    pub(crate) fn items(self) -> Schema<'s> {
        Schema(self.get("items"))
    }

    fn get(self, key: &str) -> Option<&'s Json> {
        self.0.and_then(|schema| schema.get(key))
    }

    /// Whether the value is of this type and no other, null left aside.
    fn only(self, kind: &str) -> bool {
        match self.get("type") {
            Some(Json::String(text)) => text == kind,
            Some(Json::Array(kinds)) => {
                let mut kinds = kinds.iter().filter_map(Json::as_str);
                kinds.all(|text| text == kind || text == "null")
            }
            _ => false,
        }
    }

    /// The value that is written as this text. A text stays one where the schema wants one, whatever it looks like.
    pub(crate) fn value(self, text: &str) -> Json {
        if self.only("string") {
            return text.into();
        }
        if text.trim().is_empty() {
            for (kind, empty) in [
                ("array", Json::Array(Vec::new())),
                ("object", Json::Object(Vec::new())),
            ] {
                if self.only(kind) {
                    return empty;
                }
            }
        }
        let trimmed = text.trim();
        let json = Json::parse(trimmed.as_bytes()).ok();
        // Templates that print a list or an object write it as Python does.
        let value = json.or_else(|| loose::literal(trimmed));
        value.unwrap_or_else(|| text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn schemas() -> ArgumentSchemas {
        let parameters = r#"{"type": "object", "properties": {
            "zip": {"type": "string"}, "name": {"type": ["string", "null"]}, "days": {"type": "integer"},
            "list": {"type": "array", "items": {"type": "string"}}, "any": {}
        }}"#;
        ArgumentSchemas::of([&Tool {
            name: "f".into(),
            description: None,
            parameters: Json::parse(parameters.as_bytes()).unwrap(),
            strict: false,
        }])
    }

    #[test]
    fn values_are_what_the_schema_wants() {
        let schemas = schemas();
        let value = |key: &str, text: &str| {
            let schema = schemas.arguments("f").property(key);
            schema.value(text).text()
        };
        assert_eq!(value("zip", "12345"), r#""12345""#);
        assert_eq!(value("zip", " true\n"), r#"" true\n""#);
        assert_eq!(value("name", "{}"), r#""{}""#);
        assert_eq!(value("days", "3"), "3");
        assert_eq!(value("days", "three"), r#""three""#);
        assert_eq!(value("list", ""), "[]");
        assert_eq!(value("list", "['a', True]"), r#"["a",true]"#);
        assert_eq!(value("any", "{'k': None}"), r#"{"k":null}"#);
        assert_eq!(value("any", "[not a list"), r#""[not a list""#);
        assert_eq!(value("any", "plain words"), r#""plain words""#);
        assert_eq!(value("unknown", "1"), "1");
        let of_items = schemas.arguments("f").property("list").items();
        assert_eq!(of_items.value("1").text(), r#""1""#);
        assert_eq!(schemas.arguments("g").value("1").to_string(), "1");
    }
}
