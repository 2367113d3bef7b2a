//! Calls in tags: arguments are elements, and values stand between them without quotes.

use super::block::Named;
use super::schemas::{ArgumentSchemas, Schema};
use crate::json::Json;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// How deep elements may stand in each other.
const DEEPEST: usize = 64;

/// `<invoke name="f">` with `<parameter name="key">value</parameter>` in it, once or several times; a family's `prefix`
/// stands in each tag. DeepSeek says whether a value is a text: `string="true"`.
pub(super) fn invocations(
    text: &str,
    prefix: &str,
    schemas: &ArgumentSchemas,
) -> Option<Vec<Named>> {
    let begin = format!("<{prefix}invoke name=\"");
    let end = format!("</{prefix}invoke>");
    let parameter = Parameter {
        begin: &format!("<{prefix}parameter name=\""),
        end: &format!("</{prefix}parameter>"),
    };
    let calls = text.split(&begin).skip(1).map(|part| {
        let (name, rest) = part.split_once('"')?;
        let (_, rest) = rest.split_once('>')?;
        let (inside, _) = rest.split_once(&end)?;
        parameter.read(name, inside, schemas)
    });
    whole(calls)
}

/// The rest of `<function name="f"><param name="key">value</param></function>` after `name=`.
pub(super) fn function(text: &str, schemas: &ArgumentSchemas) -> Option<Vec<Named>> {
    let (name, inside) = text.trim_start().strip_prefix('"')?.split_once('"')?;
    let (_, inside) = inside.split_once('>')?;
    let parameter = Parameter {
        begin: "<param name=\"",
        end: "</param>",
    };
    whole([parameter.read(name, inside, schemas)])
}

fn whole(calls: impl IntoIterator<Item = Option<Named>>) -> Option<Vec<Named>> {
    let calls: Option<Vec<_>> = calls.into_iter().collect();
    calls.filter(|calls| !calls.is_empty())
}

/// How parameters are written: up to the name, and after the value.
struct Parameter<'t> {
    begin: &'t str,
    end: &'t str,
}

impl Parameter<'_> {
    fn read(&self, tool: &str, inside: &str, schemas: &ArgumentSchemas) -> Option<Named> {
        let (mut rest, mut arguments) = (inside, Vec::new());
        while let Some((_, part)) = rest.split_once(self.begin) {
            let (key, part) = part.split_once('"')?;
            let (attributes, part) = part.split_once('>')?;
            let (value, after) = match part.strip_prefix("<![CDATA[") {
                Some(part) => {
                    let (value, after) = part.split_once("]]>")?;
                    (value, after.trim_start().strip_prefix(self.end)?)
                }
                None => part.split_once(self.end)?,
            };
            let schema = schemas.arguments(tool).property(key);
            let value = match attributes.trim() {
                r#"string="true""# => value.into(),
                _ => schema.value(value),
            };
            arguments.push((key.to_string(), value));
            rest = after;
        }
        let name = tool.trim();
        (!name.is_empty()).then(|| (name.to_string(), Json::Object(arguments)))
    }
}

/// `<invoke name="f"><key>value</key></invoke>`, where a value may be elements again, those of a list named `item`. Each
/// tag comes after a mark, so that texts may have tags of their own.
pub(super) fn elements(text: &str, mark: &str, schemas: &ArgumentSchemas) -> Option<Vec<Named>> {
    let mut tags = text.split(mark).skip(1);
    let mut calls = Vec::new();
    while let Some(tag) = tags.next() {
        let (name, _) = tag.strip_prefix("<invoke name=\"")?.split_once('"')?;
        let inside = Element::read(&mut tags, "invoke", "", DEEPEST)?;
        let arguments = match inside.members[..] {
            [] => Json::Object(Vec::new()),
            _ => inside.value(schemas.arguments(name)),
        };
        arguments.as_object()?;
        calls.push((name.to_string(), arguments));
    }
    (!calls.is_empty()).then_some(calls)
}

/// What stands between two tags: a text, or elements.
struct Element<'t> {
    text: &'t str,
    members: Vec<(&'t str, Element<'t>)>,
}

impl<'t> Element<'t> {
    /// Reads up to the end of the element of this name, which begins with a text.
    fn read(
        tags: &mut impl Iterator<Item = &'t str>,
        name: &str,
        text: &'t str,
        depth: usize,
    ) -> Option<Self> {
        let mut members = Vec::new();
        loop {
            let (tag, after) = tags.next()?.strip_prefix('<')?.split_once('>')?;
            match tag.strip_prefix('/') {
                Some(ended) => {
                    return (ended == name).then_some(Self { text, members });
                }
                None => {
                    let member = Self::read(tags, tag, after, depth.checked_sub(1)?)?;
                    members.push((tag, member));
                }
            }
        }
    }

    fn value(&self, schema: Schema<'_>) -> Json {
        if self.members.is_empty() {
            return schema.value(self.text);
        }
        if self.members.iter().all(|(name, _)| *name == "item") {
            let items = self.members.iter();
            return Json::array(items.map(|(_, item)| item.value(schema.items())));
        }
        let members = self.members.iter().map(|(name, member)| {
            let value = member.value(schema.property(name));
            (String::from(*name), value)
        });
        Json::Object(members.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(calls: Option<Vec<Named>>) -> String {
        let calls = calls.expect("calls");
        let one = |(name, arguments): Named| format!("{name} {arguments}");
        calls.into_iter().map(one).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn parameters_stand_between_tags() {
        let none = ArgumentSchemas::default();
        let text = "\n<invoke name=\"f\">\n<parameter name=\"a\">1</parameter>\n\
            <parameter name=\"b\" string=\"true\">2</parameter>\n<parameter name=\"c\">x < y\nz</parameter>\n</invoke>\n\
            <invoke name=\"g\">\n</invoke>\n";
        let expected = r#"f {"a":1,"b":"2","c":"x < y\nz"}; g {}"#;
        assert_eq!(shown(invocations(text, "", &none)), expected);
        let prefixed = text.replace("</", "</p:").replace("<i", "<p:i");
        let prefixed = prefixed.replace("<par", "<p:par");
        assert_eq!(shown(invocations(&prefixed, "p:", &none)), expected);
        for bad in [
            "",
            "<invoke name=\"f\">",
            "<invoke name=\"\"></invoke>",
            "<invoke name=\"f\"><parameter name=\"a\">1</invoke>",
            "<invoke name=\"f\"></invoke><invoke name=\"g",
        ] {
            assert_eq!(invocations(bad, "", &none), None, "{bad}");
        }
    }

    #[test]
    fn a_function_has_its_name_in_quotes() {
        let none = ArgumentSchemas::default();
        let text =
            "\"f\"><param name=\"a\">x</param>\n<param name=\"b\"><![CDATA[</param>]]></param>";
        assert_eq!(
            shown(function(text, &none)),
            r#"f {"a":"x","b":"</param>"}"#
        );
        for bad in [
            "",
            "f>",
            "\"f",
            "\"f\"",
            "\"f\"><param name=\"a\">x",
            "\"f\"><param name=\"a\"><![CDATA[x</param>",
        ] {
            assert_eq!(function(bad, &none), None, "{bad}");
        }
    }

    #[test]
    fn elements_stand_in_each_other() {
        let none = ArgumentSchemas::default();
        let text = "\n@<invoke name=\"f\">@<a>New <b>@</a>@<n>3@</n>@<l>@<item>1@</item>@<item>@<k>true@</k>@</item>@</l>@</invoke>\n\
            @<invoke name=\"g\">@</invoke>\n";
        assert_eq!(
            shown(elements(text, "@", &none)),
            r#"f {"a":"New <b>","n":3,"l":[1,{"k":true}]}; g {}"#
        );
        for bad in [
            "",
            "@<invoke name=\"f\">",
            "@<invoke name=\"f\">@<a>@</b>@</invoke>",
            "@<invoke name=\"f\">@<item>1@</item>@</invoke>",
            "@<other>@</other>",
        ] {
            assert_eq!(elements(bad, "@", &none), None, "{bad}");
        }
        let deep = format!("@<invoke name=\"f\">{}", "@<a>".repeat(100_000));
        assert_eq!(elements(&deep, "@", &none), None);
    }
}
