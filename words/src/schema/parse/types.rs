//! Types and alias annotations.

use super::{Cursor, PResult, SchemaErrorKind};
use crate::schema::lex::Kind;
use crate::schema::{AliasInfo, SchemaType};

impl Cursor<'_> {
    /// `type [ '[' int ']' [alias] ['?'] ]`.
    pub(super) fn sized_type(&mut self) -> PResult<(SchemaType, Option<AliasInfo>)> {
        let (mut ty, mut alias) = self.ty()?;
        if self.is("[") {
            self.bump();
            let at = self.token().at.clone();
            let Kind::Number(n) = *self.peek() else {
                return self.expected("a list size or ]");
            };
            let Ok(n) = n.parse::<u32>() else {
                return self.error_at(at, SchemaErrorKind::BadNumber(n.to_string()));
            };
            self.bump();
            self.expect("]")?;
            ty = SchemaType::List(Box::new(ty), Some(n));
            alias = self.container_alias(alias)?;
            if self.eat("?") {
                ty = ty.optional();
            }
        }
        Ok((ty, alias))
    }

    /// `atom [alias] { '[' ']' [alias] | '?' }`, leaving `[ N ]` to the caller.
    pub(super) fn ty(&mut self) -> PResult<(SchemaType, Option<AliasInfo>)> {
        let (mut ty, inner) = self.atom()?;
        let mut alias = self.alias()?;
        if let Some(inner) = inner {
            alias.get_or_insert_default().elements = inner;
        }
        loop {
            if self.is("[") && matches!(self.peek2(), Kind::Punct("]")) {
                self.bump();
                self.bump();
                ty = ty.list();
                alias = self.container_alias(alias)?;
            } else if self.eat("?") {
                ty = ty.optional();
            } else {
                return Ok((ty, alias));
            }
        }
    }

    /// The annotation after a list's brackets; the list inherits the write mark of its elements.
    pub(super) fn container_alias(
        &mut self,
        element: Option<AliasInfo>,
    ) -> PResult<Option<AliasInfo>> {
        let own = self.alias()?;
        Ok(match (own, element) {
            (own, None) => own,
            (own, Some(element)) => {
                let mut own = own.unwrap_or_default();
                own.write |= element.write;
                own.elements = vec![element];
                Some(own)
            }
        })
    }

    pub(super) fn alias(&mut self) -> PResult<Option<AliasInfo>> {
        if self.eat("!") {
            self.fresh += 1;
            return Ok(Some(AliasInfo {
                before: vec![format!("${}", self.fresh - 1)],
                write: true,
                ..AliasInfo::default()
            }));
        }
        if !self.eat("(") {
            return Ok(None);
        }
        let before = self.alias_set()?;
        let write = self.eat("!");
        let after = if self.eat("->") { self.alias_set()? } else { before.clone() };
        self.expect(")")?;
        Ok(Some(AliasInfo { before, after, write, elements: Vec::new() }))
    }

    pub(super) fn alias_set(&mut self) -> PResult<Vec<String>> {
        let mut out = Vec::new();
        loop {
            let set = if self.eat("*") { "*" } else { self.ident("an alias set")? };
            out.push(set.to_string());
            if !self.eat("|") {
                return Ok(out);
            }
        }
    }

    pub(super) fn inner(&mut self) -> PResult<Box<SchemaType>> {
        self.expect("(")?;
        let (ty, _) = self.ty()?;
        self.expect(")")?;
        Ok(Box::new(ty))
    }

    pub(super) fn atom(&mut self) -> PResult<(SchemaType, Option<Vec<AliasInfo>>)> {
        if self.eat("(") {
            let mut types = Vec::new();
            let mut aliases = Vec::new();
            loop {
                let (ty, alias) = self.ty()?;
                types.push(ty);
                aliases.push(alias.unwrap_or_default());
                if !self.eat(",") {
                    break;
                }
            }
            self.expect(")")?;
            let annotated = aliases.iter().any(|a| !a.is_empty());
            return Ok((SchemaType::Tuple(types), annotated.then_some(aliases)));
        }
        let at = self.token().at.clone();
        let name = self.ident("a type")?;
        let ty = match name {
            "Tensor" => SchemaType::Tensor,
            "int" => SchemaType::Int,
            "SymInt" => SchemaType::SymInt,
            "float" => SchemaType::Float,
            "complex" => SchemaType::Complex,
            "bool" => SchemaType::Bool,
            "SymBool" => SchemaType::SymBool,
            "Scalar" => SchemaType::Scalar,
            "str" => SchemaType::Str,
            "ScalarType" => SchemaType::ScalarType,
            "Layout" => SchemaType::Layout,
            "MemoryFormat" => SchemaType::MemoryFormat,
            "QScheme" => SchemaType::QScheme,
            "Device" => SchemaType::Device,
            "DeviceIndex" => SchemaType::DeviceIndex,
            "Generator" => SchemaType::Generator,
            "Storage" => SchemaType::Storage,
            "Stream" => SchemaType::Stream,
            "Quantizer" => SchemaType::Quantizer,
            "ConstQuantizerPtr" => SchemaType::ConstQuantizerPtr,
            "None" | "NoneType" => SchemaType::None,
            "Capsule" => SchemaType::Capsule,
            "Any" => SchemaType::Any,
            "AnyClassType" => SchemaType::AnyClass,
            "AnyEnumType" => SchemaType::AnyEnum,
            "Future" => SchemaType::Future(self.inner()?),
            "RRef" => SchemaType::RRef(self.inner()?),
            "Await" => SchemaType::Await(self.inner()?),
            "Dict" => {
                self.expect("(")?;
                let (key, _) = self.ty()?;
                self.expect(",")?;
                let (value, _) = self.ty()?;
                self.expect(")")?;
                SchemaType::Dict(Box::new(key), Box::new(value))
            }
            "__torch__" => {
                for part in ["torch", "classes"] {
                    self.expect(".")?;
                    if self.peek() != &Kind::Ident(part) {
                        return self.expected("__torch__.torch.classes.NAMESPACE.CLASS");
                    }
                    self.bump();
                }
                self.expect(".")?;
                let namespace = self.ident("a class namespace")?.to_string();
                self.expect(".")?;
                let name = self.ident("a class name")?.to_string();
                SchemaType::Class { namespace, name }
            }
            _ if name.starts_with(|c: char| c.is_ascii_lowercase()) => {
                SchemaType::Var(name.to_string())
            }
            _ => return self.error_at(at, SchemaErrorKind::UnknownType(name.to_string())),
        };
        Ok((ty, None))
    }
}
