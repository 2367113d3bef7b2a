//! Expressions.
use super::{Parse, Parser};
use crate::jinja::ast::{
    Args, ArithOp, CALLER, CompareOp, Cond, Expr, KWARGS, LOOP, Postfix, PostfixKind, VARARGS,
};
use crate::jinja::error::SyntaxFault;
use crate::jinja::lexer::{Op, TokenKind};
use crate::jinja::value::Value;
use crate::jinja::{filters, predicates};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What may follow a tuple without parentheses, besides the end of its tag.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum TupleEnd {
    Tag,
    Name(&'static str),
}

/// Whether `a if b else c` may stand here without parentheses.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Inline {
    If,
    No,
}

/// How many times `if` may follow `if` without an `else` between.
const MAX_CHAINED: u32 = 8;

/// Binding strengths, weakest first.
mod strength {
    pub(super) const OR: u8 = 1;
    pub(super) const AND: u8 = 2;
    pub(super) const NOT: u8 = 3;
    pub(super) const COMPARE: u8 = 4;
    pub(super) const ADD: u8 = 5;
    pub(super) const CONCAT: u8 = 6;
    pub(super) const MUL: u8 = 7;
    pub(super) const POW: u8 = 8;
}

enum Binary {
    Or,
    And,
    Compare(CompareOp),
    Arith(ArithOp),
    Concat,
}

impl Parser {
    pub(super) fn expression(&mut self, inline: Inline) -> Parse<Expr> {
        self.deeper(|parser| match inline {
            Inline::If => parser.conditional(),
            Inline::No => parser.binary(strength::OR),
        })
    }

    fn conditional(&mut self) -> Parse<Expr> {
        let mut line = self.line();
        let pending = self.pending.take();
        let mut then = self.binary(strength::OR)?;
        // What a condition guards may name filters that do not exist.
        if pending.is_some() || self.is_name("if") {
            self.pending = pending;
        }
        let mut chained = 0;
        while self.skip_name("if") {
            // `a if b if c` nests to the left, unlike everything else.
            chained += 1;
            if chained > MAX_CHAINED {
                return Err(self.too_deep());
            }
            let outer = core::mem::replace(&mut self.conditional, true);
            let test = self.binary(strength::OR)?;
            let otherwise = if self.skip_name("else") {
                Some(self.expression(Inline::If)?)
            } else {
                None
            };
            self.conditional = outer;
            then = Expr::Cond(Box::new(Cond {
                line,
                test,
                then,
                otherwise,
            }));
            line = self.line();
        }
        Ok(then)
    }

    /// The binary operator at the current token, with its strength and its length in tokens.
    fn peek_binary(&self) -> Option<(Binary, u8, usize)> {
        use strength::{ADD, AND, COMPARE, CONCAT, MUL, OR, POW};
        let compare = |op| Some((Binary::Compare(op), COMPARE, 1));
        let arith = |op, strength| Some((Binary::Arith(op), strength, 1));
        match self.peek() {
            TokenKind::Op(op) => match op {
                Op::Eq => compare(CompareOp::Eq),
                Op::Ne => compare(CompareOp::Ne),
                Op::Lt => compare(CompareOp::Lt),
                Op::Le => compare(CompareOp::Le),
                Op::Gt => compare(CompareOp::Gt),
                Op::Ge => compare(CompareOp::Ge),
                Op::Add => arith(ArithOp::Add, ADD),
                Op::Sub => arith(ArithOp::Sub, ADD),
                Op::Tilde => Some((Binary::Concat, CONCAT, 1)),
                Op::Mul => arith(ArithOp::Mul, MUL),
                Op::Div => arith(ArithOp::Div, MUL),
                Op::FloorDiv => arith(ArithOp::FloorDiv, MUL),
                Op::Mod => arith(ArithOp::Mod, MUL),
                Op::Pow => arith(ArithOp::Pow, POW),
                _ => None,
            },
            TokenKind::Name(name) => match name.as_str() {
                "or" => Some((Binary::Or, OR, 1)),
                "and" => Some((Binary::And, AND, 1)),
                "in" => compare(CompareOp::In),
                "not" if matches!(self.peek_second(), TokenKind::Name(name) if name == "in") => {
                    Some((Binary::Compare(CompareOp::NotIn), COMPARE, 2))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Operators at least as strong as `weakest`. A chain of operators that associate to the left is one flat node:
    /// applying them in order is the same as nesting.
    fn binary(&mut self, weakest: u8) -> Parse<Expr> {
        let mut left = if weakest <= strength::NOT && self.is_name("not") {
            self.next();
            let operand = self.deeper(|parser| parser.binary(strength::NOT))?;
            Expr::Not(Box::new(operand))
        } else {
            self.unary(true)?
        };
        let mut comparing = false;
        while let Some((op, strength, tokens)) = self.peek_binary() {
            if strength < weakest {
                break;
            }
            self.at += tokens;
            let right = self.deeper(|parser| parser.binary(strength + 1))?;
            comparing = matches!(op, Binary::Compare(_)) && comparing;
            left = match (op, left) {
                (Binary::Or, Expr::Or(mut items)) => {
                    items.push(right);
                    Expr::Or(items)
                }
                (Binary::Or, left) => Expr::Or(alloc::vec![left, right]),
                (Binary::And, Expr::And(mut items)) => {
                    items.push(right);
                    Expr::And(items)
                }
                (Binary::And, left) => Expr::And(alloc::vec![left, right]),
                (Binary::Concat, Expr::Concat(mut items)) => {
                    items.push(right);
                    Expr::Concat(items)
                }
                (Binary::Concat, left) => Expr::Concat(alloc::vec![left, right]),
                (Binary::Arith(op), Expr::Arith(first, mut rest)) => {
                    rest.push((op, right));
                    Expr::Arith(first, rest)
                }
                (Binary::Arith(op), left) => Expr::Arith(Box::new(left), alloc::vec![(op, right)]),
                (Binary::Compare(op), Expr::Compare(first, mut rest)) if comparing => {
                    rest.push((op, right));
                    Expr::Compare(first, rest)
                }
                (Binary::Compare(op), left) => {
                    comparing = true;
                    Expr::Compare(Box::new(left), alloc::vec![(op, right)])
                }
            };
        }
        Ok(left)
    }

    fn unary(&mut self, with_filter: bool) -> Parse<Expr> {
        let node = if self.skip_op(Op::Sub) {
            Expr::Neg(Box::new(self.deeper(|parser| parser.unary(false))?))
        } else if self.skip_op(Op::Add) {
            Expr::Pos(Box::new(self.deeper(|parser| parser.unary(false))?))
        } else {
            self.primary()?
        };
        let mut chain = Vec::new();
        self.postfix(&mut chain)?;
        if with_filter {
            self.filters_and_tests(&mut chain)?;
        }
        Ok(if chain.is_empty() {
            node
        } else {
            Expr::Postfix(Box::new(node), chain)
        })
    }

    /// A name or a literal.
    pub(super) fn primary(&mut self) -> Parse<Expr> {
        match self.peek() {
            TokenKind::Name(_) => {
                let name = self.identifier()?;
                Ok(match name.as_str() {
                    "true" | "True" => Expr::Const(Value::Bool(true)),
                    "false" | "False" => Expr::Const(Value::Bool(false)),
                    "none" | "None" => Expr::Const(Value::None),
                    _ => self.variable(&name),
                })
            }
            TokenKind::Str(_) => {
                let mut text = String::new();
                while let TokenKind::Str(_) = self.peek() {
                    if let TokenKind::Str(part) = self.next() {
                        text.push_str(&part);
                    }
                }
                Ok(Expr::Const(text.into()))
            }
            &TokenKind::Int(number) => {
                self.next();
                Ok(Expr::Const(Value::Int(number)))
            }
            &TokenKind::Float(number) => {
                self.next();
                Ok(Expr::Const(Value::Float(number)))
            }
            TokenKind::Op(Op::LParen) => {
                self.next();
                let node = self.tuple(Inline::If, TupleEnd::Tag, true)?;
                self.expect_op(Op::RParen, "')'")?;
                Ok(node)
            }
            TokenKind::Op(Op::LBracket) => self.list(),
            TokenKind::Op(Op::LBrace) => self.dict(),
            _ => self.unexpected("an expression"),
        }
    }

    fn variable(&mut self, name: &str) -> Expr {
        let symbol = self.symbol(name);
        self.loop_mentions += usize::from(symbol == LOOP);
        for uses in &mut self.uses {
            uses.caller |= symbol == CALLER;
            uses.kwargs |= symbol == KWARGS;
            uses.varargs |= symbol == VARARGS;
        }
        Expr::Name(symbol)
    }

    pub(super) fn is_tuple_end(&self, end: TupleEnd) -> bool {
        let at_end = matches!(
            self.peek(),
            TokenKind::VariableEnd | TokenKind::BlockEnd | TokenKind::Op(Op::RParen)
        );
        at_end || matches!(end, TupleEnd::Name(name) if self.is_name(name))
    }

    /// One expression, or several with commas as a tuple.
    pub(super) fn tuple(
        &mut self,
        inline: Inline,
        end: TupleEnd,
        parenthesized: bool,
    ) -> Parse<Expr> {
        let mut items = Vec::new();
        let mut is_tuple = false;
        while !self.is_tuple_end(end) {
            items.push(self.expression(inline)?);
            if !self.skip_op(Op::Comma) {
                break;
            }
            is_tuple = true;
        }
        if is_tuple {
            return Ok(Expr::Tuple(items));
        }
        match items.pop() {
            Some(item) => Ok(item),
            None if parenthesized => Ok(Expr::Tuple(items)),
            None => self.unexpected("an expression"),
        }
    }

    fn list(&mut self) -> Parse<Expr> {
        self.next();
        let mut items = Vec::new();
        while !self.is_op(Op::RBracket) {
            items.push(self.expression(Inline::If)?);
            if !self.skip_op(Op::Comma) {
                break;
            }
        }
        self.expect_op(Op::RBracket, "']'")?;
        Ok(Expr::List(items))
    }

    fn dict(&mut self) -> Parse<Expr> {
        self.next();
        let mut pairs = Vec::new();
        while !self.is_op(Op::RBrace) {
            let key = self.expression(Inline::If)?;
            self.expect_op(Op::Colon, "':'")?;
            pairs.push((key, self.expression(Inline::If)?));
            if !self.skip_op(Op::Comma) {
                break;
            }
        }
        self.expect_op(Op::RBrace, "'}'")?;
        Ok(Expr::Dict(pairs))
    }

    /// Attributes, subscripts and calls.
    fn postfix(&mut self, chain: &mut Vec<Postfix>) -> Parse<()> {
        loop {
            let line = self.line();
            let kind = match self.peek() {
                TokenKind::Op(Op::Dot) => {
                    self.next();
                    match self.peek() {
                        TokenKind::Name(_) => PostfixKind::Attr(self.identifier()?.into()),
                        &TokenKind::Int(index) => {
                            self.next();
                            PostfixKind::Item(Expr::Const(Value::Int(index)))
                        }
                        _ => return self.unexpected("a name or a number"),
                    }
                }
                TokenKind::Op(Op::LBracket) => self.subscript()?,
                TokenKind::Op(Op::LParen) => PostfixKind::Call(Box::new(self.arguments()?)),
                _ => return Ok(()),
            };
            chain.push(Postfix { line, kind });
        }
    }

    fn subscript(&mut self) -> Parse<PostfixKind> {
        self.next();
        let mut items = Vec::new();
        let mut slice = None;
        while !self.is_op(Op::RBracket) {
            if !items.is_empty() || slice.is_some() {
                self.expect_op(Op::Comma, "','")?;
            }
            let first = if self.is_op(Op::Colon) {
                None
            } else {
                Some(self.expression(Inline::If)?)
            };
            match (self.skip_op(Op::Colon), first) {
                (false, Some(item)) => items.push(item),
                (_, first) => slice = Some(self.slice(first)?),
            }
        }
        self.expect_op(Op::RBracket, "']'")?;
        match (slice, items.len()) {
            (Some(slice), 0) => Ok(PostfixKind::Slice(Box::new(slice))),
            (Some(_), _) => self.unexpected("a single slice"),
            (None, 1) => Ok(PostfixKind::Item(items.remove(0))),
            (None, _) => Ok(PostfixKind::Item(Expr::Tuple(items))),
        }
    }

    /// The rest of `first:stop:step`, after its first colon.
    fn slice(&mut self, first: Option<Expr>) -> Parse<[Option<Expr>; 3]> {
        let ends = |parser: &Self| parser.is_op(Op::RBracket) || parser.is_op(Op::Comma);
        let mut stop = None;
        let mut step = None;
        if !self.is_op(Op::Colon) && !ends(self) {
            stop = Some(self.expression(Inline::If)?);
        }
        if self.skip_op(Op::Colon) && !ends(self) {
            step = Some(self.expression(Inline::If)?);
        }
        Ok([first, stop, step])
    }

    pub(super) fn arguments(&mut self) -> Parse<Args> {
        self.expect_op(Op::LParen, "'('")?;
        let mut args = Args::default();
        while !self.is_op(Op::RParen) {
            let is_named = matches!(self.peek(), TokenKind::Name(_))
                && *self.peek_second() == TokenKind::Op(Op::Assign);
            if self.skip_op(Op::Mul) {
                if args.star.is_some() || args.star_star.is_some() {
                    return self.fail(SyntaxFault::Arguments);
                }
                args.star = Some(self.expression(Inline::If)?);
            } else if self.skip_op(Op::Pow) {
                if args.star_star.is_some() {
                    return self.fail(SyntaxFault::Arguments);
                }
                args.star_star = Some(self.expression(Inline::If)?);
            } else if is_named {
                if args.star_star.is_some() {
                    return self.fail(SyntaxFault::Arguments);
                }
                let name = self.identifier()?;
                self.next();
                args.named.push((name.into(), self.expression(Inline::If)?));
            } else {
                if args.star.is_some() || args.star_star.is_some() || !args.named.is_empty() {
                    return self.fail(SyntaxFault::Arguments);
                }
                args.positional.push(self.expression(Inline::If)?);
            }
            if !self.skip_op(Op::Comma) {
                break;
            }
        }
        self.expect_op(Op::RParen, "')'")?;
        Ok(args)
    }

    fn filters_and_tests(&mut self, chain: &mut Vec<Postfix>) -> Parse<()> {
        loop {
            let line = self.line();
            let kind = if self.skip_op(Op::Pipe) {
                self.filter()?
            } else if self.is_name("is") {
                self.next();
                self.test()?
            } else if self.is_op(Op::LParen) {
                PostfixKind::Call(Box::new(self.arguments()?))
            } else {
                return Ok(());
            };
            chain.push(Postfix { line, kind });
        }
    }

    /// `name.name…` of a filter or test.
    fn dotted_name(&mut self) -> Parse<Arc<str>> {
        let mut name = self.identifier()?;
        while self.skip_op(Op::Dot) {
            name.push('.');
            name.push_str(&self.identifier()?);
        }
        Ok(name.into())
    }

    /// A filter after its `|`.
    pub(super) fn filter(&mut self) -> Parse<PostfixKind> {
        let name = self.dotted_name()?;
        if !self.conditional && !filters::exists(&name) {
            self.put_off(SyntaxFault::Filter(String::from(&*name)));
        }
        let args = if self.is_op(Op::LParen) {
            self.arguments()?
        } else {
            Args::default()
        };
        Ok(PostfixKind::Filter(name, Box::new(args)))
    }

    /// A test after its `is`.
    fn test(&mut self) -> Parse<PostfixKind> {
        let negated = self.skip_name("not");
        let name = self.dotted_name()?;
        if !self.conditional && !predicates::exists(&name) {
            self.put_off(SyntaxFault::Test(String::from(&*name)));
        }
        let mut args = Args::default();
        match self.peek() {
            TokenKind::Op(Op::LParen) => args = self.arguments()?,
            TokenKind::Name(name) => match name.as_str() {
                "else" | "or" | "and" => {}
                "is" => return self.unexpected("something else than a second test"),
                _ => args.positional.push(self.test_argument()?),
            },
            TokenKind::Str(_)
            | TokenKind::Int(_)
            | TokenKind::Float(_)
            | TokenKind::Op(Op::LBracket | Op::LBrace) => {
                args.positional.push(self.test_argument()?);
            }
            _ => {}
        }
        let args = Box::new(args);
        Ok(PostfixKind::Test {
            name,
            args,
            negated,
        })
    }

    fn test_argument(&mut self) -> Parse<Expr> {
        let node = self.primary()?;
        let mut chain = Vec::new();
        self.postfix(&mut chain)?;
        Ok(if chain.is_empty() {
            node
        } else {
            Expr::Postfix(Box::new(node), chain)
        })
    }
}
