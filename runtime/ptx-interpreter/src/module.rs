use std::sync::Arc;

use crate::decode::decode;
use crate::memory::{DeviceMemory, MemoryError};
use crate::parse::ast::{self, Initial, Linkage, Place};
use crate::parse::{ParseError, parse};
use crate::program::{Code, Program};

/// A parameter of a kernel.
///
/// ```
/// use straightline_ptx_interpreter::Module;
///
/// let module = Module::parse(
///     ".version 9.0\n.target sm_90\n.address_size 64\n\
///      .entry k(.param .u32 n, .param .u64 out) { ret; }",
/// )?;
/// let params = module.kernel("k").unwrap().params();
/// assert_eq!((params[1].offset, params[1].bytes, params[1].alignment), (8, 8, 8));
/// # Ok::<(), straightline_ptx_interpreter::ParseError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Where it begins in the bytes of the parameters.
    pub offset: usize,
    /// Its length.
    pub bytes: usize,
    /// What its offset is a multiple of.
    pub alignment: usize,
}

/// A variable of a module in global or constant memory.
///
/// ```
/// use straightline_ptx_interpreter::Module;
///
/// let module = Module::parse(
///     ".version 9.0\n.target sm_90\n.address_size 64\n.const .align 4 .u32 table[3] = {1, 2};",
/// )?;
/// let table = module.variables().next().unwrap();
/// assert_eq!((table.name.as_str(), table.constant), ("table", true));
/// assert_eq!(table.initial, [1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
/// # Ok::<(), straightline_ptx_interpreter::ParseError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its contents when the module is loaded; addresses of other variables are filled in then.
    pub initial: Vec<u8>,
    /// What its address is a multiple of.
    pub alignment: u64,
    /// Whether it is in constant memory.
    pub constant: bool,
    /// Offset, variable and addend of each address in it.
    addresses: Vec<(usize, String, i64)>,
}

impl Variable {
    /// Its length.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::Module;
    /// let module = Module::parse(".version 9.0\n.target sm_90\n.global .align 8 .b8 state[24];")?;
    /// assert_eq!(module.variables().next().unwrap().bytes(), 24);
    /// # Ok::<(), straightline_ptx_interpreter::ParseError>(())
    /// ```
    pub fn bytes(&self) -> u64 {
        self.initial.len() as u64
    }
}

/// A kernel of a module.
///
/// ```
/// use straightline_ptx_interpreter::Module;
///
/// let module = Module::parse(
///     ".version 9.0\n.target sm_90\n.address_size 64\n\
///      .entry k(.param .u64 out) .maxntid 128, 1, 1 { .reg .b32 %r<5>; .shared .b8 s[64]; \
///      mov.u32 %r1, s; ret; }",
/// )?;
/// let kernel = module.kernel("k").unwrap();
/// assert_eq!((kernel.name(), kernel.param_bytes()), ("k", 8));
/// assert_eq!(kernel.max_threads(), Some([128, 1, 1]));
/// assert_eq!((kernel.static_shared(), kernel.registers(), kernel.local_bytes()), (64, 5, 0));
/// # Ok::<(), straightline_ptx_interpreter::ParseError>(())
/// ```
#[derive(Debug)]
pub struct Kernel {
    name: String,
    params: Vec<Param>,
    max_threads: Option<[u32; 3]>,
    required_threads: bool,
    program: Program,
}

impl Kernel {
    /// Its name, as C++ mangles it.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::Module;
    /// let module = Module::parse(".version 9.0\n.target sm_90\n.entry k() { ret; }")?;
    /// let kernel = module.kernel("k").unwrap();
    /// assert_eq!(kernel.name(), "k");
    /// # Ok::<(), straightline_ptx_interpreter::ParseError>(())
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its parameters, in order.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::Module;
    /// let module = Module::parse(".version 9.0\n.target sm_90\n.entry k(.param .u32 n) { ret; }")?;
    /// let kernel = module.kernel("k").unwrap();
    /// assert_eq!(kernel.params()[0].bytes, 4);
    /// # Ok::<(), straightline_ptx_interpreter::ParseError>(())
    /// ```
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Bytes of all parameters.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::Module;
    /// let module = Module::parse(".version 9.0\n.target sm_90\n.entry k(.param .u32 n, .param .u64 p) { ret; }")?;
    /// let kernel = module.kernel("k").unwrap();
    /// assert_eq!(kernel.param_bytes(), 16);
    /// # Ok::<(), straightline_ptx_interpreter::ParseError>(())
    /// ```
    pub fn param_bytes(&self) -> usize {
        self.params.last().map_or(0, |last| last.offset + last.bytes)
    }

    /// What `__launch_bounds__` or `.reqntid` says of the threads of a block.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::Module;
    /// let module = Module::parse(".version 9.0\n.target sm_90\n.entry k() .maxntid 64, 2, 1 { ret; }")?;
    /// let kernel = module.kernel("k").unwrap();
    /// assert_eq!(kernel.max_threads(), Some([64, 2, 1]));
    /// # Ok::<(), straightline_ptx_interpreter::ParseError>(())
    /// ```
    pub fn max_threads(&self) -> Option<[u32; 3]> {
        self.max_threads
    }

    /// Bytes of shared memory that it declares.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::Module;
    /// let module = Module::parse(".version 9.0\n.target sm_90\n.entry k() { .shared .b8 s[96]; ret; }")?;
    /// let kernel = module.kernel("k").unwrap();
    /// assert_eq!(kernel.static_shared(), 96);
    /// # Ok::<(), straightline_ptx_interpreter::ParseError>(())
    /// ```
    pub fn static_shared(&self) -> u32 {
        self.program.static_shared
    }

    /// Virtual registers that it declares; a GPU needs fewer.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::Module;
    /// let module = Module::parse(".version 9.0\n.target sm_90\n.entry k() { .reg .b64 %rd<9>; ret; }")?;
    /// let kernel = module.kernel("k").unwrap();
    /// assert_eq!(kernel.registers(), 9);
    /// # Ok::<(), straightline_ptx_interpreter::ParseError>(())
    /// ```
    pub fn registers(&self) -> u32 {
        self.program.registers
    }

    /// Bytes of local memory that it declares for each thread.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::Module;
    /// let module = Module::parse(".version 9.0\n.target sm_90\n.entry k() { .local .align 16 .b8 depot[32]; ret; }")?;
    /// let kernel = module.kernel("k").unwrap();
    /// assert_eq!(kernel.local_bytes(), 32);
    /// # Ok::<(), straightline_ptx_interpreter::ParseError>(())
    /// ```
    pub fn local_bytes(&self) -> u32 {
        self.program.functions.first().map_or(0, |frame| frame.local)
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    pub(crate) fn requires_threads(&self) -> bool {
        self.required_threads
    }

    /// What is not interpreted: the line of the text and the mnemonic. It faults if it is reached.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::Module;
    /// let module = Module::parse(
    ///     ".version 9.0\n.target sm_90\n.address_size 64\n.entry k() { wgmma.fence.sync.aligned; ret; }",
    /// )?;
    /// let kernel = module.kernel("k").unwrap();
    /// assert_eq!(kernel.unsupported().next(), Some((4, "wgmma.fence.sync.aligned")));
    /// # Ok::<(), straightline_ptx_interpreter::ParseError>(())
    /// ```
    pub fn unsupported(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.program.spans.iter().zip(&self.program.code);
        lines.filter_map(|(span, inst)| match &inst.code {
            Code::Unsupported(mnemonic) => Some((span.line, &**mnemonic)),
            _ => None,
        })
    }
}

#[derive(Debug)]
struct Contents {
    source: String,
    kernels: Vec<Kernel>,
    variables: Vec<Variable>,
    /// For each variable of the text, which one of `variables` it is.
    places: Vec<Option<usize>>,
}

/// The kernels and variables of a PTX text. Clones share them.
///
/// ```
/// use straightline_ptx_interpreter::Module;
///
/// let module = Module::parse(
///     ".version 9.0\n.target sm_90\n.address_size 64\n.entry a() { ret; }\n.entry b() { ret; }",
/// )?;
/// let names: Vec<_> = module.kernels().map(|kernel| kernel.name()).collect();
/// assert_eq!(names, ["a", "b"]);
/// # Ok::<(), straightline_ptx_interpreter::ParseError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Module {
    contents: Arc<Contents>,
}

impl Module {
    /// Reads a PTX text.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::Module;
    /// assert_eq!(Module::parse(".version 9.0\n.target sm_90").unwrap().kernels().count(), 0);
    /// assert_eq!(Module::parse(".version 9.0\n.entry").unwrap_err().expected, "a name");
    /// ```
    pub fn parse(ptx: &str) -> Result<Module, ParseError> {
        let file = parse(ptx)?;
        let mut kernels = Vec::new();
        for function in file.functions.iter().filter(|function| function.entry) {
            kernels.push(kernel(ptx, &file, function)?);
        }
        let (mut variables, mut places) = (Vec::new(), Vec::new());
        for declared in &file.variables {
            let found = variable(declared);
            places.push(found.is_some().then_some(variables.len()));
            variables.extend(found);
        }
        let source = ptx.to_owned();
        Ok(Module { contents: Arc::new(Contents { source, kernels, variables, places }) })
    }

    /// The text.
    pub(crate) fn source(&self) -> &str {
        &self.contents.source
    }

    /// The kernels, in the order of the text.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::Module;
    /// let module = Module::parse(".version 9.0\n.entry a() { ret; }\n.entry b() { ret; }")?;
    /// assert_eq!(module.kernels().last().unwrap().name(), "b");
    /// # Ok::<(), straightline_ptx_interpreter::ParseError>(())
    /// ```
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.contents.kernels.iter()
    }

    /// The kernel of a name.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::Module;
    /// let module = Module::parse(".version 9.0\n.entry a() { ret; }")?;
    /// assert!(module.kernel("a").is_some() && module.kernel("b").is_none());
    /// # Ok::<(), straightline_ptx_interpreter::ParseError>(())
    /// ```
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels().find(|kernel| kernel.name == name)
    }

    /// The variables in global and constant memory, in the order of the text.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::Module;
    /// let module = Module::parse(".version 9.0\n.global .u32 x;\n.const .u32 y = 3;")?;
    /// assert_eq!(module.variables().filter(|variable| variable.constant).count(), 1);
    /// # Ok::<(), straightline_ptx_interpreter::ParseError>(())
    /// ```
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.contents.variables.iter()
    }

    /// Places the variables in the memory of a device.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::{DeviceMemory, Module};
    /// let module = Module::parse(".version 9.0\n.global .u32 x;")?;
    /// let mut memory = DeviceMemory::new(1024);
    /// let loaded = module.load(&mut memory)?;
    /// assert_eq!((memory.allocations(), loaded.address("y")), (1, None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn load(&self, memory: &mut DeviceMemory) -> Result<Loaded, MemoryError> {
        let mut addresses = Vec::with_capacity(self.contents.variables.len());
        for variable in self.variables() {
            let address = memory.allocate(variable.bytes().max(1))?;
            memory.write(address, &variable.initial)?;
            addresses.push((address, variable.bytes()));
        }
        let loaded = Loaded { module: self.clone(), addresses };
        for (variable, &(address, _)) in self.variables().zip(&loaded.addresses) {
            for (offset, name, addend) in &variable.addresses {
                if let Some((target, _)) = loaded.address(name) {
                    let value = target.wrapping_add_signed(*addend).to_le_bytes();
                    memory.write(address + *offset as u64, &value)?;
                }
            }
        }
        Ok(loaded)
    }
}

/// A module whose variables have addresses.
///
/// ```
/// use straightline_ptx_interpreter::{DeviceMemory, Module};
///
/// let module = Module::parse(".version 9.0\n.target sm_90\n.global .u32 counter = 5;")?;
/// let mut memory = DeviceMemory::default();
/// let loaded = module.load(&mut memory)?;
/// let (address, bytes) = loaded.address("counter").unwrap();
/// let mut contents = [0; 4];
/// memory.read(address, &mut contents)?;
/// assert_eq!((bytes, u32::from_le_bytes(contents)), (4, 5));
/// loaded.unload(&mut memory)?;
/// assert_eq!(memory.allocations(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Loaded {
    module: Module,
    addresses: Vec<(u64, u64)>,
}

impl Loaded {
    /// Address and bytes of a variable.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::{DeviceMemory, Module};
    /// let module = Module::parse(".version 9.0\n.global .u32 x;")?;
    /// let mut memory = DeviceMemory::new(1024);
    /// let loaded = module.load(&mut memory)?;
    /// assert_eq!(loaded.address("x").unwrap().1, 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn address(&self, name: &str) -> Option<(u64, u64)> {
        let index = self.module.variables().position(|variable| variable.name == name)?;
        self.addresses.get(index).copied()
    }

    /// The module.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::{DeviceMemory, Module};
    /// let module = Module::parse(".version 9.0\n.global .u32 x;")?;
    /// let mut memory = DeviceMemory::new(1024);
    /// let loaded = module.load(&mut memory)?;
    /// assert_eq!(loaded.module().variables().count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The address of a variable of the text.
    pub(crate) fn place(&self, index: usize) -> Option<u64> {
        let place = self.module.contents.places.get(index).copied()??;
        self.addresses.get(place).map(|&(address, _)| address)
    }

    /// Frees the variables.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::{DeviceMemory, Module};
    /// let module = Module::parse(".version 9.0\n.global .u32 x;")?;
    /// let mut memory = DeviceMemory::new(1024);
    /// let loaded = module.load(&mut memory)?;
    /// loaded.unload(&mut memory)?;
    /// assert_eq!(memory.in_use(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unload(self, memory: &mut DeviceMemory) -> Result<(), MemoryError> {
        self.addresses.iter().try_for_each(|&(address, _)| memory.free(address))
    }
}

fn kernel(
    source: &str,
    file: &ast::File<'_>,
    function: &ast::Function<'_>,
) -> Result<Kernel, ParseError> {
    let mut params = Vec::new();
    let mut end = 0usize;
    for param in &function.params {
        let alignment = param.alignment as usize;
        let offset = end.next_multiple_of(alignment);
        let bytes = param.bytes as usize;
        params.push(Param { offset, bytes, alignment });
        end = offset + bytes;
    }
    Ok(Kernel {
        name: function.name.to_owned(),
        params,
        max_threads: function.max_threads,
        required_threads: function.required_threads,
        program: decode(source, file, function)?,
    })
}

fn variable(declared: &ast::Variable<'_>) -> Option<Variable> {
    if !matches!(declared.place, Place::Global | Place::Const)
        || declared.linkage == Linkage::Extern
    {
        return None;
    }
    let mut initial = vec![0; declared.bytes as usize];
    let mut addresses = Vec::new();
    for value in &declared.initial {
        match *value {
            Initial::Bytes(at, bits) => {
                let (at, element) = (at as usize, declared.element.min(8) as usize);
                if let Some(into) = initial.get_mut(at..at + element) {
                    into.copy_from_slice(&bits.to_le_bytes()[..element]);
                }
            }
            Initial::Symbol(at, name, addend) => {
                addresses.push((at as usize, name.to_owned(), addend));
            }
        }
    }
    Some(Variable {
        name: declared.name.to_owned(),
        initial,
        alignment: declared.alignment,
        constant: declared.place == Place::Const,
        addresses,
    })
}
