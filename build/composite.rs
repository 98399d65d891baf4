//! The kernels of composites: the definition in an entry as a function that calls `ops::aten`.

use crate::op::{Declared, function_name};
use straightline_catalog::composite::{Composite, Expr};
use straightline_catalog::schema::{FunctionSchema, SchemaType};

/// The kernel of an operator that is defined by others.
pub(crate) fn kernel(op: &Declared<'_>, composite: &Composite) -> Result<String, String> {
    let writer = Writer { op };
    let mut body = String::new();
    for (i, local) in composite.locals.iter().enumerate() {
        body += &format!("let v{i} = {}; ", writer.made(local)?);
    }
    body += &match composite.results {
        // what the call gives is what the operator gives
        [Expr::Call { op, args, result: None }] => writer.call(op.schema(), args)?,
        [one] => format!("Ok({})", writer.made(one)?),
        all => {
            let all = all.iter().map(|e| writer.made(e)).collect::<Result<Vec<_>, _>>()?;
            format!("Ok(({}))", all.join(", "))
        }
    };
    Ok(format!(
        "{{ #[allow(clippy::too_many_arguments, unused_variables)] fn f({}) -> Result<{}> {{ {body} }} f }}",
        op.signature(),
        op.returns
    ))
}

/// Whether a definition is more than one call, which may read an operand again, or one after
/// another.
pub(crate) fn has_steps(composite: &Composite) -> bool {
    fn calls(e: &Expr) -> usize {
        match e {
            Expr::Call { args, .. } => 1 + args.iter().map(calls).sum::<usize>(),
            Expr::List(all) => all.iter().map(calls).sum(),
            _ => 0,
        }
    }
    composite.locals.iter().chain(composite.results).map(calls).sum::<usize>() > 1
}

struct Writer<'a> {
    op: &'a Declared<'a>,
}

impl Writer<'_> {
    /// A call, with a `Result`.
    fn call(&self, schema: &FunctionSchema, args: &[Expr]) -> Result<String, String> {
        let args = (args.iter().zip(&schema.args))
            .map(|(e, of)| self.argument(e, &of.ty))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(format!("{}({})", function_name(schema), args.join(", ")))
    }

    /// A value of its own.
    fn made(&self, e: &Expr) -> Result<String, String> {
        match e {
            Expr::Call { op, args, result } => {
                let call = self.call(op.schema(), args)?;
                let Some(i) = result else { return Ok(format!("{call}?")) };
                Ok(match self.own_tensors(op.schema(), args) {
                    // nobody sees the other results, if nobody is between here and the kernel
                    Some(tensors) => format!(
                        "{{ let _unread = crate::dispatch::unread::Unread::beside(OP_{}.get()?.handle(), {i}, &[{}]); {call}?.{i} }}",
                        function_name(op.schema()).to_uppercase(),
                        tensors.join(", "),
                    ),
                    None => format!("{call}?.{i}"),
                })
            }
            Expr::Local(i, None) => Ok(format!("v{i}.clone()")),
            Expr::Local(i, Some(part)) => Ok(format!("v{i}.{part}.clone()")),
            Expr::Argument(i) if self.op.schema.args[*i].ty == SchemaType::Tensor => {
                Ok(format!("{}.clone()", self.op.params[*i].name))
            }
            e => Err(format!("{e:?} is no result")),
        }
    }

    /// The names of a call's tensors, if all of them are arguments of the composite.
    fn own_tensors(&self, schema: &FunctionSchema, args: &[Expr]) -> Option<Vec<&str>> {
        (args.iter().zip(&schema.args))
            .filter(|(_, of)| of.ty.is_dispatch_relevant())
            .map(|(e, of)| match e {
                Expr::Argument(i) if of.ty == SchemaType::Tensor => {
                    Some(self.op.params[*i].name.as_str())
                }
                _ => None,
            })
            .collect()
    }

    /// A value as an argument of this type.
    fn argument(&self, e: &Expr, of: &SchemaType) -> Result<String, String> {
        let misfit = || format!("{e:?} is no `{of}`");
        if let SchemaType::Optional(of) = of {
            return match e {
                Expr::None => Ok("None".to_string()),
                Expr::Argument(i) if self.is_optional(*i) => self.given(*i, of),
                e => Ok(format!("Some({})", self.argument(e, of)?)),
            };
        }
        Ok(match (e, of) {
            (Expr::Argument(i), _) if self.is_optional(*i) => return Err(misfit()),
            (Expr::Argument(i), _) => self.given(*i, of)?,
            (Expr::Local(i, None), _) => format!("&v{i}"),
            (Expr::Local(i, Some(part)), _) => format!("&v{i}.{part}"),
            (Expr::Call { .. }, SchemaType::Tensor | SchemaType::List(..)) => {
                format!("&{}", self.made(e)?)
            }
            (Expr::List(all), SchemaType::List(item, _)) if **item == SchemaType::Tensor => {
                let all = all.iter().map(|e| self.made(e)).collect::<Result<Vec<_>, _>>()?;
                format!("&[{}]", all.join(", "))
            }
            (Expr::List(all), SchemaType::List(item, _)) => {
                let all = all.iter().map(|e| self.argument(e, item));
                format!("&[{}]", all.collect::<Result<Vec<_>, _>>()?.join(", "))
            }
            // one number stands for each of a list
            (Expr::Int(_), SchemaType::List(item, _)) => format!("&[{}]", self.argument(e, item)?),
            (Expr::Int(n), SchemaType::Int | SchemaType::SymInt) => n.to_string(),
            (Expr::Int(n), SchemaType::Float) => format!("{n}f64"),
            (Expr::Int(n), SchemaType::Scalar) => format!("Scalar::Int({n})"),
            (Expr::Float(x), SchemaType::Float) => number(*x),
            (Expr::Float(x), SchemaType::Scalar) => format!("Scalar::Float({})", number(*x)),
            (Expr::Bool(b), SchemaType::Bool | SchemaType::SymBool) => b.to_string(),
            (Expr::Str(s), SchemaType::Str) => format!("{s:?}"),
            (Expr::Sizes(i), SchemaType::List(..)) => {
                format!("{}.sizes()", self.op.params[*i].name)
            }
            (Expr::DTypeOf(i), SchemaType::ScalarType) => {
                format!("{}.dtype()", self.op.params[*i].name)
            }
            (Expr::DType(d), SchemaType::ScalarType) => format!("DType::{d:?}"),
            (Expr::MemoryFormat(f), SchemaType::MemoryFormat) => format!("MemoryFormat::{f:?}"),
            _ => return Err(misfit()),
        })
    }

    fn is_optional(&self, i: usize) -> bool {
        matches!(self.op.schema.args[i].ty, SchemaType::Optional(_))
    }

    /// The operator's own argument as one of this type, which is optional where its own is.
    fn given(&self, i: usize, of: &SchemaType) -> Result<String, String> {
        let (name, ty) = (&self.op.params[i].name, &self.op.schema.args[i].ty);
        let own = ty.unwrap_optional();
        let int = |t: &SchemaType| matches!(t, SchemaType::Int | SchemaType::SymInt);
        let convert = match (own, of) {
            (own, of) if own == of || (int(own) && int(of)) => return Ok(name.clone()),
            (SchemaType::List(a, _), SchemaType::List(b, _)) if a == b || (int(a) && int(b)) => {
                return Ok(name.clone());
            }
            (own, SchemaType::Scalar) if int(own) => "Scalar::Int(x)",
            (SchemaType::Float, SchemaType::Scalar) => "Scalar::Float(x)",
            (SchemaType::Bool, SchemaType::Scalar) => "Scalar::Int(i64::from(x))",
            (own, SchemaType::List(of, _)) if int(own) && int(of) => "&[x]",
            _ => return Err(format!("`{name}` is `{ty}`, where `{of}` is wanted")),
        };
        Ok(match self.is_optional(i) {
            true => format!("{name}.map(|x| {convert})"),
            false => convert.replace('x', name),
        })
    }
}

fn number(x: f64) -> String {
    match x {
        f64::INFINITY => "f64::INFINITY".to_string(),
        f64::NEG_INFINITY => "f64::NEG_INFINITY".to_string(),
        x => format!("{x:?}f64"),
    }
}
