//! Runs a parsed Go template within its limits.

use super::ast::{Ast, Branch, Node, Operand, Pipeline, Setting};
use super::error::{GoError, GoFault, OnLine, Run};
use super::format;
use super::functions::Function;
use super::value::GoValue;
use crate::jinja::{DateTime, LimitKind, Limits};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The work of one run.
pub(super) struct Interp<'t> {
    ast: &'t Ast,
    limits: Limits,
    steps: u64,
    /// Bytes of texts that the template made.
    made: usize,
    depth: u32,
    pub(super) now: Option<DateTime>,
    pub(super) out: String,
    variables: Vec<(Arc<str>, GoValue)>,
}

/// How a list of nodes ended.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Flow {
    On,
    Break,
    Continue,
}

impl<'t> Interp<'t> {
    pub(super) fn new(ast: &'t Ast, limits: Limits, now: Option<DateTime>) -> Self {
        Self {
            ast,
            limits,
            steps: 0,
            made: 0,
            depth: 0,
            now,
            out: String::new(),
            variables: Vec::new(),
        }
    }

    /// Runs nodes on a value; what they print is added to the output.
    pub(super) fn run(&mut self, nodes: &[Node], data: &GoValue) -> Result<(), GoError> {
        let outer = core::mem::take(&mut self.variables);
        self.variables.push((Arc::from("$"), data.clone()));
        self.nodes(nodes, data)?;
        self.variables = outer;
        Ok(())
    }

    /// Counts work, before it is done.
    pub(super) fn step(&mut self, count: usize) -> Run<()> {
        self.steps = self.steps.saturating_add(count as u64);
        if self.steps > self.limits.steps {
            Err(GoFault::Limit(LimitKind::Steps, self.limits.steps))
        } else {
            Ok(())
        }
    }

    /// Counts the bytes of a text that is about to be made.
    pub(super) fn make(&mut self, bytes: usize) -> Run<()> {
        self.step(bytes / 64 + 1)?;
        self.made = self.made.saturating_add(bytes);
        let limit = self.limits.memory_bytes;
        if self.made > limit {
            Err(GoFault::Limit(LimitKind::Memory, limit as u64))
        } else {
            Ok(())
        }
    }

    fn print(&mut self, text: &str) -> Run<()> {
        self.step(text.len() / 64 + 1)?;
        let limit = self.limits.output_bytes;
        if self.out.len().saturating_add(text.len()) > limit {
            return Err(GoFault::Limit(LimitKind::Output, limit as u64));
        }
        self.out.push_str(text);
        Ok(())
    }

    fn deeper(&mut self) -> Run<()> {
        self.depth += 1;
        if self.depth > self.limits.depth {
            Err(GoFault::Limit(LimitKind::Depth, self.limits.depth.into()))
        } else {
            Ok(())
        }
    }

    fn nodes(&mut self, nodes: &[Node], dot: &GoValue) -> Result<Flow, GoError> {
        for node in nodes {
            let flow = self.node(node, dot)?;
            if flow != Flow::On {
                return Ok(flow);
            }
        }
        Ok(Flow::On)
    }

    fn node(&mut self, node: &Node, dot: &GoValue) -> Result<Flow, GoError> {
        match node {
            Node::Text(text) => self.print(text).on(1)?,
            Node::Action(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                if pipeline.variables.is_empty() {
                    let text = format::plain(self, &value).on(pipeline.line)?;
                    self.print(&text).on(pipeline.line)?;
                }
            }
            Node::If(branch) | Node::With(branch) => {
                return self.branch(branch, dot, matches!(node, Node::With(_)));
            }
            Node::Range(branch) => return self.range(branch, dot),
            Node::Template { line, name, data } => {
                let data = match data {
                    Some(pipeline) => self.pipeline(pipeline, dot)?,
                    None => GoValue::Nil,
                };
                let ast = self.ast;
                let missing = || GoFault::Template(name.chars().take(40).collect());
                let nodes = ast.defined.get(name).ok_or_else(missing).on(*line)?;
                self.deeper().on(*line)?;
                self.run(nodes, &data)?;
                self.depth -= 1;
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::On)
    }

    fn branch(&mut self, branch: &Branch, dot: &GoValue, moves: bool) -> Result<Flow, GoError> {
        let line = branch.pipeline.line;
        self.deeper().on(line)?;
        let mark = self.variables.len();
        let value = self.pipeline(&branch.pipeline, dot)?;
        let flow = if value.truth() {
            self.nodes(&branch.then, if moves { &value } else { dot })?
        } else {
            self.nodes(&branch.otherwise, dot)?
        };
        self.variables.truncate(mark);
        self.depth -= 1;
        Ok(flow)
    }

    fn range(&mut self, branch: &Branch, dot: &GoValue) -> Result<Flow, GoError> {
        let line = branch.pipeline.line;
        self.deeper().on(line)?;
        let mark = self.variables.len();
        let over = self.pipeline(&branch.pipeline, dot)?;
        let inner = self.variables.len();
        let mut flow = Flow::On;
        let mut any = false;
        let mut turn = |this: &mut Self, key: GoValue, item: &GoValue| {
            any = true;
            this.step(1).on(line)?;
            this.settle(&branch.pipeline, key, item).on(line)?;
            let flow = this.nodes(&branch.then, item)?;
            this.variables.truncate(inner);
            Ok::<bool, GoError>(flow != Flow::Break)
        };
        match &over {
            GoValue::Nil => {}
            GoValue::List(list) => {
                for (at, item) in list.items().iter().enumerate() {
                    if !turn(self, GoValue::Int(at as i64), item)? {
                        break;
                    }
                }
            }
            GoValue::Map(pairs) => {
                self.step(pairs.len()).on(line)?;
                let mut sorted: Vec<&(Arc<str>, GoValue)> = pairs.iter().collect();
                sorted.sort_by(|a, b| a.0.cmp(&b.0));
                for (key, item) in sorted {
                    if !turn(self, GoValue::Text(key.clone()), item)? {
                        break;
                    }
                }
            }
            GoValue::Int(count) => {
                for at in 0..*count {
                    if !turn(self, GoValue::Int(at), &GoValue::Int(at))? {
                        break;
                    }
                }
            }
            other => {
                let (of, operation) = (other.kind(), "range");
                return Err(GoFault::Type { of, operation }).on(line);
            }
        }
        if !any {
            flow = self.nodes(&branch.otherwise, dot)?;
        }
        self.variables.truncate(mark);
        self.depth -= 1;
        Ok(flow)
    }

    /// Gives a turn's key and item to the variables of a range.
    fn settle(&mut self, pipeline: &Pipeline, key: GoValue, item: &GoValue) -> Run<()> {
        let values = match pipeline.variables.len() {
            1 => [Some(item.clone()), None],
            _ => [Some(key), Some(item.clone())],
        };
        for (name, value) in pipeline.variables.iter().zip(values.into_iter().flatten()) {
            self.assign(name, value)?;
        }
        Ok(())
    }

    fn assign(&mut self, name: &Arc<str>, value: GoValue) -> Run<()> {
        let found = self
            .variables
            .iter_mut()
            .rev()
            .find(|(known, _)| known == name);
        match found {
            Some((_, place)) => {
                *place = value;
                Ok(())
            }
            None => Err(GoFault::Variable(name.to_string())),
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline, dot: &GoValue) -> Result<GoValue, GoError> {
        let line = pipeline.line;
        self.deeper().on(line)?;
        let mut value = None;
        for command in &pipeline.commands {
            value = Some(self.command(command, dot, value, line)?);
        }
        let value = value.unwrap_or_default();
        for name in &pipeline.variables {
            match pipeline.setting {
                Setting::Declare => self.variables.push((name.clone(), value.clone())),
                Setting::Assign => self.assign(name, value.clone()).on(line)?,
            }
        }
        self.depth -= 1;
        Ok(value)
    }

    fn command(
        &mut self,
        operands: &[Operand],
        dot: &GoValue,
        last: Option<GoValue>,
        line: u32,
    ) -> Result<GoValue, GoError> {
        self.step(1).on(line)?;
        let Some((first, rest)) = operands.split_first() else {
            return Ok(GoValue::Nil);
        };
        if let Operand::Function(function) = first {
            return self.call(*function, rest, dot, last, line);
        }
        if !rest.is_empty() || last.is_some() {
            return Err(GoFault::NotAFunction).on(line);
        }
        self.operand(first, dot, line)
    }

    fn call(
        &mut self,
        function: Function,
        operands: &[Operand],
        dot: &GoValue,
        last: Option<GoValue>,
        line: u32,
    ) -> Result<GoValue, GoError> {
        // These look at no more than they need.
        if let Function::And | Function::Or = function {
            let mut value = GoValue::Nil;
            for operand in operands {
                value = self.operand(operand, dot, line)?;
                if value.truth() == (function == Function::Or) {
                    return Ok(value);
                }
            }
            return match (last, operands.is_empty()) {
                (Some(last), _) => Ok(last),
                (None, false) => Ok(value),
                (None, true) => {
                    let function = function.name();
                    Err(GoFault::Arguments { function, found: 0 }).on(line)
                }
            };
        }
        let mut arguments = Vec::with_capacity(operands.len() + 1);
        for operand in operands {
            arguments.push(self.operand(operand, dot, line)?);
        }
        arguments.extend(last);
        function.call(self, &arguments).on(line)
    }

    fn operand(&mut self, operand: &Operand, dot: &GoValue, line: u32) -> Result<GoValue, GoError> {
        self.step(1).on(line)?;
        match operand {
            Operand::Dot => Ok(dot.clone()),
            Operand::Nil => Ok(GoValue::Nil),
            Operand::Bool(truth) => Ok(GoValue::Bool(*truth)),
            Operand::Int(number) => Ok(GoValue::Int(*number)),
            Operand::Float(number) => Ok(GoValue::Float(*number)),
            Operand::Text(text) => Ok(GoValue::Text(text.clone())),
            Operand::Function(function) => self.call(*function, &[], dot, None, line),
            Operand::Field(fields) => self.fields(dot, fields).on(line),
            Operand::Variable(name, fields) => {
                let known = self.variables.iter().rev().find(|(known, _)| known == name);
                let value = known.map(|(_, value)| value.clone());
                let value = value.ok_or_else(|| GoFault::Variable(name.to_string()));
                self.fields(&value.on(line)?, fields).on(line)
            }
            Operand::Pipeline(inner) => self.pipeline(inner, dot),
            Operand::Chain(inner, fields) => {
                let value = self.pipeline(inner, dot)?;
                self.fields(&value, fields).on(line)
            }
        }
    }

    fn fields(&mut self, value: &GoValue, fields: &[String]) -> Run<GoValue> {
        let mut value = value.clone();
        for name in fields {
            value = match &value {
                GoValue::Map(pairs) => {
                    self.step(pairs.len() / 8 + 1)?;
                    value.member(name).cloned().unwrap_or_default()
                }
                GoValue::Nil => GoValue::Nil,
                other => {
                    return Err(GoFault::Field {
                        of: other.kind(),
                        name: name.chars().take(40).collect(),
                    });
                }
            };
        }
        Ok(value)
    }
}
