//! Executable memory: functions are gathered, then placed in one mapping that is sealed as read +
//! execute.
//!
//! Functions refer to each other by absolute addresses, which are filled in once the mapping has
//! its place, so that code has one kind of relocation on every machine and no reach to think of.
//! What Cranelift calls by itself where a machine lacks an instruction ([`LibCall`]) is a function
//! of Rust's.
//!
//! Where instructions are cached apart from data (AArch64), sealing also drops what the instruction
//! cache holds of the pages, before they become executable, and then has every thread of the
//! process fetch anew, in the order that `cranelift-jit` has. Code may be called by any thread once
//! [`CodeBuilder::finish`] has returned.

use super::JitError;
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{
    ExtFuncData, ExternalName, FuncRef, Function, LibCall, Signature, UserExternalName,
};
use cranelift_codegen::isa::{OwnedTargetIsa, TargetFrontendConfig};
use cranelift_codegen::{Context, FinalizedRelocTarget};
use memmap2::{Mmap, MmapMut};
use wasmtime_internal_jit_icache_coherence as icache;

/// Where machine code from elsewhere is placed: at a line of the cache.
const BYTES_ALIGN: usize = 64;

/// A function of a [`CodeBuilder`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FuncId(u32);

/// The target of an address in a function's code.
#[derive(Clone, Copy, Debug)]
enum Target {
    Function(FuncId),
    /// A place in the function itself.
    Within(usize),
    Address(usize),
}

/// An address to be written into a function's code.
#[derive(Debug)]
struct Link {
    at: usize,
    target: Target,
    addend: i64,
}

#[derive(Debug)]
struct Body {
    code: Vec<u8>,
    align: usize,
    links: Vec<Link>,
}

#[derive(Debug)]
struct Declared {
    name: String,
    signature: Signature,
    body: Option<Body>,
}

/// Code under construction.
pub(crate) struct CodeBuilder {
    isa: OwnedTargetIsa,
    functions: Vec<Declared>,
}

/// Finished code; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Code {
    mapping: Mmap,
    starts: Vec<usize>,
}

impl CodeBuilder {
    pub(crate) fn new() -> Result<Self, JitError> {
        Ok(CodeBuilder { isa: super::isa::host()?, functions: Vec::new() })
    }

    /// The facts about the machine that building a function needs.
    pub(crate) fn target(&self) -> TargetFrontendConfig {
        self.isa.frontend_config()
    }

    /// Declares a function that is defined later.
    pub(crate) fn declare(
        &mut self,
        name: &str,
        signature: &Signature,
    ) -> Result<FuncId, JitError> {
        let id = u32::try_from(self.functions.len())
            .map_err(|_| JitError::codegen(name, &"more than 2^32 functions"))?;
        self.functions.push(Declared {
            name: name.to_string(),
            signature: signature.clone(),
            body: None,
        });
        Ok(FuncId(id))
    }

    /// A declared function, as another one under construction refers to it.
    pub(crate) fn import(&self, id: FuncId, into: &mut Function) -> FuncRef {
        let signature = into.import_signature(self.functions[id.0 as usize].signature.clone());
        let name = into.declare_imported_user_function(UserExternalName::new(0, id.0));
        into.import_function(ExtFuncData {
            name: ExternalName::user(name),
            signature,
            // called by an absolute address
            colocated: false,
            patchable: false,
        })
    }

    /// Compiles `ctx.func` as the body of a declared function.
    pub(crate) fn define(&mut self, id: FuncId, ctx: &mut Context) -> Result<(), JitError> {
        let name = &self.functions[id.0 as usize].name;
        ctx.compile(&*self.isa, &mut ControlPlane::default())
            .map_err(|e| JitError::codegen(name, &e.inner))?;
        let Some(compiled) = ctx.compiled_code() else {
            return Err(JitError::codegen(name, &"no code after compiling"));
        };
        let mut links = Vec::new();
        for reloc in compiled.buffer.relocs() {
            if reloc.kind != Reloc::Abs8 {
                return Err(JitError::codegen(name, &reloc));
            }
            let target = match &reloc.target {
                FinalizedRelocTarget::Func(at) => Target::Within(*at as usize),
                FinalizedRelocTarget::ExternalName(ExternalName::User(user)) => {
                    Target::Function(FuncId(ctx.func.params.user_named_funcs()[*user].index))
                }
                FinalizedRelocTarget::ExternalName(ExternalName::LibCall(call)) => {
                    Target::Address(libcall(*call).ok_or_else(|| JitError::codegen(name, &reloc))?)
                }
                FinalizedRelocTarget::ExternalName(_) => {
                    return Err(JitError::codegen(name, &reloc));
                }
            };
            links.push(Link { at: reloc.offset as usize, target, addend: reloc.addend });
        }
        let align = (compiled.buffer.alignment as usize)
            .max(self.isa.function_alignment().minimum as usize)
            .max(self.isa.symbol_alignment() as usize);
        self.place(id, compiled.code_buffer().to_vec(), align, links)
    }

    /// The body of a declared function as machine code that refers to nothing outside itself.
    pub(crate) fn define_bytes(&mut self, id: FuncId, code: Vec<u8>) -> Result<(), JitError> {
        self.place(id, code, BYTES_ALIGN, Vec::new())
    }

    fn place(
        &mut self,
        id: FuncId,
        code: Vec<u8>,
        align: usize,
        links: Vec<Link>,
    ) -> Result<(), JitError> {
        let function = &mut self.functions[id.0 as usize];
        let body = Body { code, align, links };
        match function.body.replace(body) {
            None => Ok(()),
            Some(_) => Err(JitError::codegen(&function.name, &"defined twice")),
        }
    }

    /// Makes the code executable.
    pub(crate) fn finish(self) -> Result<Code, JitError> {
        let mut bodies = Vec::with_capacity(self.functions.len());
        let mut starts = Vec::with_capacity(self.functions.len());
        let mut end = 0usize;
        for function in self.functions {
            let Some(body) = function.body else {
                return Err(JitError::codegen(&function.name, &"declared, not defined"));
            };
            let start = end.next_multiple_of(body.align);
            end = start + body.code.len();
            starts.push(start);
            bodies.push(body);
        }
        let refused = |e: std::io::Error| JitError::Memory { bytes: end, message: e.to_string() };
        // a mapping of no bytes is refused
        let mut mapping = MmapMut::map_anon(end.max(1)).map_err(refused)?;
        let base = mapping.as_ptr().addr();
        for (body, &start) in bodies.iter().zip(&starts) {
            let code = &mut mapping[start..start + body.code.len()];
            code.copy_from_slice(&body.code);
            for link in &body.links {
                let address = match link.target {
                    Target::Function(id) => base + starts[id.0 as usize],
                    Target::Within(at) => base + start + at,
                    Target::Address(address) => address,
                } as u64;
                code[link.at..link.at + 8]
                    .copy_from_slice(&address.wrapping_add_signed(link.addend).to_ne_bytes());
            }
        }
        // SAFETY: the range is the mapping, which is alive.
        unsafe { icache::clear_cache(mapping.as_ptr().cast(), mapping.len()) }.map_err(refused)?;
        let mapping = mapping.make_exec().map_err(refused)?;
        icache::pipeline_flush_mt().map_err(refused)?;
        Ok(Code { mapping, starts })
    }
}

impl Code {
    pub(crate) fn address(&self, id: FuncId) -> *const u8 {
        self.mapping[self.starts[id.0 as usize]..].as_ptr()
    }
}

/// The function behind what Cranelift calls by name; `None` for those that no code of ours leads
/// to.
fn libcall(call: LibCall) -> Option<usize> {
    macro_rules! functions {
        ($($call:ident($($x:ident),*): $t:ty = $result:expr;)*) => {
            match call {
                $(LibCall::$call => {
                    extern "C" fn function($($x: $t),*) -> $t {
                        $result
                    }
                    function as *const ()
                })*
                _ => return None,
            }
        };
    }
    let pointer = functions! {
        CeilF32(x): f32 = x.ceil();
        CeilF64(x): f64 = x.ceil();
        FloorF32(x): f32 = x.floor();
        FloorF64(x): f64 = x.floor();
        TruncF32(x): f32 = x.trunc();
        TruncF64(x): f64 = x.trunc();
        NearestF32(x): f32 = x.round_ties_even();
        NearestF64(x): f64 = x.round_ties_even();
        FmaF32(x, y, z): f32 = x.mul_add(y, z);
        FmaF64(x, y, z): f64 = x.mul_add(y, z);
    };
    Some(pointer.expose_provenance())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_codegen::ir::{AbiParam, InstBuilder, types};
    use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

    /// A function of one f64 whose result is `build` of it.
    fn unary(
        code: &mut CodeBuilder,
        name: &str,
        build: impl FnOnce(
            &CodeBuilder,
            &mut FunctionBuilder<'_>,
            cranelift_codegen::ir::Value,
        ) -> cranelift_codegen::ir::Value,
    ) -> FuncId {
        let mut sig = Signature::new(code.isa.default_call_conv());
        sig.params.push(AbiParam::new(types::F64));
        sig.returns.push(AbiParam::new(types::F64));
        let id = code.declare(name, &sig).unwrap();
        let (mut ctx, mut fctx) = (Context::new(), FunctionBuilderContext::new());
        ctx.func.signature = sig;
        let mut b = FunctionBuilder::new(&mut ctx.func, &mut fctx);
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        b.seal_block(entry);
        let x = b.block_params(entry)[0];
        let y = build(code, &mut b, x);
        b.ins().return_(&[y]);
        b.finalize(code.target());
        code.define(id, &mut ctx).unwrap();
        id
    }

    #[test]
    fn functions_call_each_other_wherever_they_are_placed() {
        let mut code = CodeBuilder::new().unwrap();
        let double = unary(&mut code, "double", |_, b, x| b.ins().fadd(x, x));
        let twice = unary(&mut code, "twice", |code, b, x| {
            let double = code.import(double, b.func);
            let call = b.ins().call(double, &[x]);
            let once = b.inst_results(call)[0];
            let call = b.ins().call(double, &[once]);
            b.inst_results(call)[0]
        });
        let code = code.finish().unwrap();
        // SAFETY: the function was built with this signature, for the host's convention.
        let f: extern "C" fn(f64) -> f64 = unsafe { std::mem::transmute(code.address(twice)) };
        assert_eq!(f(1.25), 5.0);
    }

    #[test]
    fn the_functions_behind_names_round_as_instructions_do() {
        let of = |call| -> extern "C" fn(f64) -> f64 {
            // SAFETY: these four are functions of one f64.
            unsafe { std::mem::transmute(libcall(call).unwrap()) }
        };
        for x in [-2.5f64, -0.5, 0.5, 1.5, 2.5, 1e300] {
            assert_eq!(of(LibCall::CeilF64)(x), x.ceil());
            assert_eq!(of(LibCall::FloorF64)(x), x.floor());
            assert_eq!(of(LibCall::TruncF64)(x), x.trunc());
            assert_eq!(of(LibCall::NearestF64)(x), x.round_ties_even());
        }
        assert!(libcall(LibCall::Memcpy).is_none());
    }

    #[test]
    fn what_is_declared_and_not_defined_is_an_error() {
        let mut code = CodeBuilder::new().unwrap();
        let sig = Signature::new(code.isa.default_call_conv());
        code.declare("nowhere", &sig).unwrap();
        let error = code.finish().unwrap_err().to_string();
        assert!(error.contains("nowhere"), "{error}");
    }
}
