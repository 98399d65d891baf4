//! Autocast: matrix products run in low precision, operators that may overflow in `f32`.
//!
//! Every tensor carries the autocast key of its device, and every thread excludes those keys until
//! it enters [`autocast`]. The operators of PyTorch's lists have a kernel there, which casts
//! arguments and calls the operator again from the top with its own key excluded; all others fall
//! through. So casts are ordinary operators: `compile()` captures them.
//!
//! | file | what |
//! |---|---|
//! | `policy` | what is cast to what: one kernel for each policy |
//! | `cache` | casts of parameters, kept until the outermost autocast ends |

mod cache;
mod policy;
#[cfg(test)]
mod tests;

pub use cache::{clear_autocast_cache, is_autocast_cache_enabled};
pub use policy::{Policy, autocast_kernel, autocast_operators};

use crate::dispatch::{
    BackendComponent, DispatchKey, DispatchKeySet, Kernel, TlsKeySets, set_excluded,
};
use crate::error::{Error, Result};
use crate::modes::outside;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::LazyLock;
use straightline_catalog::{DType, Device, DeviceType};

/// The number of autocast keys, which are contiguous.
const KEYS: usize = 10;

struct State {
    /// The low precision of each autocast key, from `AutocastCPU` on; `None` is the device's own.
    dtypes: Cell<[Option<DType>; KEYS]>,
    /// The guards that are alive, in the order in which they began.
    frames: RefCell<Vec<Frame>>,
    last_id: Cell<u64>,
}

thread_local! {
    static STATE: State = const {
        State {
            dtypes: Cell::new([None; KEYS]),
            frames: RefCell::new(Vec::new()),
            last_id: Cell::new(0),
        }
    };
}

fn index(key: DispatchKey) -> usize {
    usize::from(key.value() - DispatchKey::AutocastCPU.value())
}

fn key_of(device: DeviceType) -> Result<DispatchKey> {
    let key = DispatchKey::autocast_of(BackendComponent::of(device));
    key.ok_or_else(|| {
        Error::value(format!(
            "there is no autocast for `{}` tensors: name the device that computes, such as \
             `cpu` or `cuda`",
            Device::new(device)
        ))
    })
}

/// The low precision at an autocast key on this thread.
fn dtype_at(key: DispatchKey) -> DType {
    use DispatchKey as K;
    let own = match key {
        K::AutocastCPU | K::AutocastXLA | K::AutocastHPU | K::AutocastMAIA => DType::BF16,
        _ => DType::F16,
    };
    STATE.with(|s| s.dtypes.get()[index(key)].unwrap_or(own))
}

/// Autocast on this thread, until dropped. Several may be dropped in any order.
#[must_use = "autocast ends where the guard is dropped"]
#[derive(Debug)]
pub struct Autocast {
    id: u64,
    on_this_thread: PhantomData<*const ()>,
}

/// The settings that an [`Autocast`] found when it began.
struct Frame {
    id: u64,
    key: DispatchKey,
    excluded_before: bool,
    dtype_before: Option<DType>,
    cache_before: bool,
}

/// How to enter autocast with [`autocast_with`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AutocastOptions {
    /// The low precision; `None` takes that of the enclosing autocast, or the device's own.
    pub dtype: Option<DType>,
    /// Whether operators are cast; `false` disables an enclosing autocast.
    pub enabled: bool,
    /// Whether casts of parameters are kept; `None` inherits the setting.
    pub cache: Option<bool>,
}

impl Default for AutocastOptions {
    fn default() -> Self {
        AutocastOptions { dtype: None, enabled: true, cache: None }
    }
}

/// Enters autocast for the operators on tensors of a device.
///
/// ```
/// use straightline::{DType, DeviceType, Tensor, autocast::autocast};
/// let x = Tensor::from_slice(&[1f32; 4], &[2, 2])?;
/// let _on = autocast(DeviceType::Cpu, None)?;
/// assert_eq!(x.mm(&x)?.dtype(), DType::BF16);
/// assert_eq!(x.exp()?.dtype(), DType::F32);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
///
/// A device that has no autocast, or a dtype other than `f16` and `bf16`.
pub fn autocast(device: DeviceType, dtype: Option<DType>) -> Result<Autocast> {
    autocast_with(device, AutocastOptions { dtype, ..AutocastOptions::default() })
}

/// [`autocast`] with options.
pub fn autocast_with(device: DeviceType, options: AutocastOptions) -> Result<Autocast> {
    let key = key_of(device)?;
    if let Some(dtype) = options.dtype
        && !matches!(dtype, DType::F16 | DType::BF16)
    {
        return Err(Error::dtype(format!(
            "autocast to {dtype} makes no sense: the low precision is `f16` or `bf16`"
        )));
    }
    if options.dtype.is_none() {
        outside::asks_autocast();
    }
    Ok(enter(key, options))
}

fn enter(key: DispatchKey, options: AutocastOptions) -> Autocast {
    let dtype_before = STATE.with(|s| s.set_dtype(key, |before| options.dtype.or(before)));
    let (excluded_before, cache_before) =
        (set_excluded(key, !options.enabled), cache::set_enabled(options.cache));
    STATE.with(|s| {
        let id = s.last_id.get() + 1;
        s.last_id.set(id);
        s.frames.borrow_mut().push(Frame { id, key, excluded_before, dtype_before, cache_before });
        Autocast { id, on_this_thread: PhantomData }
    })
}

/// The settings of a thread, for what is computed again later.
pub(crate) struct Settings {
    on: Vec<(DispatchKey, DType)>,
    cache: bool,
}

impl Settings {
    /// Those of now.
    pub(crate) fn now() -> Settings {
        let excluded = TlsKeySets::current().excluded;
        let on = DispatchKeySet::AUTOCAST.iter().filter(|key| !excluded.has(*key));
        let on = on.map(|key| (key, dtype_at(key))).collect();
        Settings { on, cache: is_autocast_cache_enabled() }
    }

    /// Makes them the thread's until the guards are dropped.
    pub(crate) fn enter(&self) -> Vec<Autocast> {
        let excluded = TlsKeySets::current().excluded;
        let was_on = |key: DispatchKey| self.on.iter().find(|(on, _)| *on == key);
        let change = |key: DispatchKey| match was_on(key) {
            Some((_, dtype)) => {
                let cache = Some(self.cache);
                Some(enter(key, AutocastOptions { dtype: Some(*dtype), enabled: true, cache }))
            }
            None if !excluded.has(key) => {
                let off = AutocastOptions { enabled: false, ..AutocastOptions::default() };
                Some(enter(key, off))
            }
            None => None,
        };
        DispatchKeySet::AUTOCAST.iter().filter_map(change).collect()
    }
}

impl State {
    /// Changes the low precision of a key and returns the previous one.
    fn set_dtype(
        &self,
        key: DispatchKey,
        change: impl FnOnce(Option<DType>) -> Option<DType>,
    ) -> Option<DType> {
        let mut dtypes = self.dtypes.get();
        let before = dtypes[index(key)];
        dtypes[index(key)] = change(before);
        self.dtypes.set(dtypes);
        before
    }

    /// Removes a guard: the next guard at the same key inherits the settings that it found. Returns
    /// what to restore, for the settings that no later guard has changed.
    fn leave(&self, id: u64) -> Option<(Frame, bool, bool)> {
        let mut frames = self.frames.borrow_mut();
        let at = frames.iter().rposition(|f| f.id == id)?;
        let gone = frames.remove(at);
        let later = frames[at..].iter_mut().find(|f| f.key == gone.key);
        let newest_of_key = later.is_none();
        if let Some(later) = later {
            later.excluded_before = gone.excluded_before;
            later.dtype_before = gone.dtype_before;
        }
        let newest = frames.len() == at;
        if let Some(later) = frames.get_mut(at) {
            later.cache_before = gone.cache_before;
        }
        Some((gone, newest_of_key, newest))
    }
}

impl Drop for Autocast {
    fn drop(&mut self) {
        // fails on a thread that is ending, on which nothing is cast any more
        let Ok(Some((frame, newest_of_key, newest))) = STATE.try_with(|s| s.leave(self.id)) else {
            return;
        };
        if newest_of_key {
            set_excluded(frame.key, frame.excluded_before);
            STATE.with(|s| s.set_dtype(frame.key, |_| frame.dtype_before));
        }
        if newest {
            cache::set_enabled(Some(frame.cache_before));
        }
        if STATE.with(|s| s.frames.borrow().is_empty()) {
            clear_autocast_cache();
        }
    }
}

/// Whether autocast is on for a device on this thread.
pub fn is_autocast_enabled(device: DeviceType) -> bool {
    DispatchKey::autocast_of(BackendComponent::of(device))
        .is_some_and(|key| !TlsKeySets::current().excluded.has(key))
}

/// The low precision of a device on this thread, whether or not autocast is on.
///
/// # Errors
///
/// The device has no autocast.
pub fn autocast_dtype(device: DeviceType) -> Result<DType> {
    outside::asks_autocast();
    key_of(device).map(dtype_at)
}

/// The low precision of each autocast key, if one was chosen.
pub(crate) type LowPrecisions = [Option<DType>; KEYS];

/// The low precisions of this thread, whether or not autocast is on.
pub(crate) fn low_precisions() -> LowPrecisions {
    STATE.with(|s| s.dtypes.get())
}

/// The settings that a captured function depends on, as a number: 0 if autocast is off.
#[inline]
pub(crate) fn fingerprint(tls: TlsKeySets) -> u64 {
    if tls.excluded.is_superset(DispatchKeySet::AUTOCAST) {
        0
    } else {
        fingerprint_of(tls.excluded)
    }
}

#[cold]
fn fingerprint_of(excluded: DispatchKeySet) -> u64 {
    DispatchKeySet::AUTOCAST.iter().filter(|key| !excluded.has(*key)).fold(1, |all, key| {
        let half = u64::from(dtype_at(key) == DType::F16);
        all | (1 + half) << (2 * index(key) + 1)
    })
}

/// The kernels that an operator of `aten` gets, by its name.
pub(super) fn kernels_of(name: &str) -> Vec<(DispatchKey, Kernel)> {
    type Entry = (DispatchKey, DeviceType, Policy);
    static BY_NAME: LazyLock<HashMap<&'static str, Vec<Entry>>> = LazyLock::new(|| {
        let mut by_name: HashMap<_, Vec<Entry>> = HashMap::new();
        for device in DeviceType::ALL {
            if let Ok(key) = key_of(device) {
                for (name, policy) in autocast_operators(device) {
                    by_name.entry(name).or_default().push((key, device, policy));
                }
            }
        }
        by_name
    });
    let name = name.split_once("::").map_or(name, |(_, name)| name);
    let listed = BY_NAME.get(name).into_iter().flatten();
    listed.map(|&(key, device, policy)| (key, policy::kernel(key, device, policy))).collect()
}
