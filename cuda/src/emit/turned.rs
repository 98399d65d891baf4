//! Operands that lie the other way round: a block loads a tile of them along the axis along which they lie,
//! and reads it from shared memory along the other one.

use super::mapping::product;
use super::types::{element, widened};
use super::writer::{Writer, axis_name};
use straightline_passes::schedule::loops::{Axis, AxisId, Inst, Kernel, Mem, Op, Vectorize};

/// Rows and columns of a tile.
const TILE: i64 = 32;
/// Shorter axes leave most of a tile empty.
const SHORT: i64 = 16;

/// The axis along which an access is of neighbouring elements, if it is not `inner`.
fn turned_along(inst: &Inst, inner: AxisId) -> Option<AxisId> {
    let Op::Load { mem: Mem::Buffer(_), index } = &inst.op else { return None };
    let (across, plain) = (index.stride(inner), index.dynamic.is_empty());
    let along = index.terms.iter().find(|(id, stride)| *stride == 1 && *id != inner);
    along.filter(|_| plain && across.abs() > 1).map(|(id, _)| *id)
}

/// The axis along which operands of a kernel of points lie, and which loads are of these.
pub(super) fn operands(kernel: &Kernel) -> Option<(Axis, Vec<usize>)> {
    let ([stage], Some(inner)) = (&kernel.stages[..], kernel.grid.last()) else { return None };
    let along = |inst: &Inst| turned_along(inst, inner.id);
    let first = stage.body.iter().find_map(along)?;
    let axis = *kernel.grid.iter().find(|a| a.id == first)?;
    let loads = stage.body.iter().enumerate().filter(|(_, i)| along(i) == Some(first));
    let long = axis.extent >= SHORT && inner.extent >= SHORT;
    (long && kernel.vectorize == Vectorize::Grid).then(|| (axis, loads.map(|(i, _)| i).collect()))
}

/// The tiles of a kernel that has such operands, if tiles of them all fit.
pub(super) fn tiles(kernel: &Kernel, shared: i64) -> Option<i64> {
    let (axis, loads) = operands(kernel)?;
    let size = |i: &usize| kernel.stages[0].body[*i].dtype.size() as i64;
    let bytes: i64 = loads.iter().map(|i| size(i) * TILE * (TILE + 1)).sum();
    let inner = kernel.grid.last()?;
    let up = |n: i64| n / TILE + i64::from(n % TILE != 0);
    let others = kernel.points() / (axis.extent * inner.extent).max(1);
    (bytes <= shared).then(|| others * up(axis.extent) * up(inner.extent))
}

impl Writer<'_> {
    /// The whole function but for its first line.
    pub(super) fn tiles(&mut self) {
        let kernel = self.kernel;
        let (Some((along, loads)), Some(inner)) = (operands(kernel), kernel.grid.last().copied())
        else {
            return;
        };
        let body = &kernel.stages[0].body;
        for i in &loads {
            let ty = element(body[*i].dtype);
            self.line(format!("__shared__ {ty} turned{i}[{TILE}][{}];", TILE + 1));
        }
        let ty = self.index_type();
        let (a, b) = (axis_name(along.id.0), axis_name(inner.id.0));
        let (extent, extent_inner) = (self.number(along.extent), self.number(inner.extent));
        self.line(format!("const {ty} x = threadIdx.x % {TILE}, y = threadIdx.x / {TILE};"));
        self.line(format!("const {ty} {a}n = {extent}, {b}n = {extent_inner};"));
        self.line(format!(
            "const {ty} {a}tiles = ({a}n + {}) / {TILE}, {b}tiles = ({b}n + {}) / {TILE};",
            TILE - 1,
            TILE - 1
        ));
        let others: Vec<Axis> =
            kernel.grid.iter().filter(|x| x.id != along.id && x.id != inner.id).copied().collect();
        let count = self.number(product(&others));
        self.line(format!("const {ty} tiles = {count} * {a}tiles * {b}tiles;"));
        self.open(format!("for ({ty} tile = blockIdx.x; tile < tiles; tile += gridDim.x) {{"));
        self.line(format!(
            "const {ty} {b}first = tile % {b}tiles * {TILE}, above = tile / {b}tiles;"
        ));
        self.line(format!("const {ty} {a}first = above % {a}tiles * {TILE};"));
        if !others.is_empty() {
            self.line(format!("const {ty} others = above / {a}tiles;"));
            self.axes(&others, "others");
        }
        let rows = format!("for (int r = y; r < {TILE}; r += blockDim.x / {TILE}) {{");
        self.open(&rows);
        self.line(format!("const {ty} {a} = {a}first + x, {b} = {b}first + r;"));
        self.open(format!("if ({a} < {a}n && {b} < {b}n) {{"));
        for i in &loads {
            let Op::Load { mem, index } = &body[*i].op else { continue };
            let index = self.index(index, super::body::name);
            let place = self.place(mem, index);
            self.line(format!("turned{i}[r][x] = {place};"));
        }
        self.close();
        self.close();
        self.line("__syncthreads();");
        self.open(&rows);
        self.line(format!("const {ty} {b} = {b}first + x, {a} = {a}first + r;"));
        self.open(format!("if ({a} < {a}n && {b} < {b}n) {{"));
        for (i, inst) in body.iter().enumerate() {
            if loads.contains(&i) {
                let value = widened(inst.dtype, &format!("turned{i}[x][r]"));
                self.define(i, inst, &value);
            } else {
                self.instruction(i, inst, body);
            }
        }
        self.close();
        self.close();
        self.line("__syncthreads();");
        self.close();
    }
}
