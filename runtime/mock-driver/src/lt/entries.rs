//! The entry points of cuBLASLt.

use super::Status;
use super::compute::{Call, Factor, Product};
use super::descriptor::{self, Descriptor, Of};
use super::kind::Kind;
use crate::abi::Handle;
use crate::door::{In, Out, entries};
use crate::driver::Session;
use crate::driver::work::Work;
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// The version that CUDA 13.0 comes with.
const VERSION: usize = 130_000;
/// Marks algorithms that the heuristic gave.
const MARK: u64 = 0x5354_524C_4D4F_434B;
/// Bytes of workspace that algorithms like.
const WORKSPACE: u64 = 64 << 10;

/// `cublasLtMatmulAlgo_t`: a mark, bytes of workspace, and the rest unused.
pub(crate) type Algorithm = [u64; 8];

/// `cublasLtMatmulHeuristicResult_t`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Heuristic {
    algorithm: Algorithm,
    workspace: usize,
    state: Status,
    waves: f32,
    reserved: [c_int; 4],
}

/// Reads an attribute that a caller sets.
fn set(of: Of, handle: Handle, number: c_int, buffer: In<u8>, size: usize) -> Result<(), Status> {
    descriptor::get(of, handle)?;
    let bytes = descriptor::size(of, number).ok_or(Status::INVALID_VALUE)?;
    if size != bytes {
        return Err(Status::INVALID_VALUE);
    }
    descriptor::set(of, handle, number, buffer.all(bytes)?)
}

/// Writes an attribute that a caller gets; without room, only how large it is.
fn get(
    of: Of,
    handle: Handle,
    number: c_int,
    buffer: &Out<u8>,
    size: usize,
    written: &Out<usize>,
) -> Result<(), Status> {
    let bytes = descriptor::get(of, handle)?.raw(number).ok_or(Status::INVALID_VALUE)?;
    written.offer(bytes.len());
    if size == 0 && !written.is_null() {
        return Ok(());
    }
    if size < bytes.len() {
        return Err(Status::INVALID_VALUE);
    }
    Ok(buffer.set_all(bytes)?)
}

fn layouts(handles: [Handle; 4]) -> Result<[Descriptor; 4], Status> {
    let [a, b, c, d] = handles.map(|handle| descriptor::get(Of::Matrix, handle));
    Ok([a?, b?, c?, d?])
}

/// What an algorithm for a product looks like, if the product is one that can be computed.
fn heuristic(operation: Handle, handles: [Handle; 4], most: u64) -> Result<Heuristic, Status> {
    let operation = descriptor::get(Of::Product, operation)?;
    let layouts = layouts(handles)?;
    Product::new(&Call {
        operation: &operation,
        layouts: layouts.each_ref(),
        addresses: [0; 4],
        alpha: Factor::Value(1.0),
        beta: Factor::Value(0.0),
    })?;
    let workspace = WORKSPACE.min(most);
    let mut algorithm = [0; 8];
    (algorithm[0], algorithm[1]) = (MARK, workspace);
    Ok(Heuristic {
        algorithm,
        workspace: workspace as usize,
        state: Status(0),
        waves: 1.0,
        reserved: [0; 4],
    })
}

/// `cublasLtGetVersion`
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the interface of C")]
pub(crate) extern "C" fn cublasLtGetVersion() -> usize {
    VERSION
}

/// `cublasLtGetCudartVersion`
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the interface of C")]
pub(crate) extern "C" fn cublasLtGetCudartVersion() -> usize {
    13_000
}

/// `cublasLtGetStatusName`
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the interface of C")]
pub(crate) extern "C" fn cublasLtGetStatusName(status: Status) -> *const c_char {
    status.text().0.as_ptr()
}

/// `cublasLtGetStatusString`
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the interface of C")]
pub(crate) extern "C" fn cublasLtGetStatusString(status: Status) -> *const c_char {
    status.text().1.as_ptr()
}

entries! {
    Status;

    fn cublasLtCreate(handle: Out<Handle>) {
        Session::open().context()?;
        Ok(handle.set(descriptor::create(Of::Library, &[]))?)
    }

    fn cublasLtDestroy(handle: Handle) {
        descriptor::destroy(Of::Library, handle).map_err(|_| Status::NOT_INITIALIZED)
    }

    fn cublasLtGetProperty(property: c_int, value: Out<c_int>) {
        let value_of = [13, 0, 0].get(property as usize).ok_or(Status::INVALID_VALUE)?;
        Ok(value.set(*value_of)?)
    }

    fn cublasLtLoggerSetLevel(_level: c_int) {
        Ok(())
    }

    fn cublasLtLoggerSetMask(_mask: c_int) {
        Ok(())
    }

    fn cublasLtLoggerOpenFile(_path: In<u8>) {
        Ok(())
    }

    fn cublasLtLoggerForceDisable() {
        Ok(())
    }

    fn cublasLtMatmulDescCreate(desc: Out<Handle>, compute: c_int, scale: c_int) {
        let attributes = [(0, &compute.to_le_bytes()[..]), (1, &scale.to_le_bytes()[..])];
        Ok(desc.set(descriptor::create(Of::Product, &attributes))?)
    }

    fn cublasLtMatmulDescDestroy(desc: Handle) {
        descriptor::destroy(Of::Product, desc)
    }

    fn cublasLtMatmulDescSetAttribute(desc: Handle, attribute: c_int, buffer: In<u8>, size: usize) {
        set(Of::Product, desc, attribute, buffer, size)
    }

    fn cublasLtMatmulDescGetAttribute(
        desc: Handle,
        attribute: c_int,
        buffer: Out<u8>,
        size: usize,
        written: Out<usize>,
    ) {
        get(Of::Product, desc, attribute, &buffer, size, &written)
    }

    fn cublasLtMatrixLayoutCreate(
        layout: Out<Handle>,
        kind: c_int,
        rows: u64,
        columns: u64,
        leading: i64,
    ) {
        let attributes = [
            (0, &kind.to_le_bytes()[..]),
            (2, &rows.to_le_bytes()[..]),
            (3, &columns.to_le_bytes()[..]),
            (4, &leading.to_le_bytes()[..]),
        ];
        Ok(layout.set(descriptor::create(Of::Matrix, &attributes))?)
    }

    fn cublasLtMatrixLayoutDestroy(layout: Handle) {
        descriptor::destroy(Of::Matrix, layout)
    }

    fn cublasLtMatrixLayoutSetAttribute(
        layout: Handle,
        attribute: c_int,
        buffer: In<u8>,
        size: usize,
    ) {
        set(Of::Matrix, layout, attribute, buffer, size)
    }

    fn cublasLtMatrixLayoutGetAttribute(
        layout: Handle,
        attribute: c_int,
        buffer: Out<u8>,
        size: usize,
        written: Out<usize>,
    ) {
        get(Of::Matrix, layout, attribute, &buffer, size, &written)
    }

    fn cublasLtMatmulPreferenceCreate(preference: Out<Handle>) {
        Ok(preference.set(descriptor::create(Of::Preference, &[]))?)
    }

    fn cublasLtMatmulPreferenceDestroy(preference: Handle) {
        descriptor::destroy(Of::Preference, preference)
    }

    fn cublasLtMatmulPreferenceSetAttribute(
        preference: Handle,
        attribute: c_int,
        buffer: In<u8>,
        size: usize,
    ) {
        set(Of::Preference, preference, attribute, buffer, size)
    }

    fn cublasLtMatmulPreferenceGetAttribute(
        preference: Handle,
        attribute: c_int,
        buffer: Out<u8>,
        size: usize,
        written: Out<usize>,
    ) {
        get(Of::Preference, preference, attribute, &buffer, size, &written)
    }

    fn cublasLtMatmulAlgoGetHeuristic(
        handle: Handle,
        operation: Handle,
        a: Handle,
        b: Handle,
        c: Handle,
        d: Handle,
        preference: Handle,
        requested: c_int,
        results: Out<Heuristic>,
        count: Out<c_int>,
    ) {
        descriptor::get(Of::Library, handle).map_err(|_| Status::NOT_INITIALIZED)?;
        let preference = descriptor::get(Of::Preference, preference)?;
        if requested < 1 {
            return Err(Status::INVALID_VALUE);
        }
        count.offer(0);
        let found = heuristic(operation, [a, b, c, d], preference.long(1).cast_unsigned())?;
        results.set(found)?;
        Ok(count.set(1)?)
    }

    fn cublasLtMatmulAlgoGetIds(
        handle: Handle,
        _compute: c_int,
        _scale: c_int,
        _a: c_int,
        _b: c_int,
        _c: c_int,
        _d: c_int,
        requested: c_int,
        numbers: Out<c_int>,
        count: Out<c_int>,
    ) {
        descriptor::get(Of::Library, handle).map_err(|_| Status::NOT_INITIALIZED)?;
        if requested < 1 {
            return Err(Status::INVALID_VALUE);
        }
        numbers.set(0)?;
        Ok(count.set(1)?)
    }

    fn cublasLtMatmulAlgoInit(
        handle: Handle,
        _compute: c_int,
        _scale: c_int,
        _a: c_int,
        _b: c_int,
        _c: c_int,
        _d: c_int,
        number: c_int,
        algorithm: Out<Algorithm>,
    ) {
        descriptor::get(Of::Library, handle).map_err(|_| Status::NOT_INITIALIZED)?;
        if number != 0 {
            return Err(Status::INVALID_VALUE);
        }
        Ok(algorithm.set([MARK, 0, 0, 0, 0, 0, 0, 0])?)
    }

    fn cublasLtMatmulAlgoCheck(
        handle: Handle,
        operation: Handle,
        a: Handle,
        b: Handle,
        c: Handle,
        d: Handle,
        algorithm: In<Algorithm>,
        result: Out<Heuristic>,
    ) {
        descriptor::get(Of::Library, handle).map_err(|_| Status::NOT_INITIALIZED)?;
        let algorithm = algorithm.get()?;
        if algorithm[0] != MARK {
            return Err(Status::INVALID_VALUE);
        }
        Ok(result.set(heuristic(operation, [a, b, c, d], algorithm[1])?)?)
    }

    fn cublasLtMatmul(
        handle: Handle,
        operation: Handle,
        alpha: In<u8>,
        a: u64,
        a_layout: Handle,
        b: u64,
        b_layout: Handle,
        beta: In<u8>,
        c: u64,
        c_layout: Handle,
        d: u64,
        d_layout: Handle,
        algorithm: In<Algorithm>,
        workspace: u64,
        workspace_bytes: usize,
        stream: Handle,
    ) {
        descriptor::get(Of::Library, handle).map_err(|_| Status::NOT_INITIALIZED)?;
        let operation = descriptor::get(Of::Product, operation)?;
        let layouts = layouts([a_layout, b_layout, c_layout, d_layout])?;
        let scale = Kind::of(operation.int(1)).ok_or(Status::NOT_SUPPORTED)?;
        let factor = |value: In<u8>| match operation.int(2) {
            0 => Ok(Factor::Value(scale.read(&value.all(scale.bytes())?, 0))),
            1 => Ok(Factor::Device(value.address() as u64)),
            _ => Err(Status::NOT_SUPPORTED),
        };
        let mut product = Product::new(&Call {
            operation: &operation,
            layouts: layouts.each_ref(),
            addresses: [a, b, c, d],
            alpha: factor(alpha)?,
            beta: factor(beta)?,
        })?;
        if a == 0 || b == 0 || d == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let needed = match algorithm.is_null() {
            true => 0,
            false => {
                let algorithm = algorithm.get()?;
                if algorithm[0] != MARK {
                    return Err(Status::INVALID_VALUE);
                }
                algorithm[1] as usize
            }
        };
        if needed > workspace_bytes || needed > 0 && (workspace == 0 || !workspace.is_multiple_of(16)) {
            return Err(Status::INVALID_VALUE);
        }
        product.workspace = (workspace, needed);
        let mut session = Session::open();
        let stream = session.stream(stream)?;
        session.submit(stream, Work::Product(Arc::new(product)), &[])?;
        Ok(())
    }
}
