use super::count::{conflicts, sectors};
use super::warp::{Group, PendingCopy, Warp, assign, lanes};
use super::{Machine, Outcome, condition, source, trouble};
use crate::fault::FaultKind;
use crate::number::{LANES, Lanes};
use crate::program::{
    Access, Address, AsyncCopy, Atomic, LOCAL_WINDOW, PARAM_WINDOW, Register, SHARED_WINDOW, Space,
    WINDOW,
};

/// A little-endian number of `bytes` bytes.
#[inline(always)]
fn number(data: &[u8], at: usize, bytes: u32) -> u64 {
    let data = &data[at..];
    match bytes {
        4 => data.first_chunk().map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes))),
        8 => data.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)),
        2 => data.first_chunk().map_or(0, |bytes| u64::from(u16::from_le_bytes(*bytes))),
        _ => data.first().map_or(0, |&byte| byte.into()),
    }
}

#[inline(always)]
fn place(data: &mut [u8], at: usize, bytes: u32, value: u64) {
    let data = &mut data[at..];
    match bytes {
        4 => {
            if let Some(slot) = data.first_chunk_mut() {
                *slot = (value as u32).to_le_bytes();
            }
        }
        8 => {
            if let Some(slot) = data.first_chunk_mut() {
                *slot = value.to_le_bytes();
            }
        }
        2 => {
            if let Some(slot) = data.first_chunk_mut() {
                *slot = (value as u16).to_le_bytes();
            }
        }
        _ => {
            if let Some(slot) = data.first_mut() {
                *slot = value as u8;
            }
        }
    }
}

/// What a load does with an element.
#[derive(Clone, Copy)]
struct Element<'a> {
    registers: &'a [Option<Register>],
    bytes: u32,
    signed: bool,
    base: u32,
}

impl Element<'_> {
    fn extend(&self, value: u64) -> u64 {
        let unused = 64 - 8 * self.bytes;
        if self.signed { ((value << unused) as i64 >> unused) as u64 } else { value }
    }

    #[inline(always)]
    fn take(&self, warp: &mut [Lanes], lane: usize, data: &[u8], at: usize) {
        for (index, register) in self.registers.iter().enumerate() {
            if let Some(register) = register {
                let value = number(data, at + index * self.bytes as usize, self.bytes);
                warp[(self.base + register) as usize][lane] = self.extend(value);
            }
        }
    }

    /// All lanes at once, at offsets that are known to be inside.
    fn gather(&self, warp: &mut [Lanes], data: &[u8], offsets: &Lanes, active: u32) {
        for (index, register) in self.registers.iter().enumerate() {
            let Some(register) = register else { continue };
            let at = index * self.bytes as usize;
            let mut out = match self.bytes {
                4 => each(data, offsets, at, |bytes| u32::from_le_bytes(bytes).into()),
                8 => each(data, offsets, at, u64::from_le_bytes),
                2 => each(data, offsets, at, |bytes| u16::from_le_bytes(bytes).into()),
                _ => each(data, offsets, at, |[byte]: [u8; 1]| byte.into()),
            };
            if self.signed {
                out = out.map(|value| self.extend(value));
            }
            assign(&mut warp[(self.base + register) as usize], &out, active);
        }
    }
}

#[inline(always)]
fn each<const N: usize>(
    data: &[u8],
    offsets: &Lanes,
    at: usize,
    number: impl Fn([u8; N]) -> u64,
) -> Lanes {
    offsets.map(|offset| {
        let bytes = data.get(offset as usize + at..).and_then(|data| data.first_chunk());
        bytes.map_or(0, |bytes| number(*bytes))
    })
}

/// The offsets of the active lanes from a base, if all are aligned and inside; of the others 0.
#[inline(always)]
fn inside(addresses: &Lanes, base: u64, active: u32, bytes: u32, size: u64) -> Option<Lanes> {
    let (mut offsets, mut largest, mut bits) = ([0; LANES], 0, 0);
    for lane in 0..LANES {
        let mask = 0u64.wrapping_sub(u64::from(active >> lane & 1));
        let offset = addresses[lane].wrapping_sub(base) & mask;
        offsets[lane] = offset;
        largest = offset.max(largest);
        bits |= offset;
    }
    let aligned = bits & u64::from(bytes - 1) == 0;
    (aligned && largest.checked_add(bytes.into()).is_some_and(|end| end <= size)).then_some(offsets)
}

impl Machine<'_> {
    #[inline(always)]
    pub(super) fn addresses(&self, warp: &Warp, group: &Group, address: &Address) -> Lanes {
        let offset = if address.in_frame {
            address.offset.wrapping_add(group.local.into())
        } else {
            address.offset
        };
        match address.base {
            None => [offset as u64; LANES],
            Some(base) => source(&warp.registers, &self.constants, group, base)
                .map(|base| base.wrapping_add_signed(offset)),
        }
    }

    /// Runs a function for each space that generic addresses are in, with offsets in that space.
    fn by_space(
        &mut self,
        addresses: &Lanes,
        space: Space,
        active: u32,
        mut each: impl FnMut(&mut Self, Space, &Lanes, u32) -> Outcome<()>,
    ) -> Outcome<()> {
        if space != Space::Generic {
            // addresses of 32 bits may have been extended with their sign
            if space == Space::Shared
                && addresses.iter().any(|address| address >> 32 == 0xffff_ffff)
            {
                return each(self, space, &addresses.map(|address| address & 0xffff_ffff), active);
            }
            return each(self, space, addresses, active);
        }
        let windows = [
            (Space::Shared, SHARED_WINDOW),
            (Space::Local, LOCAL_WINDOW),
            (Space::Param, PARAM_WINDOW),
        ];
        let mut left = active;
        for (space, window) in windows {
            let inside =
                lanes(active).filter(|&lane| addresses[lane].wrapping_sub(window) < WINDOW);
            let mask = inside.fold(0, |mask, lane| mask | 1 << lane);
            if mask != 0 {
                each(self, space, &addresses.map(|address| address.wrapping_sub(window)), mask)?;
                left &= !mask;
            }
        }
        if left != 0 { each(self, Space::Global, addresses, left) } else { Ok(()) }
    }

    #[inline]
    pub(super) fn load(
        &mut self,
        warp: &mut Warp,
        group: &Group,
        access: &Access,
        active: u32,
        pc: u32,
    ) -> Outcome<()> {
        let addresses = self.addresses(warp, group, &access.address);
        let element = Element {
            registers: &access.registers,
            bytes: access.bytes,
            signed: access.signed,
            base: group.registers,
        };
        let total = access.bytes * access.registers.len() as u32;
        self.strong += u32::from(access.strong);
        if access.address.space == Space::Global {
            return self.load_global(warp, element, total, &addresses, active);
        }
        self.by_space(&addresses, access.address.space, active, |machine, space, at, mask| {
            match space {
                Space::Shared => {
                    machine.statistics.shared_loads += u64::from(mask.count_ones());
                    machine.statistics.bank_conflicts += conflicts(at, mask, total);
                    if let Some(offsets) = inside(at, 0, mask, total, machine.shared.size()) {
                        if machine.shared.checks() {
                            for lane in lanes(mask) {
                                let user = machine.user(warp, lane, pc, access.strong);
                                if let Err(kind) = machine.shared.note_read(user, at[lane], total) {
                                    return trouble(lane, kind);
                                }
                            }
                        }
                        element.gather(
                            &mut warp.registers,
                            machine.shared.contents(),
                            &offsets,
                            mask,
                        );
                        return Ok(());
                    }
                    for lane in lanes(mask) {
                        let user = machine.user(warp, lane, pc, access.strong);
                        match machine.shared.read(user, at[lane], total) {
                            Ok(data) => element.take(&mut warp.registers, lane, data, 0),
                            Err(kind) => return trouble(lane, kind),
                        }
                    }
                    Ok(())
                }
                Space::Local => {
                    for lane in lanes(mask) {
                        let (memory, at) = (&warp.local[lane], at[lane]);
                        let start = check_local(memory.len(), lane, at, total)?;
                        element.take(&mut warp.registers, lane, memory, start);
                    }
                    Ok(())
                }
                Space::Param => {
                    let params = machine.launch.params;
                    if access.address.base.is_none() {
                        let lane = mask.trailing_zeros() as usize;
                        check_param(params.len(), lane, at[lane], total)?;
                        element.gather(&mut warp.registers, params, at, mask);
                        return Ok(());
                    }
                    for lane in lanes(mask) {
                        let start = check_param(params.len(), lane, at[lane], total)?;
                        element.take(&mut warp.registers, lane, params, start);
                    }
                    Ok(())
                }
                Space::Global | Space::Generic => {
                    machine.load_global(warp, element, total, at, mask)
                }
            }
        })
    }

    fn load_global(
        &mut self,
        warp: &mut Warp,
        element: Element<'_>,
        total: u32,
        addresses: &Lanes,
        active: u32,
    ) -> Outcome<()> {
        let lanes_active = u64::from(active.count_ones());
        self.statistics.global_loads += lanes_active;
        self.statistics.bytes_loaded += lanes_active * u64::from(total);
        self.statistics.widest_load = self.statistics.widest_load.max(total);
        self.statistics.sectors_loaded += sectors(addresses, active, total);
        let first = addresses[active.trailing_zeros() as usize];
        let (mut base, mut data) = self.memory.around(first).unwrap_or((u64::MAX, &[]));
        if let Some(offsets) = inside(addresses, base, active, total, data.len() as u64) {
            element.gather(&mut warp.registers, data, &offsets, active);
            return Ok(());
        }
        for lane in lanes(active) {
            let address = addresses[lane];
            if address & u64::from(total - 1) != 0 {
                return trouble(lane, FaultKind::Misaligned { address, bytes: total });
            }
            let mut offset = address.wrapping_sub(base);
            if address < base || offset.saturating_add(total.into()) > data.len() as u64 {
                let Some(found) = self.memory.around(address) else {
                    return trouble(
                        lane,
                        FaultKind::Memory(self.memory.refusal(address, total.into())),
                    );
                };
                (base, data) = found;
                offset = address - base;
                if offset.saturating_add(total.into()) > data.len() as u64 {
                    return trouble(
                        lane,
                        FaultKind::Memory(self.memory.refusal(address, total.into())),
                    );
                }
            }
            element.take(&mut warp.registers, lane, data, offset as usize);
        }
        Ok(())
    }

    #[inline]
    pub(super) fn store(
        &mut self,
        warp: &mut Warp,
        group: &Group,
        access: &Access,
        active: u32,
        pc: u32,
    ) -> Outcome<()> {
        let addresses = self.addresses(warp, group, &access.address);
        let (bytes, count) = (access.bytes, access.values.len());
        let total = bytes * count as u32;
        self.by_space(&addresses, access.address.space, active, |machine, space, at, mask| {
            if space == Space::Global {
                return machine.store_global(warp, group, access, at, mask);
            }
            if space == Space::Shared {
                machine.statistics.shared_stores += u64::from(mask.count_ones());
                machine.statistics.bank_conflicts += conflicts(at, mask, total);
            }
            for lane in lanes(mask) {
                let mut data = [0; 64];
                for (index, &value) in access.values.iter().enumerate() {
                    let value = source(&warp.registers, &machine.constants, group, value)[lane];
                    place(&mut data, index * bytes as usize, bytes, value);
                }
                let data = &data[..total as usize];
                match space {
                    Space::Shared => {
                        let user = machine.user(warp, lane, pc, access.strong);
                        if let Err(kind) = machine.shared.write(user, at[lane], data) {
                            return trouble(lane, kind);
                        }
                    }
                    Space::Local => {
                        let memory = &mut warp.local[lane];
                        let start = check_local(memory.len(), lane, at[lane], total)?;
                        memory[start..start + total as usize].copy_from_slice(data);
                    }
                    _ => {
                        let size = machine.launch.params.len() as u64;
                        let kind =
                            FaultKind::ParamOutOfBounds { offset: at[lane], bytes: total, size };
                        return trouble(lane, kind);
                    }
                }
            }
            Ok(())
        })
    }

    fn store_global(
        &mut self,
        warp: &Warp,
        group: &Group,
        access: &Access,
        addresses: &Lanes,
        active: u32,
    ) -> Outcome<()> {
        let bytes = access.bytes;
        let total = bytes * access.values.len() as u32;
        let lanes_active = u64::from(active.count_ones());
        self.statistics.global_stores += lanes_active;
        self.statistics.bytes_stored += lanes_active * u64::from(total);
        self.statistics.widest_store = self.statistics.widest_store.max(total);
        self.statistics.sectors_stored += sectors(addresses, active, total);
        let first = addresses[active.trailing_zeros() as usize];
        if let Some((base, data)) = self.memory.around_mut(first)
            && let Some(offsets) = inside(addresses, base, active, total, data.len() as u64)
        {
            for (index, &value) in access.values.iter().enumerate() {
                let values = source(&warp.registers, &self.constants, group, value);
                let at = index * bytes as usize;
                for lane in lanes(active) {
                    place(data, offsets[lane] as usize + at, bytes, values[lane]);
                }
            }
            return Ok(());
        }
        for lane in lanes(active) {
            let address = addresses[lane];
            if address & u64::from(total - 1) != 0 {
                return trouble(lane, FaultKind::Misaligned { address, bytes: total });
            }
        }
        let mut left = active;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let Some((base, data)) = self.memory.around_mut(addresses[lane]) else {
                let kind = FaultKind::Memory(self.memory.refusal(addresses[lane], total.into()));
                return trouble(lane, kind);
            };
            let before = left;
            for lane in lanes(left) {
                let Some(offset) = addresses[lane].checked_sub(base) else { break };
                if offset.saturating_add(total.into()) > data.len() as u64 {
                    break;
                }
                for (index, &value) in access.values.iter().enumerate() {
                    let value = source(&warp.registers, &self.constants, group, value)[lane];
                    place(data, offset as usize + index * bytes as usize, bytes, value);
                }
                left &= !(1 << lane);
            }
            if left == before {
                let kind = FaultKind::Memory(self.memory.refusal(addresses[lane], total.into()));
                return trouble(lane, kind);
            }
        }
        Ok(())
    }

    pub(super) fn atomic(
        &mut self,
        warp: &mut Warp,
        group: &Group,
        atomic: &Atomic,
        active: u32,
        pc: u32,
    ) -> Outcome<()> {
        let addresses = self.addresses(warp, group, &atomic.address);
        let operands = *source(&warp.registers, &self.constants, group, atomic.value);
        let swaps = atomic.swap.map(|swap| *source(&warp.registers, &self.constants, group, swap));
        let bytes = atomic.bytes;
        let mut out = [0; LANES];
        self.statistics.atomics += u64::from(active.count_ones());
        self.strong += 1;
        self.by_space(&addresses, atomic.address.space, active, |machine, space, at, mask| {
            for lane in lanes(mask) {
                let address = at[lane];
                let data = match space {
                    Space::Shared => {
                        let user = machine.user(warp, lane, pc, true);
                        match machine.shared.atomic(user, address, bytes) {
                            Ok(data) => data,
                            Err(kind) => return trouble(lane, kind),
                        }
                    }
                    Space::Global | Space::Generic => {
                        if address & u64::from(bytes - 1) != 0 {
                            return trouble(lane, FaultKind::Misaligned { address, bytes });
                        }
                        match machine.memory.slice_mut(address, bytes.into()) {
                            Ok(data) => data,
                            Err(error) => return trouble(lane, FaultKind::Memory(error)),
                        }
                    }
                    Space::Local => {
                        let memory = &mut warp.local[lane];
                        let start = check_local(memory.len(), lane, address, bytes)?;
                        &mut memory[start..start + bytes as usize]
                    }
                    Space::Param => {
                        let size = machine.launch.params.len() as u64;
                        let kind = FaultKind::ParamOutOfBounds { offset: address, bytes, size };
                        return trouble(lane, kind);
                    }
                };
                let old = number(data, 0, bytes);
                let result = (atomic.combine)(old, operands[lane]);
                let new = match &swaps {
                    None => result,
                    Some(swaps) if result == 1 => swaps[lane],
                    Some(_) => old,
                };
                place(data, 0, bytes, new);
                out[lane] = old;
            }
            Ok(())
        })?;
        if let Some(into) = atomic.into {
            assign(&mut warp.registers[(group.registers + into) as usize], &out, active);
        }
        Ok(())
    }

    pub(super) fn async_copy(
        &mut self,
        warp: &mut Warp,
        group: &Group,
        copy: &AsyncCopy,
        active: u32,
        pc: u32,
    ) -> Outcome<()> {
        let to = self.addresses(warp, group, &copy.to);
        let from = self.addresses(warp, group, &copy.from);
        let valid = copy.valid.map(|valid| *source(&warp.registers, &self.constants, group, valid));
        let ignore = copy.ignore.map_or(0, |ignore| condition(warp, group, ignore));
        let bytes = copy.bytes;
        self.statistics.global_loads += u64::from(active.count_ones());
        self.statistics.widest_load = self.statistics.widest_load.max(bytes);
        self.statistics.sectors_loaded += sectors(&from, active, bytes);
        for lane in lanes(active) {
            let count = match valid {
                _ if ignore >> lane & 1 == 1 => 0,
                Some(valid) => (valid[lane] & 0xffff_ffff).min(bytes.into()),
                None => bytes.into(),
            };
            self.statistics.bytes_loaded += count;
            let address = from[lane];
            if address & u64::from(bytes - 1) != 0 {
                return trouble(lane, FaultKind::Misaligned { address, bytes });
            }
            let mut data = [0; 16];
            match self.memory.slice(address, count) {
                Ok(read) => data[..count as usize].copy_from_slice(read),
                Err(error) => return trouble(lane, FaultKind::Memory(error)),
            }
            let user = self.user(warp, lane, pc, false);
            if let Err(kind) = self.shared.begin_copy(user, to[lane], &data[..bytes as usize]) {
                return trouble(lane, kind);
            }
            warp.copies.push(PendingCopy {
                lane: lane as u32,
                group: warp.committed[lane],
                offset: to[lane],
                bytes,
                data,
                pc,
            });
        }
        Ok(())
    }

    /// Delivers the copies that are waited for.
    pub(super) fn async_wait(&mut self, warp: &mut Warp, left: u32, active: u32) -> Outcome<()> {
        let copies = std::mem::take(&mut warp.copies);
        for copy in copies {
            let lane = copy.lane as usize;
            let waited = active >> lane & 1 == 1
                && (left == 0 || copy.group.saturating_add(left) < warp.committed[lane]);
            if !waited {
                warp.copies.push(copy);
                continue;
            }
            let user = self.user(warp, lane, copy.pc, false);
            if let Err(kind) =
                self.shared.end_copy(user, copy.offset, &copy.data[..copy.bytes as usize])
            {
                return trouble(lane, kind);
            }
        }
        Ok(())
    }
}

fn check_local(size: usize, lane: usize, offset: u64, bytes: u32) -> Outcome<usize> {
    if offset.checked_add(bytes.into()).is_none_or(|end| end > size as u64) {
        return trouble(lane, FaultKind::LocalOutOfBounds { offset, bytes, size: size as u64 });
    }
    if offset & u64::from(bytes - 1) != 0 {
        return trouble(lane, FaultKind::Misaligned { address: offset, bytes });
    }
    Ok(offset as usize)
}

fn check_param(size: usize, lane: usize, offset: u64, bytes: u32) -> Outcome<usize> {
    if offset.checked_add(bytes.into()).is_none_or(|end| end > size as u64) {
        return trouble(lane, FaultKind::ParamOutOfBounds { offset, bytes, size: size as u64 });
    }
    Ok(offset as usize)
}
