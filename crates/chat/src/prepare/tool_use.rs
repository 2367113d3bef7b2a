//! The tools of a request, in its prompt and in its answer.

use crate::fault::Fault;
use crate::model_profile::ModelProfile;
use crate::request::{Format, Generate};
use crate::tools::CallFormat;
use crate::tools::choice::{Tool, ToolChoice};
use crate::tools::grammar::AnswerConstraint;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Which tools the model sees, which it may call, and how it writes calls.
pub(super) struct ToolUse<'r> {
    /// The tools in the prompt.
    pub(super) shown: Vec<Tool>,
    /// The tools it may call.
    pub(super) allowed: Vec<&'r Tool>,
    /// It must call one.
    pub(super) required: bool,
    pub(super) format: Option<CallFormat>,
}

impl<'r> ToolUse<'r> {
    pub(super) fn new(request: &'r Generate, profile: &ModelProfile) -> Result<Self, Fault> {
        let tools = &request.tools;
        let named = |name: &String| {
            let found = tools.list.iter().find(|tool| tool.name == *name);
            found.ok_or_else(|| {
                Fault::bad_request(format!(
                    "tool_choice names {name:?}, which is not among the tools"
                ))
            })
        };
        let (allowed, required): (Vec<&Tool>, bool) = match &tools.choice {
            ToolChoice::Auto => (tools.list.iter().collect(), false),
            ToolChoice::None => (Vec::new(), false),
            ToolChoice::Required => (tools.list.iter().collect(), true),
            ToolChoice::Named(name) => ([named(name)?].into(), true),
            ToolChoice::Allowed { names, required } => {
                let allowed = names.iter().map(named).collect::<Result<_, _>>()?;
                (allowed, *required)
            }
        };
        if required && allowed.is_empty() {
            return Err(Fault::bad_request(
                "tool_choice requires a call and there are no tools",
            ));
        }
        let own = match &profile.template {
            Some(Ok(template)) => template.calls(),
            _ => CallFormat::Generic,
        };
        let format = if required { own.for_grammar() } else { own };
        let free = request.format == Format::Text;
        let reads = if own.names_recipients() && !required {
            // A constrained answer names no recipient.
            free
        } else {
            !allowed.is_empty()
        };
        Ok(Self {
            shown: tools.list.clone(),
            format: reads.then_some(format),
            allowed,
            required,
        })
    }

    /// What constrains the answer: a required call, which goes before the request's format, or the format.
    pub(super) fn constraint(&self, request: &Generate) -> AnswerConstraint {
        if self.required {
            let format = self.format.unwrap_or(CallFormat::Generic);
            let calls = format.calls(&self.allowed, request.tools.parallel);
            return AnswerConstraint::Calls(calls);
        }
        match &request.format {
            Format::Text => AnswerConstraint::Free,
            format => AnswerConstraint::Format(format.clone()),
        }
    }

    /// Whether anything constrains the answer.
    pub(super) fn constrains(&self, request: &Generate) -> bool {
        self.required || request.format != Format::Text
    }
}
