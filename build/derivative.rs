//! What is written for an operator with derivative formulas: a function that computes the gradients
//! of its arguments, and the `Rule` that says what it needs.

use crate::formula::{Expr, parse};
use crate::op::function_name;
use crate::saved::{Type, getter};
use std::fmt::Write as _;
use straightline_catalog::entry::{Derivative, ENTRIES, Entry, Formula};
use straightline_catalog::rules::Results;
use straightline_catalog::schema::{FunctionSchema, SchemaType};

/// Arguments that have no gradient whatever the formulas say: positions, conditions, and results of
/// the forward pass that a backward operator is given.
const WITHOUT_GRADIENT: &[&str] =
    &["index", "indices", "mask", "condition", "output", "offsets", "lengths"];

/// The file of all operators with formulas.
pub(crate) fn file() -> Result<String, String> {
    let (mut functions, mut rows) = (String::new(), String::new());
    for entry in ENTRIES {
        let Some(derivative) = entry.derivative else { continue };
        if derivative.not_differentiable {
            continue;
        }
        let of = match derivative.shared_with {
            Some(of) => of.schema(),
            None => {
                functions += &code(entry, derivative)?;
                entry.op.schema()
            }
        };
        // writing to a String cannot fail
        let rule = function_name(of).to_uppercase();
        let own = function_name(entry.op.schema());
        let _ = writeln!(
            functions,
            "fn record_{own}(r: Recorder) -> Result<Kernel> {{ aten::OP_{}.around(r) }}",
            own.to_uppercase()
        );
        let _ = writeln!(rows, "    (Op::{}, &{rule}, record_{own}),", derivative.variant);
    }
    Ok(format!(
        "{functions}\
         /// The operators that record: their rules, and what makes a kernel of one.\n\
         pub(super) static RECORDED: &[(Op, &Rule, fn(Recorder) -> Result<Kernel>)] =\n\
         \x20   &[\n{rows}];\n"
    ))
}

/// What is written for one operator.
pub(crate) fn code(entry: &Entry, derivative: &Derivative) -> Result<String, String> {
    Writer::new(entry, derivative).written()
}

/// A value that a node saves, and the formulas that read it.
struct Save {
    what: String,
    /// The expression that reads it.
    read: String,
    users: u64,
}

/// The terms of a sum, with their signs.
fn sum_of<'e>(e: &'e Expr, sign: char, terms: &mut Vec<(char, &'e Expr)>) {
    let other = if sign == '+' { '-' } else { '+' };
    match e {
        Expr::Infix('+', a, b) => {
            sum_of(a, sign, terms);
            sum_of(b, sign, terms);
        }
        Expr::Infix('-', a, b) => {
            sum_of(a, sign, terms);
            sum_of(b, other, terms);
        }
        Expr::Negation(a) => sum_of(a, other, terms),
        e => terms.push((sign, e)),
    }
}

struct Writer<'a> {
    entry: &'a Entry,
    derivative: &'a Derivative,
    schema: &'static FunctionSchema,
    /// The positions of the arguments with formulas.
    inputs: Vec<usize>,
    saves: Vec<Save>,
    uses_grad: bool,
    uses_grads: bool,
    /// What is written is a forward formula: the arguments whose tangents its term mentions.
    pushes: Option<Vec<usize>>,
}

impl<'a> Writer<'a> {
    fn new(entry: &'a Entry, derivative: &'a Derivative) -> Writer<'a> {
        let schema = entry.op.schema();
        let has = |name: &str| {
            let formulas = derivative.formulas.iter();
            { formulas }.any(|f| f.inputs.contains(&name) && f.text != "not_differentiable")
        };
        let inputs = (schema.args.iter().enumerate())
            .filter(|(_, a)| match derivative.not_implemented {
                true => a.ty.is_dispatch_relevant(),
                false => has(&a.name),
            })
            .map(|(i, _)| i);
        let inputs = inputs.collect();
        let saves = Vec::new();
        Writer {
            entry,
            derivative,
            schema,
            inputs,
            saves,
            uses_grad: false,
            uses_grads: false,
            pushes: None,
        }
    }

    /// An error of the formula in a line.
    fn at(&self, line: u32, e: &str) -> String {
        format!("{}:{line}: in `{}`: {e}", self.derivative.file, self.entry.op)
    }

    fn function(&self) -> String {
        function_name(self.schema)
    }

    /// The function and the rule.
    fn written(mut self) -> Result<String, String> {
        let name = self.function();
        let Derivative { file, line, .. } = self.derivative;
        let mut body = String::new();
        if self.derivative.not_implemented {
            let text = format!("derivative for {} is not implemented", self.schema.name.name);
            let _ = writeln!(body, "    Err(Error::not_implemented({text:?}.to_string()))");
        } else {
            for formula in self.derivative.formulas {
                let step = self.formula(formula).map_err(|e| self.at(formula.line, &e))?;
                body += &step;
            }
            body += "    Ok(())\n";
        }
        let outputs = self.outputs().map_err(|e| self.at(*line, &e))?;
        let head = match (self.uses_grad, self.uses_grads) {
            (true, true) => {
                return Err(self.at(*line, "`grad` and `grads` do not go together"));
            }
            (true, false) => "    let Some(grad) = b.grad() else { return Ok(()) };\n",
            (false, true) => {
                "    let grads = b.grads();\n    if grads.iter().all(Option::is_none) {\n        return Ok(());\n    }\n"
            }
            (false, false) => "",
        };
        let (pushed, forward) =
            self.forward().map_err(|e| self.at(self.derivative.forward_line, &e))?;
        let saves: Vec<String> = (self.saves.iter())
            .map(|s| format!("Save {{ what: What::{}, users: {:#b} }}", s.what, s.users))
            .collect();
        let rule = name.to_uppercase();
        let (b, out) = match self.derivative.not_implemented {
            true => ("_b", "_out"),
            false => ("b", "out"),
        };
        Ok(format!(
            "// {file}:{line}\n\
             fn of_{name}({b}: &Backward<'_>, {out}: &mut Grads) -> Result<()> {{\n{head}{body}}}\n\
             {pushed}static {rule}: Rule = Rule {{\n\
             \x20   node: {:?},\n    inputs: &{:?},\n    refused: &{:?},\n    outputs: &{outputs:?},\n\
             \x20   saves: &[{}],\n    backward: of_{name},\n    forward: Forward::{forward},\n}};\n\n",
            self.node(),
            self.inputs,
            self.refused(),
            saves.join(", "),
        ))
    }

    /// The function of the forward formula, if there is one, and the variant of `Forward`.
    fn forward(&mut self) -> Result<(String, String), String> {
        let texts = self.derivative.forward;
        let word = match texts {
            [] => "ByGradient",
            ["auto_linear"] => "Linear",
            ["auto_element_wise"] => "ElementWise",
            ["not_implemented"] => "Refused",
            _ => "",
        };
        if !word.is_empty() {
            return Ok((String::new(), word.to_string()));
        }
        let mut body = String::new();
        // nodes keep nothing for it
        let kept = std::mem::take(&mut self.saves);
        for (at, text) in texts.iter().enumerate() {
            let parsed = parse(text)?;
            let mut terms = Vec::new();
            sum_of(&parsed, '+', &mut terms);
            // several values that one call gives
            if let ([(_, Expr::Call(name, _))], true) = (&terms[..], texts.len() == 1)
                && name.ends_with("_jvps")
            {
                self.pushes = Some(Vec::new());
                let value = self.value(&parsed, 0)?;
                let _ = writeln!(body, "    out.give(0, {value});");
                continue;
            }
            body += "    let mut sum = Sum::default();\n";
            for (sign, term) in terms {
                self.pushes = Some(Vec::new());
                let value = match term {
                    Expr::Call(..) | Expr::Infix(..) | Expr::Negation(_) | Expr::Name(_) => {
                        self.value(term, 0)?
                    }
                    _ => return Err("a term is a call, a product or a tensor".into()),
                };
                let pushes = self.pushes.take().unwrap_or_default();
                if pushes.is_empty() {
                    return Err("a term without a tangent".into());
                }
                let step = if sign == '+' { "add" } else { "sub" };
                let _ = writeln!(
                    body,
                    "    if p.pushes(&{pushes:?}) {{\n        sum.{step}({value})?;\n    }}"
                );
            }
            let _ = writeln!(body, "    out.give({at}, sum.0);");
        }
        self.pushes = None;
        let reads = std::mem::replace(&mut self.saves, kept);
        let reads: Vec<String> = reads.iter().map(|s| format!("What::{}", s.what)).collect();
        let (name, line) = (self.function(), self.derivative.forward_line);
        let function = format!(
            "// {}:{line}\n\
             fn forward_of_{name}(p: &Push<'_>, out: &mut Grads) -> Result<()> {{\n    let b = &p.b;\n{body}    Ok(())\n}}\n",
            self.derivative.file
        );
        let reads = reads.join(", ");
        Ok((function, format!("Formula {{ reads: &[{reads}], push: forward_of_{name} }}")))
    }

    /// The node's name: the operator's own in camel case, in which digits end a word too, as PyTorch
    /// counts from 0.
    fn node(&self) -> String {
        if self.derivative.not_implemented {
            return "NotImplemented".to_string();
        }
        let mut base = String::new();
        let mut begins = true;
        for c in self.schema.name.base().chars() {
            if c != '_' {
                base.push(if begins { c.to_ascii_uppercase() } else { c });
            }
            begins = c == '_' || c.is_ascii_digit();
        }
        let suffix = self.derivative.node_suffix;
        let base = base.strip_suffix("Copy").filter(|_| !suffix.is_empty()).unwrap_or(&base);
        match self.derivative.node {
            Some(node) => format!("{node}{suffix}"),
            None => format!("{base}Backward0{suffix}"),
        }
    }

    /// Tensor arguments that must not require a gradient.
    fn refused(&self) -> Vec<(usize, &'static str)> {
        if self.derivative.not_implemented {
            return Vec::new();
        }
        let named = |name: &str| {
            let formulas = self.derivative.formulas.iter();
            { formulas }.any(|f| f.inputs.contains(&name))
        };
        (self.schema.args.iter().enumerate())
            .filter(|(_, a)| a.ty.is_dispatch_relevant() && !named(&a.name))
            .filter(|(_, a)| !WITHOUT_GRADIENT.contains(&a.name.as_str()))
            .map(|(i, a)| (i, a.name.as_str()))
            .collect()
    }

    /// Whether each result is differentiable.
    fn outputs(&self) -> Result<Vec<bool>, String> {
        let given = self.derivative.outputs;
        if !given.is_empty() {
            let several = given.iter().filter(|g| **g).count() > 1;
            return match several && self.uses_grad {
                true => Err("of several differentiable results there are `grads`".into()),
                false => Ok(given.to_vec()),
            };
        }
        let returns = &self.schema.returns;
        let lists = returns.iter().any(|r| r.ty != SchemaType::Tensor);
        if self.uses_grad && lists {
            return Err("the gradients of a list are `grads`".into());
        }
        let all = self.uses_grads || self.derivative.not_implemented;
        Ok((0..returns.len()).map(|i| i == 0 || all).collect())
    }

    /// The step of one formula.
    fn formula(&mut self, formula: &Formula) -> Result<String, String> {
        if formula.text == "not_differentiable" {
            return Ok(String::new());
        }
        let slot = |input: &&str| {
            let at = self.schema.arg_index(input);
            self.inputs.iter().position(|i| Some(*i) == at)
        };
        let slots: Option<Vec<usize>> = formula.inputs.iter().map(slot).collect();
        let slots = slots.ok_or("an argument that is none")?;
        let users = slots.iter().fold(0, |bits, slot| bits | 1 << slot);
        let wanted: Vec<String> = slots.iter().map(|s| format!("b.wants({s})")).collect();
        let mut step = format!("    if {} {{\n", wanted.join(" || "));
        let parsed = parse(formula.text)?;
        let refusal = match &parsed {
            Expr::Name(name) if name == "not_implemented" => {
                let what =
                    format!("{}: {}", self.entry.op.unqualified(), formula.inputs.join(", "));
                Some((what, String::new()))
            }
            Expr::Call(name, args) if name == "not_implemented" => match &args[..] {
                [Expr::Text(what)] => Some((what.clone(), String::new())),
                [Expr::Text(what), Expr::Text(why)] => Some((what.clone(), why.clone())),
                _ => return Err("`not_implemented` takes texts: what, and perhaps why".into()),
            },
            _ => None,
        };
        if let Some((what, why)) = refusal {
            let _ =
                writeln!(step, "        return Err(not_implemented({what:?}, {why:?}));\n    }}");
            return Ok(step);
        }
        let takes_mask = self.schema.arg_index("mask").is_none();
        if takes_mask && parsed.parts().contains(&&Expr::Name("mask".to_string())) {
            let _ = writeln!(step, "        let mask = &b.mask(&{slots:?});");
        }
        let value = match &parsed {
            Expr::None => "None::<Tensor>".to_string(),
            Expr::Name(name) if self.kind(name, users)?.1 == Type::Tensor => {
                format!("{}.clone()", self.kind(name, users)?.0)
            }
            Expr::Call(..) | Expr::Infix(..) | Expr::Negation(_) => self.value(&parsed, users)?,
            _ => return Err("a formula is a call, a sum, a product or a tensor".into()),
        };
        let _ = match &slots[..] {
            [slot] => writeln!(step, "        out.give({slot}, {value});\n    }}"),
            slots => writeln!(step, "        out.give_all(&{slots:?}, {value});\n    }}"),
        };
        Ok(step)
    }

    /// A part of a formula as a value of its own.
    fn value(&mut self, e: &Expr, users: u64) -> Result<String, String> {
        Ok(match e {
            Expr::Call(name, args) => {
                let args: Vec<String> =
                    args.iter().map(|a| self.argument(a, users)).collect::<Result<_, _>>()?;
                let name = match name.as_str() {
                    "where" => "where_",
                    name => name,
                };
                format!("{name}({})?", args.join(", "))
            }
            Expr::Infix(sign, a, b) => {
                if self.type_of(a, users)? == Type::Number
                    && self.type_of(b, users)? == Type::Number
                {
                    return Err("arithmetic of numbers belongs in a function".into());
                }
                let name = match sign {
                    '+' => "add",
                    '-' => "sub",
                    '*' => "mul",
                    _ => "div",
                };
                format!("{name}({}, {})?", self.operand(a, users)?, self.operand(b, users)?)
            }
            Expr::Negation(a) => match self.type_of(a, users)? {
                Type::Tensor => format!("neg({})?", self.operand(a, users)?),
                _ => return Err("only tensors are negated".into()),
            },
            Expr::Name(name) => {
                let (text, ty) = self.kind(name, users)?;
                match (ty, text.strip_prefix('&')) {
                    // a tangent is a value already
                    (Type::Tensor, Some(own)) => own.to_string(),
                    (Type::Tensor, None) => format!("{text}.clone()"),
                    (_, _) => text,
                }
            }
            e => self.argument(e, users)?,
        })
    }

    /// A part as an argument.
    fn argument(&mut self, e: &Expr, users: u64) -> Result<String, String> {
        Ok(match e {
            Expr::Name(name) => self.kind(name, users)?.0,
            Expr::Field(of, field) => self.field(of, field, users)?.0,
            Expr::Int(n) => format!("{n}i64"),
            Expr::Float(x) => format!("{x:?}f64"),
            Expr::Bool(b) => b.to_string(),
            Expr::None => "None".to_string(),
            Expr::Text(text) => format!("{text:?}"),
            Expr::List(items) => {
                let items = items.iter().map(|e| self.value(e, users));
                format!("&[{}]", items.collect::<Result<Vec<_>, _>>()?.join(", "))
            }
            e => format!("&{}", self.value(e, users)?),
        })
    }

    /// A part as an operand of an infix sign.
    fn operand(&mut self, e: &Expr, users: u64) -> Result<String, String> {
        match self.type_of(e, users)? {
            Type::Other => Err("signs stand between tensors and numbers".into()),
            _ => self.argument(e, users),
        }
    }

    fn type_of(&mut self, e: &Expr, users: u64) -> Result<Type, String> {
        Ok(match e {
            Expr::Name(name) => self.kind(name, users)?.1,
            Expr::Field(of, field) => self.field(of, field, users)?.1,
            Expr::Call(..) | Expr::Infix(..) | Expr::Negation(_) => Type::Tensor,
            Expr::Int(_) | Expr::Float(_) => Type::Number,
            _ => Type::Other,
        })
    }

    /// What a name is: the expression, and its type.
    fn kind(&mut self, name: &str, users: u64) -> Result<(String, Type), String> {
        if let Some(pushes) = &mut self.pushes {
            if let Some(at) = name.strip_suffix("_t").and_then(|n| self.schema.arg_index(n)) {
                if !pushes.contains(&at) {
                    pushes.push(at);
                }
                return Ok(match self.schema.args[at].ty {
                    SchemaType::Tensor => (format!("&p.tangent({at})?"), Type::Tensor),
                    _ => (format!("p.optional_tangent({at})?.as_ref()"), Type::Other),
                });
            }
            if let "grad" | "grads" | "mask" = name {
                if self.schema.arg_index(name).is_none() {
                    return Err(format!("there is no `{name}` in a forward formula"));
                }
            } else if let Some(primal) = name.strip_suffix("_p")
                && self.schema.arg_index(primal).is_some()
            {
                return self.kind(primal, users);
            }
        }
        let argument = self.schema.arg_index(name);
        match name {
            "grad" => self.uses_grad = true,
            "grads" => self.uses_grads = true,
            "mask" if argument.is_none() => return Ok(("mask".to_string(), Type::Other)),
            _ => {}
        }
        match name {
            "grad" => return Ok(("grad".to_string(), Type::Tensor)),
            "grads" => return Ok(("grads".to_string(), Type::Other)),
            _ => {}
        }
        if let Some(at) = argument {
            let (getter, ty) = getter(&self.schema.args[at].ty)
                .ok_or_else(|| format!("`{name}` is of a type that formulas do not take"))?;
            return Ok((self.save(format!("Argument({at})"), getter, users), ty));
        }
        let at = self.result(name).ok_or_else(|| format!("there is no `{name}` here"))?;
        let optional = self.entry.results == Results::Optional;
        let (getter, ty) = match self.schema.returns[at].ty {
            SchemaType::Tensor if optional => ("optional_tensor", Type::Other),
            SchemaType::Tensor => ("tensor", Type::Tensor),
            _ => ("tensors", Type::Other),
        };
        Ok((self.save(format!("Result({at})"), getter, users), ty))
    }

    /// The position of the result with this name.
    fn result(&self, name: &str) -> Option<usize> {
        let returns = &self.schema.returns;
        let numbered = match name.strip_prefix("result") {
            Some("") if returns.len() == 1 => Some(0),
            Some(n) => n.parse().ok().filter(|n| *n < returns.len()),
            None => None,
        };
        numbered.or_else(|| returns.iter().position(|r| r.name.as_deref() == Some(name)))
    }

    fn field(&mut self, of: &str, field: &str, users: u64) -> Result<(String, Type), String> {
        let at = self.schema.arg_index(of).ok_or_else(|| format!("there is no argument `{of}`"))?;
        let (what, getter, optional, ty) = match field {
            "sizes" => ("Sizes", "ints", "optional_ints", Type::Other),
            "strides" => ("Strides", "ints", "optional_ints", Type::Other),
            "dtype" => ("DType", "dtype", "optional_dtype", Type::Other),
            "dim" => ("Dim", "int", "optional_int", Type::Number),
            "storage_offset" => ("StorageOffset", "int", "optional_int", Type::Number),
            "options" => ("Options", "options", "optional_options", Type::Other),
            "all_sizes" => ("AllSizes", "all_sizes", "", Type::Other),
            "all_dtypes" => ("AllDTypes", "all_dtypes", "", Type::Other),
            _ => return Err(format!("`{field}` is no field that formulas have")),
        };
        let list = field.starts_with("all_");
        let (getter, ty) = match &self.schema.args[at].ty {
            SchemaType::Tensor if !list => (getter, ty),
            SchemaType::Optional(t) if !list && **t == SchemaType::Tensor => {
                (optional, Type::Other)
            }
            SchemaType::List(t, _) if list && **t == SchemaType::Tensor => (getter, ty),
            ty => return Err(format!("`{of}` is `{ty}`, which has no `{field}`")),
        };
        Ok((self.save(format!("{what}({at})"), getter, users), ty))
    }

    /// The expression that reads a saved value.
    fn save(&mut self, what: String, getter: &str, users: u64) -> String {
        let found = self.saves.iter().position(|s| s.what == what);
        let at = found.unwrap_or_else(|| {
            let read = format!("b.{getter}({})?", self.saves.len());
            self.saves.push(Save { what, read, users: 0 });
            self.saves.len() - 1
        });
        self.saves[at].users |= users;
        self.saves[at].read.clone()
    }
}
