//! What `/show` shows.

use super::command::Shown;
use super::session::Session;
use crate::failure::Failure;
use strata::load;
use strata::{Json, Size};

impl Session<'_> {
    pub(super) fn show(&self, what: Shown) -> Result<(), Failure> {
        let facts = self.topic.model.facts();
        let text = match what {
            Shown::Info => self.info(),
            Shown::License => facts.licenses.join("\n"),
            Shown::Modelfile => match facts.modelfile.as_str() {
                "" => format!("FROM {}", self.topic.path.display()),
                modelfile => modelfile.into(),
            },
            Shown::Parameters => self.parameters(),
            Shown::System => self.system().unwrap_or_default(),
            Shown::Template => facts.template.clone().unwrap_or_default(),
        };
        match text.trim_end() {
            "" => eprintln!("None."),
            text => eprintln!("{text}"),
        }
        Ok(())
    }

    fn info(&self) -> String {
        let facts = self.topic.model.facts();
        let rows = [
            ("model", self.topic.path.display().to_string()),
            ("architecture", facts.family.clone()),
            ("parameters", facts.parameters.to_string()),
            ("context length", facts.trained_context.to_string()),
            ("embedding length", facts.embedding.to_string()),
            ("quantization", facts.quantization.clone()),
            ("size", Size(facts.bytes).to_string()),
            ("context here", self.context().to_string()),
        ];
        let rows = rows.map(|(label, value)| format!("  {label:<18}{value}"));
        rows.join("\n")
    }

    /// What the model comes with, and what was set.
    fn parameters(&self) -> String {
        let lines = |name: &str, value: &Json| -> Vec<String> {
            let values = match value {
                Json::Array(values) => values.as_slice(),
                value => std::slice::from_ref(value),
            };
            let line = |value: &Json| format!("  {name:<18}{value}");
            values.iter().map(line).collect()
        };
        let mut text = Vec::new();
        let own = &self.topic.model.facts().settings;
        if !own.is_empty() {
            text.push("From the model:".to_owned());
        }
        for (name, value) in own {
            text.extend(lines(name, value));
        }
        if !self.parameters.is_empty() {
            text.push("Set here:".to_owned());
            for (name, value) in &self.parameters {
                text.extend(lines(name, &load::json(value)));
            }
        }
        text.join("\n")
    }
}
