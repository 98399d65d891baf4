//! The language of derivative formulas: text to tree.

/// A part of a formula.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Expr {
    /// `grad`, `self`
    Name(String),
    /// `self.sizes`
    Field(String, String),
    /// `f(a, b)`
    Call(String, Vec<Expr>),
    /// `a * b`
    Infix(char, Box<Expr>, Box<Expr>),
    /// `-a`
    Negation(Box<Expr>),
    Int(i64),
    Float(f64),
    Bool(bool),
    None,
    Text(String),
    List(Vec<Expr>),
}

impl Expr {
    /// All parts, the expression itself among them.
    pub(crate) fn parts(&self) -> Vec<&Expr> {
        let mut all = vec![self];
        let mut at = 0;
        while let Some(part) = all.get(at).copied() {
            at += 1;
            match part {
                Expr::Call(_, inner) | Expr::List(inner) => all.extend(inner),
                Expr::Infix(_, a, b) => all.extend([&**a, &**b]),
                Expr::Negation(a) => all.push(a),
                _ => {}
            }
        }
        all
    }
}

/// Reads a formula.
pub(crate) fn parse(text: &str) -> Result<Expr, String> {
    let mut reader = Reader { tokens: tokens(text)?, at: 0 };
    let formula = reader.sum()?;
    match reader.next() {
        None => Ok(formula),
        Some(token) => Err(format!("`{}` is too much", token.shown())),
    }
}

#[derive(Clone, PartialEq, Debug)]
enum Token {
    Word(String),
    Int(i64),
    Float(f64),
    Text(String),
    Sign(char),
}

impl Token {
    fn shown(&self) -> String {
        match self {
            Token::Word(w) => w.clone(),
            Token::Int(n) => n.to_string(),
            Token::Float(x) => x.to_string(),
            Token::Text(t) => format!("'{t}'"),
            Token::Sign(c) => c.to_string(),
        }
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = match first {
            '\'' => rest[1..].find('\'').ok_or("a string without its end")? + 2,
            c if c.is_ascii_digit() => {
                let number = |c: char| c.is_ascii_alphanumeric() || c == '.';
                rest.find(|c| !number(c)).unwrap_or(rest.len())
            }
            c if word(c) => rest.find(|c| !word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        out.push(match first {
            '\'' => Token::Text(token.trim_matches('\'').to_string()),
            c if c.is_ascii_digit() => match token.parse() {
                Ok(n) => Token::Int(n),
                Err(_) => {
                    Token::Float(token.parse().map_err(|_| format!("`{token}` is no number"))?)
                }
            },
            c if word(c) => Token::Word(token.to_string()),
            c if "+-*/(),[].".contains(c) => Token::Sign(c),
            c => return Err(format!("`{c}` does not belong in a formula")),
        });
        rest = after.trim_start();
    }
    Ok(out)
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
}

impl Reader {
    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += usize::from(token.is_some());
        token
    }

    /// Goes on if the next token is this sign.
    fn is(&mut self, sign: char) -> bool {
        let is = self.tokens.get(self.at) == Some(&Token::Sign(sign));
        self.at += usize::from(is);
        is
    }

    fn sum(&mut self) -> Result<Expr, String> {
        let mut left = self.product()?;
        loop {
            let sign = match () {
                () if self.is('+') => '+',
                () if self.is('-') => '-',
                () => return Ok(left),
            };
            left = Expr::Infix(sign, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Expr, String> {
        let mut left = self.factor()?;
        loop {
            let sign = match () {
                () if self.is('*') => '*',
                () if self.is('/') => '/',
                () => return Ok(left),
            };
            left = Expr::Infix(sign, Box::new(left), Box::new(self.factor()?));
        }
    }

    fn factor(&mut self) -> Result<Expr, String> {
        if self.is('-') {
            return Ok(match self.factor()? {
                Expr::Int(n) => Expr::Int(-n),
                Expr::Float(x) => Expr::Float(-x),
                of => Expr::Negation(Box::new(of)),
            });
        }
        if self.is('(') {
            let inner = self.sum()?;
            return match self.is(')') {
                true => Ok(inner),
                false => Err("a `(` without its `)`".into()),
            };
        }
        if self.is('[') {
            return Ok(Expr::List(self.items(']')?));
        }
        let word = match self.next() {
            Some(Token::Int(n)) => return Ok(Expr::Int(n)),
            Some(Token::Float(x)) => return Ok(Expr::Float(x)),
            Some(Token::Text(text)) => return Ok(Expr::Text(text)),
            Some(Token::Word(word)) => word,
            Some(Token::Sign(sign)) => return Err(format!("`{sign}` where a value is missing")),
            None => return Err("the formula ends too early".into()),
        };
        if self.is('(') {
            return Ok(Expr::Call(word, self.items(')')?));
        }
        if self.is('.') {
            return match self.next() {
                Some(Token::Word(field)) => Ok(Expr::Field(word, field)),
                _ => Err(format!("`{word}.` without a field")),
            };
        }
        Ok(match word.as_str() {
            "true" => Expr::Bool(true),
            "false" => Expr::Bool(false),
            "none" => Expr::None,
            _ => Expr::Name(word),
        })
    }

    /// What is separated by commas, up to this sign.
    fn items(&mut self, end: char) -> Result<Vec<Expr>, String> {
        let mut items = Vec::new();
        while !self.is(end) {
            items.push(self.sum()?);
            if !self.is(',') {
                match self.is(end) {
                    true => break,
                    false => return Err(format!("a `,` or `{end}` is missing")),
                }
            }
        }
        Ok(items)
    }
}
