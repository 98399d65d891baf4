//! Where a tensor lives.

use std::fmt;

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

    /// PyTorch's lower-case name.
    pub const fn name(self) -> &'static str {
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
            DeviceType::PrivateUse1 => "privateuseone",
            DeviceType::PrivateUse2 => "privateuse2",
            DeviceType::PrivateUse3 => "privateuse3",
            DeviceType::Meta => "meta",
        }
    }
}

/// A device: its type and, where there can be several, its index.
///
/// ```
/// use straightline_passes::ir::Device;
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

/// A device string that names no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a device: use a type such as `cpu`, `cuda` or `meta`, with an optional index as in `cuda:0`"
)]
pub struct ParseDeviceError(pub String);

impl std::str::FromStr for Device {
    type Err = ParseDeviceError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let bad = || ParseDeviceError(s.to_string());
        let (name, index) = match s.split_once(':') {
            Some((name, index)) => (name, index.parse::<i8>().map_err(|_| bad())?),
            None => (s, -1),
        };
        if index < -1 {
            return Err(bad());
        }
        let kind = DeviceType::ALL
            .into_iter()
            .find(|d| d.name() == name)
            .ok_or_else(bad)?;
        Ok(Device { kind, index })
    }
}
