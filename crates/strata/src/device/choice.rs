//! What computes a model, as people ask for it.

use std::str::FromStr;

/// What computes a model. The answers have the same bytes on all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// The first NVIDIA GPU where the machine has one that takes layers of the model; the processors otherwise.
    Auto,
    /// The processors.
    #[default]
    Cpu,
    /// NVIDIA GPUs by their numbers: where there are several, each has some of the layers. A model that they cannot take is
    /// refused.
    Cuda(Vec<usize>),
    /// GPUs of any maker through Vulkan, by their numbers; likewise.
    Vulkan(Vec<usize>),
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, numbers) = match text.split_once(':') {
            Some((kind, numbers)) => (kind, self::numbers(numbers)),
            None => (text, Some(vec![0])),
        };
        match (kind, numbers) {
            _ if text == "auto" => Ok(Self::Auto),
            _ if text == "cpu" => Ok(Self::Cpu),
            ("cuda", Some(numbers)) => Ok(Self::Cuda(numbers)),
            ("vulkan", Some(numbers)) => Ok(Self::Vulkan(numbers)),
            _ => Err("expected auto, cpu, cuda:N or vulkan:N, or several numbers: cuda:0,1".into()),
        }
    }
}

/// Numbers with commas between them, each once.
fn numbers(text: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for number in text.split(',') {
        let number = number.parse().ok()?;
        if numbers.contains(&number) {
            return None;
        }
        numbers.push(number);
    }
    Some(numbers)
}

/// How many of a model's layers are on GPUs. The others, the first ones, are computed by the processors.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum GpuLayers {
    /// As many as the memory that is free there has room for.
    #[default]
    Auto,
    /// So many, the last ones; all of them if the model has no more. Where they do not fit, the model is refused.
    Last(usize),
}

impl FromStr for GpuLayers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("auto", _) => Ok(Self::Auto),
            (_, Ok(layers)) if layers > 0 => Ok(Self::Last(layers)),
            _ => Err("expected auto, or a number of layers from 1 on".into()),
        }
    }
}

/// What becomes of a model whose GPU fails while it computes. The requests that run end with an error in any case.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceLost {
    /// Its requests end with an error until it is loaded again.
    #[default]
    Stop,
    /// The processors go on with it, with the same bytes. A model that they have no memory for is refused when it is opened.
    Cpu,
}

impl FromStr for DeviceLost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "stop" => Ok(Self::Stop),
            "cpu" => Ok(Self::Cpu),
            _ => Err("expected stop or cpu".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Device, DeviceLost, GpuLayers};

    #[test]
    fn a_device_is_read_by_its_name() {
        let read = |text: &str| text.parse::<Device>();
        assert_eq!(read("auto"), Ok(Device::Auto));
        assert_eq!(read("cpu"), Ok(Device::Cpu));
        assert_eq!(read("cuda"), Ok(Device::Cuda(vec![0])));
        assert_eq!(read("cuda:3"), Ok(Device::Cuda(vec![3])));
        assert_eq!(read("cuda:1,0"), Ok(Device::Cuda(vec![1, 0])));
        assert_eq!(read("vulkan:1"), Ok(Device::Vulkan(vec![1])));
        for wrong in [
            "",
            "gpu",
            "cuda:",
            "cuda:x",
            "cuda0",
            "cpu:0",
            "vulkan:-1",
            "cuda:0,",
            "cuda:1,1",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn layers_and_what_follows_a_loss_are_read() {
        assert_eq!("auto".parse(), Ok(GpuLayers::Auto));
        assert_eq!("7".parse(), Ok(GpuLayers::Last(7)));
        assert!("0".parse::<GpuLayers>().is_err() && "-1".parse::<GpuLayers>().is_err());
        assert_eq!("cpu".parse(), Ok(DeviceLost::Cpu));
        assert_eq!("stop".parse(), Ok(DeviceLost::Stop));
        assert!("gpu".parse::<DeviceLost>().is_err());
    }
}
