//! Modules and libraries. A library is a module whose kernels are functions of all contexts; here
//! both have the same handles.

use crate::abi::Handle;
use crate::code::{Code, Outcome};
use crate::door::{Address, In, Out, Text, entries, read_host, write_host};
use crate::driver::module::foreign;
use crate::driver::{Failure, Session};
use std::ffi::{CStr, c_char, c_uint};

/// Bytes that a fat binary or a CUBIN surely has.
const START: usize = 4;

/// The options of `cuModuleLoadDataEx` that are read: where the error log goes.
#[derive(Default)]
struct Log {
    buffer: Address,
    bytes: usize,
}

impl Log {
    fn new(count: c_uint, options: In<c_uint>, values: In<usize>) -> Outcome<Log> {
        let mut log = Log::default();
        let options = options.all(count as usize)?;
        for (option, value) in options.into_iter().zip(values.all(count as usize)?) {
            match option {
                5 => log.buffer = value,
                // a number in the place of a pointer
                6 => log.bytes = value & 0xFFFF_FFFF,
                _ => {}
            }
        }
        Ok(log)
    }

    fn write(&self, text: &str) {
        let Some(room) = self.bytes.checked_sub(1).filter(|_| self.buffer != 0) else { return };
        let mut bytes = text.as_bytes()[..text.len().min(room)].to_vec();
        bytes.push(0);
        // SAFETY: the caller said that its buffer has so many bytes
        unsafe { write_host(self.buffer, &bytes) };
    }
}

fn load(session: &mut Session, image: Address, log: &Log) -> Outcome<Handle> {
    let context = session.context()?;
    session.refuse_unsafe()?;
    if image == 0 {
        return Err(Code::INVALID_VALUE);
    }
    // text may be shorter than this; it then ends with a zero, where reading stops
    let mut start = Vec::new();
    for index in 0..START {
        // SAFETY: an image has a byte here: no zero came before it
        let byte = unsafe { read_host(image + index, 1) };
        start.extend(&byte);
        if byte == [0] {
            break;
        }
    }
    let result = match foreign(&start) {
        Some(what) => Err(Failure {
            code: Code::NO_BINARY_FOR_GPU,
            text: format!("{what} cannot be run: the PTX emulator runs PTX only"),
        }),
        None => {
            let image = std::ptr::with_exposed_provenance::<c_char>(image);
            // SAFETY: an image that is no binary is text that ends with a zero
            match unsafe { CStr::from_ptr(image) }.to_str() {
                Ok(text) => session.load(context, text),
                Err(_) => Err(Failure {
                    code: Code::INVALID_IMAGE,
                    text: "the image is neither PTX nor a known binary".to_owned(),
                }),
            }
        }
    };
    result.map_err(|failure| {
        log.write(&failure.text);
        session.fault = failure.text;
        failure.code
    })
}

fn load_file(path: Text) -> Outcome<Handle> {
    let bytes = std::fs::read(path.get()?).map_err(|_| Code::FILE_NOT_FOUND)?;
    let mut image = bytes;
    image.push(0);
    load(&mut Session::open(), image.as_ptr().expose_provenance(), &Log::default())
}

fn global(address: &Out<u64>, bytes: &Out<usize>, module: Handle, name: Text) -> Outcome {
    let session = Session::open();
    session.context()?;
    let found = session.module(module)?.loaded.address(&name.get()?);
    let (start, length) = found.ok_or(Code::NOT_FOUND)?;
    address.offer(start);
    bytes.offer(length as usize);
    Ok(())
}

fn unload(module: Handle) -> Outcome {
    let mut session = Session::open();
    let row = session.modules.get(&module).ok_or(Code::INVALID_HANDLE)?;
    let context = row.context;
    // unloading waits for kernels that are queued; those of graphs are nobody's concern
    session.drain_context(context);
    session.unload(module);
    Ok(())
}

fn names(session: &Session, module: Handle) -> Outcome<Vec<String>> {
    Ok(session.module(module)?.text.kernels().map(|kernel| kernel.name().to_owned()).collect())
}

fn enumerate(functions: &Out<Handle>, count: c_uint, module: Handle) -> Outcome {
    let mut session = Session::open();
    let mut handles = Vec::new();
    for name in names(&session, module)?.iter().take(count as usize) {
        handles.push(session.find_function(module, name)?);
    }
    functions.set_all(handles)
}

entries! {
    Code;

    fn cuModuleLoad(module: Out<Handle>, path: Text) {
        module.set(load_file(path)?)
    }

    fn cuModuleLoadData(module: Out<Handle>, image: Address) {
        module.set(load(&mut Session::open(), image, &Log::default())?)
    }

    fn cuModuleLoadDataEx(
        module: Out<Handle>,
        image: Address,
        count: c_uint,
        options: In<c_uint>,
        values: In<usize>,
    ) {
        let log = Log::new(count, options, values)?;
        module.set(load(&mut Session::open(), image, &log)?)
    }

    fn cuModuleLoadFatBinary(module: Out<Handle>, image: Address) {
        module.set(load(&mut Session::open(), image, &Log::default())?)
    }

    fn cuModuleUnload(module: Handle) {
        unload(module)
    }

    fn cuModuleGetFunction(function: Out<Handle>, module: Handle, name: Text) {
        let mut session = Session::open();
        session.context()?;
        function.set(session.find_function(module, &name.get()?)?)
    }

    fn cuModuleGetFunctionCount(count: Out<c_uint>, module: Handle) {
        count.set(names(&Session::open(), module)?.len() as c_uint)
    }

    fn cuModuleEnumerateFunctions(functions: Out<Handle>, count: c_uint, module: Handle) {
        enumerate(&functions, count, module)
    }

    fn cuModuleGetGlobal_v2(address: Out<u64>, bytes: Out<usize>, module: Handle, name: Text) {
        global(&address, &bytes, module, name)
    }

    fn cuModuleGetLoadingMode(mode: Out<c_uint>) {
        // eager
        mode.set(1)
    }

    fn cuLibraryLoadData(
        library: Out<Handle>,
        image: Address,
        options: In<c_uint>,
        values: In<usize>,
        count: c_uint,
        _library_options: In<c_uint>,
        _library_values: In<usize>,
        _library_count: c_uint,
    ) {
        let log = Log::new(count, options, values)?;
        library.set(load(&mut Session::open(), image, &log)?)
    }

    fn cuLibraryLoadFromFile(
        library: Out<Handle>,
        path: Text,
        _options: In<c_uint>,
        _values: In<usize>,
        _count: c_uint,
        _library_options: In<c_uint>,
        _library_values: In<usize>,
        _library_count: c_uint,
    ) {
        library.set(load_file(path)?)
    }

    fn cuLibraryUnload(library: Handle) {
        unload(library)
    }

    fn cuLibraryGetKernel(kernel: Out<Handle>, library: Handle, name: Text) {
        kernel.set(Session::open().find_function(library, &name.get()?)?)
    }

    fn cuLibraryGetKernelCount(count: Out<c_uint>, library: Handle) {
        count.set(names(&Session::open(), library)?.len() as c_uint)
    }

    fn cuLibraryEnumerateKernels(kernels: Out<Handle>, count: c_uint, library: Handle) {
        enumerate(&kernels, count, library)
    }

    fn cuLibraryGetModule(module: Out<Handle>, library: Handle) {
        Session::open().module(library)?;
        module.set(library)
    }

    fn cuLibraryGetGlobal(address: Out<u64>, bytes: Out<usize>, library: Handle, name: Text) {
        global(&address, &bytes, library, name)
    }

    fn cuKernelGetFunction(function: Out<Handle>, kernel: Handle) {
        Session::open().function(kernel)?;
        function.set(kernel)
    }
}
