//! Statements.
use super::expr::{Inline, TupleEnd};
use super::{Parse, Parser};
use crate::jinja::ast::{
    Expr, For, LOOP, MacroDecl, Param, Postfix, PostfixKind, Stmt, StmtKind, Target, Uses,
};
use crate::jinja::error::SyntaxFault;
use crate::jinja::lexer::{Op, TokenKind};
use alloc::boxed::Box;
use alloc::vec::Vec;

impl Parser {
    /// Statements up to one of the tags `ends`, whose name is then current; or, without any, to the end.
    pub(super) fn statements(&mut self, ends: &[&str]) -> Parse<Vec<Stmt>> {
        let mut body = Vec::new();
        loop {
            let line = self.line();
            match self.peek() {
                TokenKind::Eof if ends.is_empty() => return Ok(body),
                TokenKind::Eof => return self.unexpected("an end tag"),
                TokenKind::Data(_) => {
                    if let TokenKind::Data(text) = self.next() {
                        let kind = StmtKind::Text(text);
                        body.push(Stmt { line, kind });
                    }
                }
                TokenKind::VariableBegin => {
                    self.next();
                    let value = self.tuple(Inline::If, TupleEnd::Tag, false)?;
                    self.settle()?;
                    self.expect(&TokenKind::VariableEnd, "'}}'")?;
                    let kind = StmtKind::Print(value);
                    body.push(Stmt { line, kind });
                }
                TokenKind::BlockBegin => {
                    self.next();
                    if ends.iter().any(|end| self.is_name(end)) {
                        return Ok(body);
                    }
                    self.deeper(|parser| parser.statement(line, &mut body))?;
                    self.settle()?;
                    self.expect(&TokenKind::BlockEnd, "'%}'")?;
                }
                _ => return self.unexpected("a tag"),
            }
        }
    }

    /// A body: the end of its opening tag, statements, and the name of the closing tag.
    fn body(&mut self, ends: &[&str]) -> Parse<Vec<Stmt>> {
        self.settle()?;
        self.skip_op(Op::Colon);
        self.expect(&TokenKind::BlockEnd, "'%}'")?;
        self.statements(ends)
    }

    /// A body with one possible end, which is read too.
    fn body_to(&mut self, end: &str) -> Parse<Vec<Stmt>> {
        let body = self.body(&[end])?;
        self.next();
        Ok(body)
    }

    /// A body that runs in a scope of its own, where filters must exist.
    fn scoped_body(&mut self, end: &str) -> Parse<Vec<Stmt>> {
        let outer = core::mem::replace(&mut self.conditional, false);
        let body = self.body_to(end);
        self.conditional = outer;
        body
    }

    fn statement(&mut self, line: u32, into: &mut Vec<Stmt>) -> Parse<()> {
        let TokenKind::Name(tag) = self.peek() else {
            return self.unexpected("a tag's name");
        };
        let tag = tag.clone();
        let fault = match tag.as_str() {
            "print" => return self.print(line, into),
            "extends" | "block" | "include" | "import" | "from" | "autoescape" => {
                SyntaxFault::UnsupportedTag(tag)
            }
            _ => {
                if let Some(kind) = self.statement_kind(&tag)? {
                    into.push(Stmt { line, kind });
                    return Ok(());
                }
                SyntaxFault::Tag(tag)
            }
        };
        self.fail(fault)
    }

    fn statement_kind(&mut self, tag: &str) -> Parse<Option<StmtKind>> {
        let kind = match tag {
            "if" => self.if_statement()?,
            "for" => self.for_statement()?,
            "set" => self.set_statement()?,
            "with" => self.with_statement()?,
            "macro" => self.macro_statement()?,
            "call" => self.call_statement()?,
            "filter" => {
                self.next();
                let filters = self.filter_chain(true)?;
                let body = self.scoped_body("endfilter")?;
                StmtKind::Filter { filters, body }
            }
            "generation" => {
                self.next();
                let loops = core::mem::replace(&mut self.loops, 0);
                let body = self.scoped_body("endgeneration")?;
                self.loops = loops;
                StmtKind::Generation(body)
            }
            "break" | "continue" => {
                let is_break = tag == "break";
                if self.loops == 0 {
                    let tag = if is_break { "break" } else { "continue" };
                    return self.fail(SyntaxFault::OutsideLoop(tag));
                }
                self.next();
                if is_break {
                    StmtKind::Break
                } else {
                    StmtKind::Continue
                }
            }
            _ => return Ok(None),
        };
        Ok(Some(kind))
    }

    fn print(&mut self, line: u32, into: &mut Vec<Stmt>) -> Parse<()> {
        self.next();
        while *self.peek() != TokenKind::BlockEnd {
            let kind = StmtKind::Print(self.expression(Inline::If)?);
            into.push(Stmt { line, kind });
            if !self.skip_op(Op::Comma) {
                break;
            }
        }
        Ok(())
    }

    fn if_statement(&mut self) -> Parse<StmtKind> {
        let outer = core::mem::replace(&mut self.conditional, true);
        let mut branches = Vec::new();
        let mut otherwise = Vec::new();
        loop {
            // `if` or `elif`.
            self.next();
            let test = self.tuple(Inline::No, TupleEnd::Tag, false)?;
            branches.push((test, self.body(&["elif", "else", "endif"])?));
            if self.is_name("elif") {
                continue;
            }
            if self.skip_name("else") {
                otherwise = self.body_to("endif")?;
            } else {
                self.next();
            }
            break;
        }
        self.conditional = outer;
        Ok(StmtKind::If {
            branches,
            otherwise,
        })
    }

    fn for_statement(&mut self) -> Parse<StmtKind> {
        self.next();
        self.in_loop += 1;
        let target = self.target(TupleEnd::Name("in"), false)?;
        self.expect_name("in")?;
        let over = self.tuple(Inline::No, TupleEnd::Name("recursive"), false)?;
        let outer = core::mem::replace(&mut self.conditional, false);
        let condition = if self.skip_name("if") {
            Some(self.expression(Inline::If)?)
        } else {
            None
        };
        let recursive = self.skip_name("recursive");
        self.loops += 1;
        let mentions = self.loop_mentions;
        let body = self.body(&["endfor", "else"])?;
        self.loops -= 1;
        let uses_loop = self.loop_mentions > mentions;
        let otherwise = if self.skip_name("else") {
            self.body_to("endfor")?
        } else {
            self.next();
            Vec::new()
        };
        self.conditional = outer;
        self.in_loop -= 1;
        Ok(StmtKind::For(Box::new(For {
            target,
            over,
            condition,
            body,
            otherwise,
            recursive,
            uses_loop,
        })))
    }

    fn set_statement(&mut self) -> Parse<StmtKind> {
        self.next();
        let target = self.target(TupleEnd::Tag, true)?;
        if self.skip_op(Op::Assign) {
            let value = self.tuple(Inline::If, TupleEnd::Tag, false)?;
            return Ok(StmtKind::Set(target, value));
        }
        let filters = self.filter_chain(false)?;
        let body = self.scoped_body("endset")?;
        Ok(StmtKind::SetBlock {
            target,
            filters,
            body,
        })
    }

    /// Filters with `|` before each, the first perhaps without.
    fn filter_chain(&mut self, starts_inline: bool) -> Parse<Vec<Postfix>> {
        let mut filters = Vec::new();
        let mut inline = starts_inline;
        while inline || self.skip_op(Op::Pipe) {
            inline = false;
            let line = self.line();
            let kind = self.filter()?;
            filters.push(Postfix { line, kind });
        }
        Ok(filters)
    }

    fn with_statement(&mut self) -> Parse<StmtKind> {
        self.next();
        let mut bindings = Vec::new();
        while *self.peek() != TokenKind::BlockEnd {
            if !bindings.is_empty() {
                self.expect_op(Op::Comma, "','")?;
            }
            let target = self.target(TupleEnd::Tag, false)?;
            self.expect_op(Op::Assign, "'='")?;
            bindings.push((target, self.expression(Inline::If)?));
        }
        let body = self.scoped_body("endwith")?;
        Ok(StmtKind::With { bindings, body })
    }

    fn macro_statement(&mut self) -> Parse<StmtKind> {
        self.next();
        let name = self.identifier()?;
        let params = self.parameters()?;
        let index = self.macro_body(&name, params, "endmacro")?;
        Ok(StmtKind::Macro(index))
    }

    /// Reads a macro's body and gives the macro its index.
    fn macro_body(&mut self, name: &str, params: Vec<Param>, end: &str) -> Parse<usize> {
        self.uses.push(Uses::default());
        let loops = core::mem::replace(&mut self.loops, 0);
        let body = self.scoped_body(end)?;
        self.loops = loops;
        let uses = self.uses.pop().unwrap_or_default();
        let symbol = self.symbol(name);
        self.macros.push(MacroDecl {
            name: name.into(),
            symbol,
            params,
            body,
            uses,
        });
        Ok(self.macros.len() - 1)
    }

    fn parameters(&mut self) -> Parse<Vec<Param>> {
        self.expect_op(Op::LParen, "'('")?;
        let mut params: Vec<Param> = Vec::new();
        while !self.is_op(Op::RParen) {
            if !params.is_empty() {
                self.expect_op(Op::Comma, "','")?;
            }
            let name = self.identifier()?;
            let symbol = self.symbol(&name);
            let default = if self.skip_op(Op::Assign) {
                Some(self.expression(Inline::If)?)
            } else if params.last().is_some_and(|param| param.default.is_some()) {
                return self.fail(SyntaxFault::Parameters);
            } else {
                None
            };
            let name = self.name_of(symbol);
            params.push(Param {
                symbol,
                name,
                default,
            });
        }
        self.expect_op(Op::RParen, "')'")?;
        Ok(params)
    }

    fn call_statement(&mut self) -> Parse<StmtKind> {
        self.next();
        let params = if self.is_op(Op::LParen) {
            self.parameters()?
        } else {
            Vec::new()
        };
        let call = self.expression(Inline::If)?;
        let is_call = match &call {
            Expr::Postfix(_, chain) => {
                matches!(
                    chain.last().map(|last| &last.kind),
                    Some(PostfixKind::Call(_))
                )
            }
            _ => false,
        };
        if !is_call {
            return self.unexpected("a call");
        }
        let caller = self.macro_body("caller", params, "endcall")?;
        Ok(StmtKind::Call { caller, call })
    }

    /// What is assigned to: a name, several with commas, or a namespace's attribute.
    fn target(&mut self, end: TupleEnd, with_namespace: bool) -> Parse<Target> {
        let mut items = Vec::new();
        let mut is_tuple = false;
        while !self.is_tuple_end(end) {
            items.push(self.target_item(with_namespace)?);
            if !self.skip_op(Op::Comma) {
                break;
            }
            is_tuple = true;
        }
        if is_tuple {
            return Ok(Target::Tuple(items));
        }
        match items.pop() {
            Some(item) => Ok(item),
            None => self.unexpected("a name"),
        }
    }

    fn target_item(&mut self, with_namespace: bool) -> Parse<Target> {
        let is_attribute = with_namespace
            && matches!(self.peek(), TokenKind::Name(_))
            && *self.peek_second() == TokenKind::Op(Op::Dot);
        if is_attribute {
            let name = self.identifier()?;
            self.next();
            let attribute = self.identifier()?;
            return Ok(Target::Attribute(self.symbol(&name), attribute.into()));
        }
        let node = self.deeper(Parser::primary)?;
        match as_target(node) {
            // The loop variable is the loop's.
            Some(target) if self.in_loop > 0 && mentions_loop(&target) => {
                self.fail(SyntaxFault::Target)
            }
            Some(target) => Ok(target),
            None => self.fail(SyntaxFault::Target),
        }
    }
}

fn mentions_loop(target: &Target) -> bool {
    match target {
        Target::Name(symbol) => *symbol == LOOP,
        Target::Attribute(..) => false,
        Target::Tuple(targets) => targets.iter().any(mentions_loop),
    }
}

fn as_target(node: Expr) -> Option<Target> {
    match node {
        Expr::Name(symbol) => Some(Target::Name(symbol)),
        Expr::Tuple(items) => {
            let items: Option<Vec<Target>> = items.into_iter().map(as_target).collect();
            items.map(Target::Tuple)
        }
        _ => None,
    }
}
