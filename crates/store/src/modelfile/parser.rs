//! Reading Modelfiles.

use super::{Kind, LONGEST, Modelfile, ModelfileError, ModelfileFault as Fault, PARAMETERS, Role};
use serde_json::{Number, Value};
use std::str::FromStr;

impl FromStr for Modelfile {
    type Err = ModelfileError;

    fn from_str(text: &str) -> Result<Self, ModelfileError> {
        if text.len() > LONGEST {
            return Err(ModelfileError {
                line: 1,
                fault: Fault::Long,
            });
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut source = Source {
            rest: text,
            line: 1,
        };
        let mut file = Self::default();
        while let Some(line) = source.next_command() {
            file.command(&mut source)
                .map_err(|fault| ModelfileError { line, fault })?;
        }
        if file.from.is_empty() {
            return Err(ModelfileError {
                line: source.line,
                fault: Fault::NoFrom,
            });
        }
        Ok(file)
    }
}

/// What is still to be read.
struct Source<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Source<'a> {
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.bytes().filter(|&byte| byte == b'\n').count();
        self.rest = rest;
        taken
    }

    /// Goes to the next command, over empty lines and comments; gives its line.
    fn next_command(&mut self) -> Option<usize> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.take(blank);
            if self.rest.is_empty() {
                return None;
            }
            if !self.rest.starts_with('#') {
                return Some(self.line);
            }
            self.take(self.line_len());
        }
    }

    fn line_len(&self) -> usize {
        self.rest.find('\n').unwrap_or(self.rest.len())
    }

    /// A word of the line, and the blanks after it.
    fn word(&mut self) -> &'a str {
        let end = self.rest.find(char::is_whitespace);
        let word = self.take(end.unwrap_or(self.rest.len()));
        self.blanks();
        word
    }

    fn blanks(&mut self) {
        let line = &self.rest[..self.line_len()];
        let blanks = line.len() - line.trim_start().len();
        self.take(blanks);
    }

    /// The value of a command: quoted, or the rest of the line.
    fn value(&mut self) -> Result<String, Fault> {
        for quotes in ["\"\"\"", "\""] {
            if self.rest.starts_with(quotes) {
                return self.quoted(quotes);
            }
        }
        Ok(self.take(self.line_len()).trim().to_string())
    }

    fn quoted(&mut self, quotes: &str) -> Result<String, Fault> {
        let body = &self.rest[quotes.len()..];
        let mut from = 0;
        // A quote counts as the end only at the end of a line, so that one inside needs no escape.
        while let Some(at) = body[from..].find(quotes) {
            let mut at = from + at;
            // `""""` ends with a quote that belongs to the text.
            while body[at + 1..].starts_with(quotes) {
                at += 1;
            }
            let after = &body[at + quotes.len()..];
            let line = &after[..after.find('\n').unwrap_or(after.len())];
            if line.trim().is_empty() {
                self.take(2 * quotes.len() + at);
                return Ok(body[..at].to_string());
            }
            from = at + quotes.len();
        }
        Err(Fault::Quotes)
    }
}

impl Modelfile {
    fn command(&mut self, source: &mut Source<'_>) -> Result<(), Fault> {
        let word = source.word();
        let upper = word.to_ascii_uppercase();
        let needed = |name: &'static str, value: String| {
            if value.is_empty() {
                return Err(Fault::Value(name));
            }
            Ok(value)
        };
        match upper.as_str() {
            "FROM" => self.from.push(needed("FROM", source.value()?)?),
            "ADAPTER" => self.adapters.push(needed("ADAPTER", source.value()?)?),
            "LICENSE" => self.licenses.push(needed("LICENSE", source.value()?)?),
            "TEMPLATE" => self.template = Some(source.value()?),
            "SYSTEM" => self.system = Some(source.value()?),
            "REQUIRES" => self.requires = Some(needed("REQUIRES", source.value()?)?),
            "MESSAGE" => {
                let role = source.word();
                let role = Role::parse(&role.to_ascii_lowercase())
                    .ok_or_else(|| Fault::Role(role.chars().take(40).collect()))?;
                self.messages.push((role, source.value()?));
            }
            "PARAMETER" => {
                let name = source.word();
                let value = source.value()?;
                self.parameter(name, needed("PARAMETER", value)?)?;
            }
            _ => return Err(Fault::Command(word.chars().take(40).collect())),
        }
        Ok(())
    }

    fn parameter(&mut self, name: &str, text: String) -> Result<(), Fault> {
        let known = PARAMETERS
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        let &(name, kind) =
            known.ok_or_else(|| Fault::Parameter(name.chars().take(40).collect()))?;
        let wrong = |expected| Fault::Type {
            name,
            expected,
            value: text.chars().take(80).collect(),
        };
        let value = match kind {
            Kind::Integer => {
                let number: i64 = text.parse().map_err(|_| wrong("a whole number"))?;
                Value::Number(number.into())
            }
            Kind::Float => {
                // Ollama keeps these with the precision of an f32.
                let number: f32 = text.parse().map_err(|_| wrong("a number"))?;
                let number: f64 = number.to_string().parse().unwrap_or(f64::from(number));
                let number = Number::from_f64(number).ok_or_else(|| wrong("a finite number"))?;
                Value::Number(number)
            }
            Kind::Truth => match text.to_ascii_lowercase().as_str() {
                "true" | "1" | "t" => Value::Bool(true),
                "false" | "0" | "f" => Value::Bool(false),
                _ => return Err(wrong("true or false")),
            },
            Kind::Texts => {
                let texts = self
                    .parameters
                    .entry(name)
                    .or_insert(Value::Array(Vec::new()));
                if let Value::Array(texts) = texts {
                    texts.push(Value::String(text));
                }
                return Ok(());
            }
        };
        self.parameters.insert(name.into(), value);
        Ok(())
    }
}
