//! The arguments of a call: all of them, in the order of the schema.

use crate::schema::{Argument, DefaultValue, SchemaType};
use crate::{Arg, DType, Layout, MemoryFormat, Op, Scalar};

/// Why arguments do not fit an operator.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ArgumentError {
    /// An argument that the operator does not have.
    #[error("`{op}` has no argument `{name}`; it has {}", listed(*op))]
    Unknown {
        /// The operator.
        op: Op,
        /// The name given.
        name: String,
    },
    /// An argument that is given twice.
    #[error("the argument `{name}` of `{op}` is given twice")]
    Twice {
        /// The operator.
        op: Op,
        /// The argument.
        name: &'static str,
    },
    /// An argument without a default that is not given.
    #[error("the argument `{name}` of `{op}` is missing")]
    Missing {
        /// The operator.
        op: Op,
        /// The argument.
        name: &'static str,
    },
    /// An argument of the wrong type.
    #[error("the argument `{name}` of `{op}` is `{expected}`, found {found}")]
    Kind {
        /// The operator.
        op: Op,
        /// The argument.
        name: &'static str,
        /// The type in the schema.
        expected: &'static SchemaType,
        /// What was given.
        found: &'static str,
    },
    /// Too many arguments.
    #[error("`{op}` takes {expected} arguments, found {found}")]
    Count {
        /// The operator.
        op: Op,
        /// Those of the schema.
        expected: usize,
        /// Those given.
        found: usize,
    },
}

/// `self`, `other` and `alpha`, in quotes.
fn listed(op: Op) -> String {
    let names: Vec<String> = (op.schema().args.iter()).map(|a| format!("`{}`", a.name)).collect();
    match &names[..] {
        [] => "none".to_string(),
        [one] => one.clone(),
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}

impl Op {
    /// All arguments of a call, from those given. Each is given by name, except that a tensor
    /// without a name takes the next tensor argument. Those left out take their defaults.
    ///
    /// # Errors
    ///
    /// The argument that does not fit, with its position among those given if it is one of them.
    pub fn arguments<V>(
        self,
        given: Vec<(Option<&str>, Arg<V>)>,
    ) -> Result<Vec<Arg<V>>, (Option<usize>, ArgumentError)> {
        let wanted = &self.schema().args;
        let mut places: Vec<Option<Arg<V>>> = wanted.iter().map(|_| None).collect();
        let (mut next, count) = (0, given.len());
        for (position, (name, arg)) in given.into_iter().enumerate() {
            let fail = |e| (Some(position), e);
            let place = match name {
                Some(name) => self.schema().arg_index(name).ok_or_else(|| {
                    fail(ArgumentError::Unknown { op: self, name: name.to_string() })
                })?,
                None => (next..wanted.len())
                    .find(|i| wanted[*i].ty.is_dispatch_relevant())
                    .ok_or_else(|| {
                        fail(ArgumentError::Count {
                            op: self,
                            expected: wanted.len(),
                            found: count,
                        })
                    })?,
            };
            let of = &wanted[place];
            let arg = fitted(&of.ty, arg).map_err(|found| {
                fail(ArgumentError::Kind { op: self, name: &of.name, expected: &of.ty, found })
            })?;
            if places[place].replace(arg).is_some() {
                return Err(fail(ArgumentError::Twice { op: self, name: &of.name }));
            }
            next = place + 1;
        }
        let complete = wanted.iter().zip(places).map(|(of, place)| {
            let missing = ArgumentError::Missing { op: self, name: &of.name };
            place.or_else(|| default(of)).ok_or((None, missing))
        });
        complete.collect()
    }

    /// All arguments of a call in the types of the schema: a number given for a dtype becomes the
    /// dtype, a device's name the device.
    ///
    /// # Errors
    ///
    /// The argument that does not fit.
    pub fn fitted<V>(self, args: Vec<Arg<V>>) -> Result<Vec<Arg<V>>, ArgumentError> {
        let wanted = &self.schema().args;
        if args.len() != wanted.len() {
            return Err(ArgumentError::Count {
                op: self,
                expected: wanted.len(),
                found: args.len(),
            });
        }
        let each = wanted.iter().zip(args).map(|(of, arg)| {
            fitted(&of.ty, arg).map_err(|found| ArgumentError::Kind {
                op: self,
                name: &of.name,
                expected: &of.ty,
                found,
            })
        });
        each.collect()
    }

    /// Checks that these are all the arguments of a call, with the types of the schema.
    ///
    /// # Errors
    ///
    /// The argument that does not fit.
    pub fn accepts<V: Clone>(self, args: &[Arg<V>]) -> Result<(), ArgumentError> {
        let wanted = &self.schema().args;
        if args.len() != wanted.len() {
            return Err(ArgumentError::Count {
                op: self,
                expected: wanted.len(),
                found: args.len(),
            });
        }
        for (of, arg) in wanted.iter().zip(args) {
            // what would first have to be converted is not one of the schema's arguments
            let same = |to: &Arg<V>| kind(to) == kind(arg);
            if !fitted(&of.ty, arg.clone()).is_ok_and(|to| same(&to)) {
                return Err(ArgumentError::Kind {
                    op: self,
                    name: &of.name,
                    expected: &of.ty,
                    found: kind(arg),
                });
            }
        }
        Ok(())
    }

    /// All arguments of a call, from the first ones; the others take their defaults.
    ///
    /// # Errors
    ///
    /// An argument without a default is missing, or there are too many.
    pub fn completed<V>(self, mut args: Vec<Arg<V>>) -> Result<Vec<Arg<V>>, ArgumentError> {
        let wanted = &self.schema().args;
        if args.len() > wanted.len() {
            return Err(ArgumentError::Count {
                op: self,
                expected: wanted.len(),
                found: args.len(),
            });
        }
        for of in &wanted[args.len()..] {
            args.push(default(of).ok_or(ArgumentError::Missing { op: self, name: &of.name })?);
        }
        Ok(args)
    }
}

/// The default of an argument.
fn default<V>(of: &Argument) -> Option<Arg<V>> {
    let ty = of.ty.unwrap_optional();
    Some(match (of.default.as_ref()?, ty) {
        (DefaultValue::None, _) => Arg::None,
        (DefaultValue::Int(n), SchemaType::ScalarType) => Arg::DType(DType::from_scalar_type(*n)?),
        (DefaultValue::Int(n), SchemaType::Layout) => Arg::Layout(Layout::from_number(*n)?),
        (DefaultValue::Int(n), SchemaType::MemoryFormat) => {
            Arg::MemoryFormat(MemoryFormat::from_number(*n)?)
        }
        (DefaultValue::Int(n), SchemaType::List(_, size)) => {
            Arg::Ints(vec![*n; size.unwrap_or(1) as usize])
        }
        (DefaultValue::Int(n), SchemaType::Float) => Arg::Scalar(Scalar::Float(*n as f64)),
        (DefaultValue::Int(n), _) => Arg::Scalar(Scalar::Int(*n)),
        (DefaultValue::Bool(b), _) => Arg::Scalar(Scalar::Bool(*b)),
        (DefaultValue::Float(x), _) => Arg::Scalar(Scalar::Float(*x)),
        (DefaultValue::Imaginary(x), _) => Arg::Scalar(Scalar::Complex(0.0, *x)),
        (DefaultValue::Str(s), SchemaType::Device) => Arg::Device(s.parse().ok()?),
        (DefaultValue::Str(s), _) => Arg::Str(s.clone()),
        (DefaultValue::List(items), SchemaType::List(element, _)) => list(items, element)?,
        (DefaultValue::List(_), _) => return None,
    })
}

fn list<V>(items: &[DefaultValue], element: &SchemaType) -> Option<Arg<V>> {
    Some(match element {
        SchemaType::Float => Arg::Floats(
            (items.iter())
                .map(|i| match i {
                    DefaultValue::Float(x) => Some(*x),
                    DefaultValue::Int(n) => Some(*n as f64),
                    _ => None,
                })
                .collect::<Option<_>>()?,
        ),
        SchemaType::Bool => Arg::Bools(
            (items.iter())
                .map(|i| match i {
                    DefaultValue::Bool(b) => Some(*b),
                    _ => None,
                })
                .collect::<Option<_>>()?,
        ),
        _ => Arg::Ints(
            (items.iter())
                .map(|i| match i {
                    DefaultValue::Int(n) => Some(*n),
                    _ => None,
                })
                .collect::<Option<_>>()?,
        ),
    })
}

/// The argument converted to the type, or the name of the type that it has.
fn fitted<V>(ty: &SchemaType, arg: Arg<V>) -> Result<Arg<V>, &'static str> {
    use SchemaType as T;
    if matches!((ty, &arg), (T::Optional(_), Arg::None)) {
        return Ok(Arg::None);
    }
    let found = kind(&arg);
    let fits = |yes: bool, arg| if yes { Ok(arg) } else { Err(found) };
    match (ty.unwrap_optional(), arg) {
        (T::Tensor, arg) => fits(matches!(arg, Arg::Tensor(_)), arg),
        (T::Int | T::SymInt, arg @ Arg::Scalar(s)) => fits(matches!(s, Scalar::Int(_)), arg),
        (T::Bool | T::SymBool, arg @ Arg::Scalar(s)) => fits(matches!(s, Scalar::Bool(_)), arg),
        (T::Float, Arg::Scalar(Scalar::Int(n))) => Ok(Arg::Scalar(Scalar::Float(n as f64))),
        (T::Float, arg @ Arg::Scalar(s)) => fits(matches!(s, Scalar::Float(_)), arg),
        (T::Scalar | T::Complex, arg @ Arg::Scalar(_)) => Ok(arg),
        (T::Str, arg @ Arg::Str(_)) => Ok(arg),
        (T::ScalarType, arg @ Arg::DType(_)) => Ok(arg),
        (T::ScalarType, Arg::Scalar(Scalar::Int(n))) => {
            DType::from_scalar_type(n).map(Arg::DType).ok_or(found)
        }
        (T::Device, arg @ Arg::Device(_)) => Ok(arg),
        (T::Device, Arg::Str(s)) => s.parse().map(Arg::Device).map_err(|_| found),
        (T::Layout, arg @ Arg::Layout(_)) => Ok(arg),
        (T::MemoryFormat, arg @ Arg::MemoryFormat(_)) => Ok(arg),
        (T::Any, arg @ Arg::Graph(_)) => Ok(arg),
        // a generator of one's own is in no graph
        (T::Generator, _) => Err(found),
        (T::List(of, size), arg) => elements(of, size.is_some(), arg).ok_or(found),
        (_, _) => Err(found),
    }
}

/// A list of elements of this type; a single value is accepted if the schema gives the length.
fn elements<V>(of: &SchemaType, sized: bool, arg: Arg<V>) -> Option<Arg<V>> {
    use SchemaType as T;
    // an empty list says nothing of its elements
    let empty = matches!(&arg, Arg::Ints(v) if v.is_empty())
        || matches!(&arg, Arg::Tensors(v) if v.is_empty());
    let fits = |yes: bool, arg| yes.then_some(arg);
    match (of, arg) {
        (T::Tensor, _) if empty => Some(Arg::Tensors(Vec::new())),
        (T::Optional(t), _) if empty && **t == T::Tensor => Some(Arg::Tensors(Vec::new())),
        (T::Tensor, arg @ Arg::Tensors(_)) => {
            let whole = matches!(&arg, Arg::Tensors(v) if v.iter().all(Option::is_some));
            fits(whole, arg)
        }
        (T::Optional(t), arg @ Arg::Tensors(_)) => fits(**t == T::Tensor, arg),
        (T::Int | T::SymInt, arg @ Arg::Ints(_)) => Some(arg),
        (T::Int | T::SymInt, Arg::Scalar(Scalar::Int(n))) if sized => Some(Arg::Ints(vec![n])),
        (T::Float, _) if empty => Some(Arg::Floats(Vec::new())),
        (T::Float, arg @ Arg::Floats(_)) => Some(arg),
        (T::Float, Arg::Ints(v)) => Some(Arg::Floats(v.iter().map(|n| *n as f64).collect())),
        (T::Bool, _) if empty => Some(Arg::Bools(Vec::new())),
        (T::Bool, arg @ Arg::Bools(_)) => Some(arg),
        (T::Scalar, arg) => {
            let numbers = matches!(arg, Arg::Ints(_) | Arg::Floats(_) | Arg::Bools(_));
            fits(numbers, arg)
        }
        _ => None,
    }
}

fn kind<V>(arg: &Arg<V>) -> &'static str {
    match arg {
        Arg::None => "`none`",
        Arg::Tensor(_) => "a tensor",
        Arg::Tensors(_) => "a list of tensors",
        Arg::Scalar(Scalar::Bool(_)) => "a truth value",
        Arg::Scalar(Scalar::Int(_)) => "an integer",
        Arg::Scalar(Scalar::Float(_)) => "a number with a point",
        Arg::Scalar(Scalar::Complex(..)) => "a complex number",
        Arg::Ints(_) => "a list of integers",
        Arg::Floats(_) => "a list of floats",
        Arg::Bools(_) => "a list of truth values",
        Arg::Str(_) => "a string",
        Arg::DType(_) => "a dtype",
        Arg::Device(_) => "a device",
        Arg::Layout(_) => "a layout",
        Arg::MemoryFormat(_) => "a memory format",
        Arg::Graph(_) => "a graph",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_its_default() {
        let given = vec![(None, Arg::Tensor(0)), (Some("other"), Arg::Tensor(1))];
        let args = Op::add_Tensor.arguments(given).unwrap();
        let one = Arg::Scalar(Scalar::Int(1));
        assert_eq!(args, [Arg::Tensor(0), Arg::Tensor(1), one]);
        let args = Op::sum_dim_IntList.completed(vec![Arg::Tensor(0), Arg::Ints(vec![1])]).unwrap();
        let keepdim = Arg::Scalar(Scalar::Bool(false));
        assert_eq!(args, [Arg::Tensor(0), Arg::Ints(vec![1]), keepdim, Arg::None]);
    }

    #[test]
    fn tensors_without_a_name_take_the_next_place_for_one() {
        let given = vec![(None, Arg::Tensor(0)), (Some("min"), Arg::None), (None, Arg::Tensor(1))];
        let args = Op::clamp_Tensor.arguments(given).unwrap();
        assert_eq!(args, [Arg::Tensor(0), Arg::None, Arg::Tensor(1)]);
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let says = |given: Vec<(Option<&str>, Arg<u32>)>| {
            let (at, e) = Op::softmax_int.arguments(given).unwrap_err();
            (at, e.to_string())
        };
        let x = || (None, Arg::Tensor(0));
        let int = |n| Arg::Scalar(Scalar::Int(n));
        let (at, e) = says(vec![x(), (Some("dims"), int(0))]);
        assert_eq!(at, Some(1));
        assert!(e.ends_with("has no argument `dims`; it has `self`, `dim` and `dtype`"), "{e}");
        let (at, e) = says(vec![x(), (Some("dim"), Arg::Ints(vec![0]))]);
        assert_eq!(at, Some(1));
        assert!(
            e.ends_with("`dim` of `aten::softmax.int` is `int`, found a list of integers"),
            "{e}"
        );
        assert!(says(vec![x()]).1.ends_with("`dim` of `aten::softmax.int` is missing"));
        let twice = says(vec![x(), (Some("self"), Arg::Tensor(0))]).1;
        assert!(twice.ends_with("is given twice"), "{twice}");
        assert!(says(vec![x(), x()]).1.contains("takes 3 arguments"));
    }
}
