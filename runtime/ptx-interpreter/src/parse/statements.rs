use super::ast::{Instruction, Linkage, Operand, Span, Statement};
use super::lexer::{Kind, Token};
use super::{ParseError, Parser};

impl<'a> Parser<'a> {
    /// The body of a function, with its braces.
    pub(super) fn body(&mut self) -> Result<Vec<Statement<'a>>, ParseError> {
        self.expect("{")?;
        let mut body = Vec::new();
        let mut open = 0;
        loop {
            let token = self.peek();
            if token.kind == Kind::End {
                return self.fail("`}`");
            }
            match token.text {
                "{" => {
                    self.at += 1;
                    open += 1;
                    body.push(Statement::Open);
                }
                "}" => {
                    self.at += 1;
                    if open == 0 {
                        return Ok(body);
                    }
                    open -= 1;
                    body.push(Statement::Close);
                }
                ";" => self.at += 1,
                ".loc" | ".file" => self.skip_line(),
                ".pragma" => {
                    self.at += 1;
                    self.next();
                    self.expect(";")?;
                }
                ".reg" => body.push(self.registers()?),
                ".global" | ".const" | ".shared" | ".local" | ".param" => {
                    self.variables(Linkage::Internal, |variable| {
                        body.push(Statement::Variable(variable));
                    })?;
                }
                ".extern" => {
                    self.at += 1;
                    self.variables(Linkage::Extern, |variable| {
                        body.push(Statement::Variable(variable));
                    })?;
                }
                _ if token.kind == Kind::Word && self.label_follows() => self.label(&mut body)?,
                _ => body.push(self.instruction()?),
            }
        }
    }

    fn label_follows(&self) -> bool {
        let next = self.tokens.get(self.at + 1);
        next.is_some_and(|next| next.text == ":" && next.kind == Kind::Mark)
    }

    fn label(&mut self, body: &mut Vec<Statement<'a>>) -> Result<(), ParseError> {
        let name = self.name()?;
        self.expect(":")?;
        if self.take(".branchtargets") {
            let mut targets = vec![self.name()?];
            while self.take(",") {
                targets.push(self.name()?);
            }
            self.expect(";")?;
            body.push(Statement::Targets(name, targets));
        } else if self.take(".callprototype") {
            while !self.take(";") {
                if self.next().kind == Kind::End {
                    return self.fail("`;`");
                }
            }
            body.push(Statement::Prototype(name));
        } else {
            body.push(Statement::Label(name));
        }
        Ok(())
    }

    fn registers(&mut self) -> Result<Statement<'a>, ParseError> {
        self.expect(".reg")?;
        let kind = self.word("a type")?;
        let mut names = Vec::new();
        loop {
            let name = self.name()?;
            let mut count = None;
            if self.take("<") {
                let at = self.at;
                let registers = self.count32()?;
                if registers > 1 << 20 {
                    self.at = at;
                    return self.fail("fewer registers");
                }
                count = Some(registers);
                self.expect(">")?;
            }
            names.push((name, count));
            if !self.take(",") {
                break;
            }
        }
        self.expect(";")?;
        Ok(Statement::Registers(names, kind))
    }

    fn instruction(&mut self) -> Result<Statement<'a>, ParseError> {
        let first = self.peek();
        let mut guard = None;
        if self.take("@") {
            let negated = self.take("!");
            guard = Some((self.name()?, negated));
        }
        let mnemonic = match self.peek() {
            Token { kind: Kind::Word, text, .. }
                if text.starts_with(|first: char| first.is_ascii_lowercase()) =>
            {
                self.at += 1;
                text
            }
            _ => return self.fail("an instruction"),
        };
        let mut operands = Vec::new();
        while !self.is(";") {
            operands.push(self.operand()?);
            if !self.take(",") {
                break;
            }
        }
        let end = self.expect(";")?;
        let span = Span { line: first.line, start: first.start, end: end.start };
        Ok(Statement::Instruction(Instruction { guard, mnemonic, operands }, span))
    }

    fn operands_until(&mut self, end: &str) -> Result<Vec<Operand<'a>>, ParseError> {
        self.depth += 1;
        if self.depth > 16 {
            return self.fail("a flatter operand");
        }
        let mut operands = Vec::new();
        while !self.is(end) {
            operands.push(self.operand()?);
            if !self.take(",") {
                break;
            }
        }
        self.depth -= 1;
        self.expect(end)?;
        Ok(operands)
    }

    fn operand(&mut self) -> Result<Operand<'a>, ParseError> {
        let token = self.peek();
        match (token.kind, token.text) {
            (Kind::Mark, "{") => {
                self.at += 1;
                self.operands_until("}").map(Operand::Vector)
            }
            (Kind::Mark, "(") => {
                self.at += 1;
                self.operands_until(")").map(Operand::List)
            }
            (Kind::Mark, "[") => {
                self.at += 1;
                let operand = if self.peek().kind == Kind::Word {
                    let name = self.name()?;
                    Operand::Address(Some(name), self.offset()?)
                } else {
                    let at = self.at;
                    match self.number()? {
                        super::Number::Integer(address) => Operand::Address(None, address as i64),
                        _ => {
                            self.at = at;
                            return self.fail("an address");
                        }
                    }
                };
                self.expect("]")?;
                Ok(operand)
            }
            (Kind::Mark, "!") => {
                self.at += 1;
                self.name().map(Operand::Not)
            }
            (Kind::Mark, "-") | (Kind::Number, _) => self.number().map(Operand::Number),
            (Kind::Word, _) => {
                let name = self.name()?;
                if self.take("|") {
                    return Ok(Operand::Pair(name, self.name()?));
                }
                Ok(Operand::Name(name, self.offset()?))
            }
            _ => self.fail("an operand"),
        }
    }
}
