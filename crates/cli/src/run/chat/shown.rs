//! What `/show` shows.

use super::command::Shown;
use super::session::Session;
use crate::failure::Failure;
use serde_json::Value;
use strata::Size;
use strata::load::TemplateText;
use strata::load::{Lists, facts};

impl Session<'_, '_> {
    pub(super) fn show(&self, what: Shown) -> Result<(), Failure> {
        let preset = self.topic.file.preset();
        let text = match what {
            Shown::Info => self.info()?,
            Shown::License => preset.map_or_else(String::new, |preset| preset.licenses.join("\n")),
            Shown::Modelfile => match preset {
                Some(preset) => preset.modelfile.clone(),
                None => format!("FROM {}", self.topic.model.display()),
            },
            Shown::Parameters => self.parameters(),
            Shown::System => self.system().unwrap_or_default(),
            Shown::Template => {
                let template = self.topic.template.map(TemplateText::source);
                template.unwrap_or_default().into()
            }
        };
        match text.trim_end() {
            "" => eprintln!("There is none."),
            text => eprintln!("{text}"),
        }
        Ok(())
    }

    fn info(&self) -> Result<String, Failure> {
        let parsed = self.topic.file.parse()?;
        let name = self.topic.model.display().to_string();
        let facts = facts(&name, self.topic.file.path(), &parsed, Lists::Short);
        let rows = [
            ("model", name),
            ("architecture", facts.family),
            ("parameters", facts.parameters.to_string()),
            ("context length", facts.trained_context.to_string()),
            ("embedding length", facts.embedding.to_string()),
            ("quantization", facts.quantization),
            ("size", Size(facts.bytes).to_string()),
            ("context here", self.context().to_string()),
        ];
        let rows = rows.map(|(label, value)| format!("  {label:<18}{value}"));
        Ok(rows.join("\n"))
    }

    /// What the model comes with, and what was set.
    fn parameters(&self) -> String {
        let lines = |name: &str, value: &Value| -> Vec<String> {
            let values = match value {
                Value::Array(values) => values.as_slice(),
                value => std::slice::from_ref(value),
            };
            let line = |value: &Value| format!("  {name:<18}{value}");
            values.iter().map(line).collect()
        };
        let mut text = Vec::new();
        if let Some(preset) = self.topic.file.preset()
            && !preset.written.is_empty()
        {
            text.push("Of the model:".to_owned());
            for (name, value) in &preset.written {
                let value = serde_json::from_str(&value.text()).unwrap_or_default();
                text.extend(lines(name, &value));
            }
        }
        if !self.parameters.is_empty() {
            text.push("Set here:".to_owned());
            for (name, value) in &self.parameters {
                text.extend(lines(name, value));
            }
        }
        text.join("\n")
    }
}
