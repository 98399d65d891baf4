//! Functions of modules: attributes, the checks of a launch, and how many blocks fit.

use super::device::{
    BLOCK_THREADS, MULTIPROCESSOR_BLOCKS, MULTIPROCESSOR_SHARED, MULTIPROCESSOR_THREADS,
    MULTIPROCESSORS, REGISTERS, SHARED, SHARED_MOST, SHARED_RESERVED,
};
use super::work::Kernel;
use super::{Driver, new_handle};
use crate::abi::Handle;
use crate::code::{Code, Outcome};
use crate::door::In;
use std::ffi::CString;
use std::sync::Arc;
use straightline_ptx_interpreter as ptx;

/// A kernel of a module.
pub(crate) struct Function {
    pub(crate) module: Handle,
    pub(crate) context: Handle,
    pub(crate) name: String,
    /// the name, for callers that want its address
    pub(crate) c_name: CString,
    /// offset and bytes of each parameter
    pub(crate) parameters: Vec<(usize, usize)>,
    pub(crate) parameter_bytes: usize,
    pub(crate) registers: u32,
    pub(crate) local: u32,
    pub(crate) static_shared: u32,
    pub(crate) max_threads: u32,
    /// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
    pub(crate) dynamic_most: u32,
    pub(crate) carveout: i32,
}

/// The code for a fault of a kernel.
pub(crate) fn code_of(fault: &ptx::Fault) -> Code {
    match &fault.kind {
        ptx::FaultKind::Memory(_)
        | ptx::FaultKind::SharedOutOfBounds { .. }
        | ptx::FaultKind::LocalOutOfBounds { .. } => Code::ILLEGAL_ADDRESS,
        ptx::FaultKind::Assertion(_) => Code::ASSERT,
        ptx::FaultKind::Misaligned { .. } => Code::MISALIGNED_ADDRESS,
        ptx::FaultKind::TooManyInstructions { .. } => Code::LAUNCH_TIMEOUT,
        ptx::FaultKind::Unsupported { .. } => Code::ILLEGAL_INSTRUCTION,
        _ => Code::LAUNCH_FAILED,
    }
}

impl Function {
    /// Blocks of so many threads that a multiprocessor holds at once.
    pub(crate) fn blocks(&self, threads: u32, dynamic: u32) -> u32 {
        if threads == 0 || threads > self.max_threads {
            return 0;
        }
        let warps = threads.div_ceil(32);
        // registers are given to a warp in units of 256
        let registers = (self.registers.max(1) * 32).div_ceil(256) * 256;
        let shared = (self.static_shared + dynamic + SHARED_RESERVED).div_ceil(128) * 128;
        let by_registers = REGISTERS / registers / warps;
        (MULTIPROCESSOR_THREADS / 32 / warps)
            .min(by_registers)
            .min(MULTIPROCESSOR_SHARED / shared)
            .min(MULTIPROCESSOR_BLOCKS)
    }

    /// The dynamic shared memory that each of so many blocks can have.
    pub(crate) fn dynamic_for(&self, blocks: u32, threads: u32) -> Outcome<usize> {
        if blocks == 0 || self.blocks(threads, 0) < blocks {
            return Err(Code::INVALID_VALUE);
        }
        let each = MULTIPROCESSOR_SHARED / blocks / 128 * 128;
        Ok(each.saturating_sub(SHARED_RESERVED + self.static_shared).min(self.dynamic_most)
            as usize)
    }

    /// `cuFuncGetAttribute`
    pub(crate) fn attribute(&self, number: i32) -> Outcome<i32> {
        Ok(match number {
            0 => self.max_threads as i32,
            1 => self.static_shared as i32,
            2 | 7 | 10..=15 => 0,
            3 => self.local as i32,
            4 => self.registers as i32,
            5 | 6 => 90,
            8 => self.dynamic_most as i32,
            9 => self.carveout,
            _ => return Err(Code::INVALID_VALUE),
        })
    }

    /// `cuFuncSetAttribute`
    pub(crate) fn set_attribute(&mut self, number: i32, value: i32) -> Outcome {
        match number {
            8 => {
                let most = SHARED_MOST.saturating_sub(self.static_shared);
                let value = u32::try_from(value).map_err(|_| Code::INVALID_VALUE)?;
                if value > most {
                    return Err(Code::INVALID_VALUE);
                }
                self.dynamic_most = value;
            }
            9 if (-1..=100).contains(&value) => self.carveout = value,
            // clusters
            11..=15 if value == 0 => {}
            11..=15 => return Err(Code::NOT_SUPPORTED),
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }

    /// The parameters as the kernel reads them, from one pointer for each.
    fn gather(&self, pointers: In<usize>) -> Outcome<Arc<[u8]>> {
        let mut bytes = vec![0; self.parameter_bytes];
        if !self.parameters.is_empty() {
            let pointers = pointers.all(self.parameters.len())?;
            for (&(offset, size), address) in self.parameters.iter().zip(pointers) {
                if address == 0 {
                    return Err(Code::INVALID_VALUE);
                }
                // SAFETY: a launch has a pointer for each parameter, to as many bytes as it has
                let value = unsafe { crate::door::read_host(address, size) };
                bytes[offset..offset + size].copy_from_slice(&value);
            }
        }
        Ok(bytes.into())
    }

    /// The parameters from the buffer of `CU_LAUNCH_PARAM_BUFFER_POINTER`.
    fn unpack(&self, extra: In<usize>) -> Outcome<Arc<[u8]>> {
        let mut address = 0;
        let mut size = 0;
        // pairs of a key and a value, until a zero
        for pair in 0..8 {
            let words = extra.all(2 * pair + 1)?;
            let key = words[2 * pair];
            if key == 0 {
                break;
            }
            let value = extra.all(2 * pair + 2)?[2 * pair + 1];
            match key {
                1 => address = value,
                2 => size = In::<usize>::at(value).get()?,
                _ => return Err(Code::INVALID_VALUE),
            }
        }
        if address == 0 || size < self.parameter_bytes {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller said that the buffer has so many bytes
        Ok(unsafe { crate::door::read_host(address, self.parameter_bytes) }.into())
    }
}

/// What a launch asks for.
pub(crate) struct Request {
    pub(crate) function: Handle,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    pub(crate) cooperative: bool,
}

impl Driver {
    /// The function of a handle.
    pub(crate) fn function(&self, handle: Handle) -> Outcome<&Function> {
        let function = self.functions.get(&handle).ok_or(Code::INVALID_HANDLE)?;
        self.intact(function.context)?;
        Ok(function)
    }

    /// The function of a module, by name; always the same handle.
    pub(crate) fn find_function(&mut self, module: Handle, name: &str) -> Outcome<Handle> {
        let row = self.module(module)?;
        let context = row.context;
        if let Some(known) = row.functions.iter().find(|known| self.functions[known].name == name) {
            return Ok(*known);
        }
        let kernel = row.text.kernel(name).ok_or(Code::NOT_FOUND)?;
        let max_threads = kernel
            .max_threads()
            .map_or(BLOCK_THREADS, |most| most.iter().product::<u32>().min(BLOCK_THREADS));
        let static_shared = kernel.static_shared();
        let registers = kernel.registers().clamp(16, 255);
        let function = Function {
            module,
            context,
            name: name.to_owned(),
            c_name: CString::new(name).map_err(|_| Code::INVALID_VALUE)?,
            parameters: kernel
                .params()
                .iter()
                .map(|parameter| (parameter.offset, parameter.bytes))
                .collect(),
            parameter_bytes: kernel.param_bytes(),
            // as many as leave room for a block of the largest size that was declared
            registers: registers.min(REGISTERS / max_threads.div_ceil(32) / 32),
            local: kernel.local_bytes(),
            static_shared,
            max_threads,
            dynamic_most: SHARED.saturating_sub(static_shared),
            carveout: -1,
        };
        let handle = new_handle();
        self.functions.insert(handle, function);
        if let Some(row) = self.modules.get_mut(&module) {
            row.functions.push(handle);
        }
        Ok(handle)
    }

    /// Checks a launch and copies its parameters.
    pub(crate) fn prepare(
        &self,
        request: &Request,
        parameters: In<usize>,
        extra: In<usize>,
    ) -> Outcome<Kernel> {
        let function = self.function(request.function)?;
        let (grid, block) = (request.grid, request.block);
        let threads = block.iter().try_fold(1_u32, |product, &size| product.checked_mul(size));
        let threads = threads.unwrap_or(u32::MAX);
        let grid_fits = (1..=i32::MAX as u32).contains(&grid[0])
            && grid[1..].iter().all(|size| (1..=65_535).contains(size));
        let block_fits = threads > 0
            && threads <= BLOCK_THREADS
            && block[2] <= 64
            && block.iter().all(|&size| size > 0);
        if !grid_fits || !block_fits || threads > function.max_threads {
            return Err(Code::INVALID_VALUE);
        }
        if request.shared > function.dynamic_most {
            return Err(Code::INVALID_VALUE);
        }
        let blocks = function.blocks(threads, request.shared);
        if blocks == 0 {
            return Err(Code::LAUNCH_OUT_OF_RESOURCES);
        }
        if request.cooperative {
            let asked = grid.iter().map(|&size| u64::from(size)).product::<u64>();
            if asked > u64::from(blocks) * MULTIPROCESSORS as u64 {
                return Err(Code::COOPERATIVE_LAUNCH_TOO_LARGE);
            }
        }
        let parameters = if extra.is_null() {
            function.gather(parameters)?
        } else if parameters.is_null() {
            function.unpack(extra)?
        } else {
            return Err(Code::INVALID_VALUE);
        };
        Ok(Kernel {
            function: request.function,
            grid,
            block,
            shared: request.shared,
            parameters,
            cooperative: request.cooperative,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(registers: u32, static_shared: u32) -> Function {
        Function {
            module: 0,
            context: 0,
            name: String::new(),
            c_name: CString::default(),
            parameters: Vec::new(),
            parameter_bytes: 0,
            registers,
            local: 0,
            static_shared,
            max_threads: 1024,
            dynamic_most: SHARED - static_shared,
            carveout: -1,
        }
    }

    #[test]
    fn the_scarcest_resource_limits_the_blocks() {
        assert_eq!(function(32, 0).blocks(1024, 0), 2);
        assert_eq!(function(32, 0).blocks(32, 0), 32);
        assert_eq!(function(128, 0).blocks(256, 0), 2);
        assert_eq!(function(32, 40 << 10).blocks(128, 0), 5);
        assert_eq!(function(32, 0).blocks(2048, 0), 0);
    }

    #[test]
    fn dynamic_memory_above_48_kib_is_asked_for() {
        let mut function = function(32, 1 << 10);
        assert_eq!(function.attribute(8), Ok(47 << 10));
        assert_eq!(function.set_attribute(8, 226 << 10), Ok(()));
        assert_eq!(function.set_attribute(8, 227 << 10), Err(Code::INVALID_VALUE));
        assert_eq!(function.attribute(8), Ok(226 << 10));
    }
}
