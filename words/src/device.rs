//! Where a tensor lives.

use std::fmt;
use std::sync::OnceLock;

/// The name that a backend from outside gave `PrivateUse1`.
static PRIVATE_USE_1: OnceLock<String> = OnceLock::new();

/// The name of `PrivateUse1` until a backend gives it another.
const PRIVATE_USE_1_AT_FIRST: &str = "privateuseone";

/// The kind of device; each is a backend component of the dispatcher.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)] // PyTorch's own names
#[repr(u8)]
pub enum DeviceType {
    Cpu,
    Cuda,
    Hip,
    Xla,
    Mps,
    Ipu,
    Xpu,
    Hpu,
    Ve,
    Lazy,
    Mtia,
    Maia,
    PrivateUse1,
    PrivateUse2,
    PrivateUse3,
    Meta,
}

impl DeviceType {
    /// Every device type in backend-component order.
    pub const ALL: [DeviceType; 16] = [
        DeviceType::Cpu,
        DeviceType::Cuda,
        DeviceType::Hip,
        DeviceType::Xla,
        DeviceType::Mps,
        DeviceType::Ipu,
        DeviceType::Xpu,
        DeviceType::Hpu,
        DeviceType::Ve,
        DeviceType::Lazy,
        DeviceType::Mtia,
        DeviceType::Maia,
        DeviceType::PrivateUse1,
        DeviceType::PrivateUse2,
        DeviceType::PrivateUse3,
        DeviceType::Meta,
    ];

    /// PyTorch's lower-case name; for `PrivateUse1` the one that a backend gave it, if any
    /// ([`rename_private_use_1`]).
    pub fn name(self) -> &'static str {
        match self {
            DeviceType::Cpu => "cpu",
            DeviceType::Cuda => "cuda",
            DeviceType::Hip => "hip",
            DeviceType::Xla => "xla",
            DeviceType::Mps => "mps",
            DeviceType::Ipu => "ipu",
            DeviceType::Xpu => "xpu",
            DeviceType::Hpu => "hpu",
            DeviceType::Ve => "ve",
            DeviceType::Lazy => "lazy",
            DeviceType::Mtia => "mtia",
            DeviceType::Maia => "maia",
            DeviceType::PrivateUse1 => private_use_1_name().unwrap_or(PRIVATE_USE_1_AT_FIRST),
            DeviceType::PrivateUse2 => "privateuse2",
            DeviceType::PrivateUse3 => "privateuse3",
            DeviceType::Meta => "meta",
        }
    }
}

/// The name that a backend gave `PrivateUse1`, if any.
pub fn private_use_1_name() -> Option<&'static str> {
    PRIVATE_USE_1.get().map(String::as_str)
}

/// Why `PrivateUse1` did not get a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenameBackendError {
    /// It has another name already; it is given once per process.
    #[error(
        "PrivateUse1 is already named `{current}` and cannot be renamed to `{requested}`: a process has one \
         backend at PrivateUse1. Register the other one at PrivateUse2 or PrivateUse3, which keep their names"
    )]
    AlreadyNamed {
        /// The name it has.
        current: String,
        /// The name that was asked for.
        requested: String,
    },
    /// A device type of this name exists.
    #[error(
        "cannot name PrivateUse1 `{name}`: that is a device type of its own. Choose a name that no device type has"
    )]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The name would be ambiguous in a device string.
    #[error(
        "cannot name PrivateUse1 `{name}`: a device name is a letter or `_` followed by letters, digits or `_`, so \
         that `name:0` can be read back"
    )]
    NotAnIdentifier {
        /// The name.
        name: String,
    },
}

/// Names `PrivateUse1`, so that `name` and `name:0` are device strings. Once per process; the same
/// name again changes nothing. `privateuseone` is still accepted.
///
/// # Errors
///
/// It has another name already, the name belongs to a device type, or it is not an identifier.
pub fn rename_private_use_1(name: &str) -> Result<(), RenameBackendError> {
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
    let mut chars = name.chars();
    let valid = chars.next().is_some_and(begins) && chars.all(|c| begins(c) || c.is_ascii_digit());
    if !valid {
        return Err(RenameBackendError::NotAnIdentifier { name: name.into() });
    }
    let taken = |d: &DeviceType| *d != DeviceType::PrivateUse1 && d.name() == name;
    if name == PRIVATE_USE_1_AT_FIRST || DeviceType::ALL.iter().any(taken) {
        return Err(RenameBackendError::NameTaken { name: name.into() });
    }
    let current = PRIVATE_USE_1.get_or_init(|| name.into());
    if current != name {
        return Err(RenameBackendError::AlreadyNamed {
            current: current.clone(),
            requested: name.into(),
        });
    }
    Ok(())
}

/// A device: its type and, where there can be several, its index.
///
/// ```
/// use straightline_words::Device;
/// assert_eq!(Device::CPU.to_string(), "cpu");
/// assert_eq!("cuda:1".parse::<Device>().unwrap().to_string(), "cuda:1");
/// assert!("toaster".parse::<Device>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Device {
    /// The kind of device.
    pub kind: DeviceType,
    /// The index of the device, `-1` for "the current one".
    pub index: i8,
}

impl Device {
    /// The CPU.
    pub const CPU: Device = Device::new(DeviceType::Cpu);
    /// The device of tensors that have a shape and no data.
    pub const META: Device = Device::new(DeviceType::Meta);

    /// The current device of a type.
    pub const fn new(kind: DeviceType) -> Device {
        Device { kind, index: -1 }
    }

    /// Whether both name the same device: `-1` stands for device 0, the only current device of a
    /// type as long as nothing can choose another.
    pub const fn is_same_as(self, other: Device) -> bool {
        const fn index(d: Device) -> i8 {
            if d.index < 0 { 0 } else { d.index }
        }
        self.kind as u8 == other.kind as u8 && index(self) == index(other)
    }

    /// Whether this is the CPU.
    pub const fn is_cpu(self) -> bool {
        matches!(self.kind, DeviceType::Cpu)
    }

    /// Whether this is the Meta device.
    pub const fn is_meta(self) -> bool {
        matches!(self.kind, DeviceType::Meta)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        if self.index >= 0 {
            write!(f, ":{}", self.index)?;
        }
        Ok(())
    }
}

/// A device string that does not name a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a device: use a type such as `cpu`, `cuda` or `meta`, with an optional index as in `cuda:0`; a \
     backend's own name is known from its `rename_backend` on"
)]
pub struct ParseDeviceError(pub String);

impl std::str::FromStr for Device {
    type Err = ParseDeviceError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let bad = || ParseDeviceError(s.to_string());
        let (name, index) = match s.split_once(':') {
            // the current device has no number to write
            Some((name, index)) => (name, index.parse().ok().filter(|i| *i >= 0).ok_or_else(bad)?),
            None => (s, -1),
        };
        let kind = DeviceType::ALL
            .into_iter()
            .find(|d| d.name() == name)
            .or((name == PRIVATE_USE_1_AT_FIRST).then_some(DeviceType::PrivateUse1))
            .ok_or_else(bad)?;
        Ok(Device { kind, index })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_type_reads_back_what_it_prints() {
        for kind in DeviceType::ALL {
            for index in [-1, 0, 3] {
                let device = Device { kind, index };
                assert_eq!(device.to_string().parse(), Ok(device));
            }
        }
        for bad in ["", ":0", "cpu:", "cpu:x", "cpu:-2", "cuda:-1", "cpu:128", "CPU", "toaster"] {
            assert_eq!(bad.parse::<Device>(), Err(ParseDeviceError(bad.into())));
        }
    }

    #[test]
    fn the_current_device_is_the_first() {
        let at = |index| Device { kind: DeviceType::Xla, index };
        assert!(at(-1).is_same_as(at(0)) && at(1).is_same_as(at(1)));
        assert!(!at(-1).is_same_as(at(1)) && !at(0).is_same_as(Device::CPU));
    }

    // A name is given once per process, so a single test covers everything.
    #[test]
    fn private_use_1_is_named_once() {
        for name in ["", "my chip", "1st", "a:b", "ä"] {
            let error = RenameBackendError::NotAnIdentifier { name: name.into() };
            assert_eq!(rename_private_use_1(name), Err(error));
        }
        for name in ["cuda", "cpu", "meta", "privateuse2", "privateuseone"] {
            let error = RenameBackendError::NameTaken { name: name.into() };
            assert_eq!(rename_private_use_1(name), Err(error));
        }
        let plain = Device::new(DeviceType::PrivateUse1);
        assert_eq!(plain.to_string(), "privateuseone");
        assert_eq!(rename_private_use_1("mychip"), Ok(()));
        assert_eq!(rename_private_use_1("mychip"), Ok(()));
        assert_eq!(plain.to_string(), "mychip");
        assert_eq!("mychip".parse(), Ok(plain));
        assert_eq!("privateuseone".parse(), Ok(plain));
        let error = RenameBackendError::AlreadyNamed {
            current: "mychip".into(),
            requested: "other".into(),
        };
        assert_eq!(rename_private_use_1("other"), Err(error));
    }
}
