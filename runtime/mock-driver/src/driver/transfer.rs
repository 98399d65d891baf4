//! How copies and fills become work: what each side is, and whether host memory is staged.
//!
//! From pageable memory a copy takes what is there at the call; to pageable memory it is done when
//! the call returns. Pinned memory is used when the copy runs. A node of a graph uses whatever its
//! address says when the graph runs.

use super::work::{Copy, Place, Side, Work};
use super::{Driver, Session};
use crate::abi::{Copy3, CopySide, FillNode, Handle};
use crate::code::{Code, Outcome};
use crate::door;
use std::sync::Arc;

/// `CU_MEMORYTYPE_HOST` and so on.
const HOST: u32 = 1;
const DEVICE: u32 = 2;
const UNIFIED: u32 = 4;

/// One side of a copy as a call gives it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Host(usize),
    Device(u64),
}

impl Driver {
    /// Which memory a unified address is of.
    pub(crate) fn end(&self, address: u64) -> End {
        match self.extent(address) {
            Some(_) => End::Device(address),
            None => End::Host(address as usize),
        }
    }

    fn place(&self, end: End, span: usize) -> Outcome<Place> {
        Ok(match end {
            End::Device(address) => {
                self.check(address, span)?;
                Place::Device(address)
            }
            End::Host(0) => return Err(Code::INVALID_VALUE),
            End::Host(address) => {
                Place::Host(address, self.pinned_at(address, span).map(|(_, range)| range.number))
            }
        })
    }

    /// A copy of bytes that lie together.
    pub(crate) fn plain_copy(&self, to: End, from: End, bytes: usize) -> Outcome<Copy> {
        Ok(Copy::plain(self.place(to, bytes)?, self.place(from, bytes)?, bytes))
    }

    /// A copy of rows.
    pub(crate) fn copy_of(&self, stated: &Copy3) -> Outcome<Copy> {
        let (width, height, depth) = (stated.width, stated.height, stated.depth);
        let side = |side: &CopySide| {
            let pitch = if side.pitch == 0 { side.x + width } else { side.pitch };
            let plane = pitch * if side.height == 0 { height } else { side.height };
            if pitch < side.x + width || depth > 1 && plane < pitch * height {
                return Err(Code::INVALID_VALUE);
            }
            let offset = side.z * plane + side.y * pitch + side.x;
            let end = match side.kind {
                HOST => End::Host(side.host),
                DEVICE => End::Device(side.device),
                UNIFIED => self.end(side.device),
                _ => return Err(Code::NOT_SUPPORTED),
            };
            let end = match end {
                End::Host(0) => return Err(Code::INVALID_VALUE),
                End::Host(address) => End::Host(address + offset),
                End::Device(address) => End::Device(address + offset as u64),
            };
            let place = Place::Device(0);
            let mut side = Side { place, pitch, plane };
            side.place = self.place(end, side.span(width, height, depth))?;
            Ok(side)
        };
        Ok(Copy {
            from: side(&stated.from)?,
            to: side(&stated.to)?,
            width,
            height,
            depth,
            stated: Some(Arc::new(*stated)),
        })
    }

    /// Checks a fill. Its value has to fit its pattern, its address to be a multiple of it.
    pub(crate) fn fill_of(&self, fill: &FillNode) -> Outcome<FillNode> {
        let mut fill = *fill;
        let element = fill.element as usize;
        if !matches!(element, 1 | 2 | 4) || !fill.to.is_multiple_of(element as u64) {
            return Err(Code::INVALID_VALUE);
        }
        if fill.height <= 1 {
            fill.height = 1;
            fill.pitch = fill.width * element;
        }
        if fill.pitch < fill.width * element {
            return Err(Code::INVALID_VALUE);
        }
        self.check(fill.to, (fill.height - 1) * fill.pitch + fill.width * element)?;
        Ok(fill)
    }
}

impl Session {
    /// Queues a copy in a stream. With `wait` it is done when this returns.
    pub(crate) fn copy(&mut self, stream: Handle, mut copy: Copy, wait: bool) -> Outcome {
        if copy.width == 0 || copy.height == 0 || copy.depth == 0 {
            return Ok(());
        }
        let mut wait = wait;
        if !self.capturing(stream)? {
            if let Place::Host(address, None) = copy.from.place {
                let span = copy.from.span(copy.width, copy.height, copy.depth);
                // SAFETY: a call that copies from host memory has it valid for so many bytes
                let staged = unsafe { door::read_host(address, span) };
                copy.from.place = Place::Staged(staged.into());
            }
            wait |= matches!(copy.to.place, Place::Host(_, None));
        }
        let context = self.stream_row(stream)?.context;
        let task = self.submit(stream, Work::Copy(copy), &[])?;
        if let Some(task) = task.filter(|_| wait) {
            self.drain(task);
            self.intact(context)?;
        }
        Ok(())
    }

    /// Queues a fill in a stream. With `wait` it is done when this returns.
    pub(crate) fn fill(&mut self, stream: Handle, fill: &FillNode, wait: bool) -> Outcome {
        if fill.width == 0 {
            return Ok(());
        }
        let fill = self.fill_of(fill)?;
        let context = self.stream_row(stream)?.context;
        let task = self.submit(stream, Work::Fill(fill), &[])?;
        if let Some(task) = task.filter(|_| wait) {
            self.drain(task);
            self.intact(context)?;
        }
        Ok(())
    }

    /// The legacy stream of the current context, for calls that wait: refused during captures.
    pub(crate) fn waiting_stream(&mut self) -> Outcome<Handle> {
        let stream = self.stream(0)?;
        self.refuse_implicit(stream)?;
        self.refuse_unsafe()?;
        Ok(stream)
    }
}
