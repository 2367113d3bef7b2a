//! `general.sampling.*`: the settings that a GGUF file recommends, under llama.cpp's keys.

use super::Parameters;
use crate::json::Json;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_weights::{Metadata, Value};

/// llama.cpp's keys, and the names of the same parameters in Modelfiles.
const KEYS: [(&str, &str); 11] = [
    ("temp", "temperature"),
    ("top_k", "top_k"),
    ("top_p", "top_p"),
    ("min_p", "min_p"),
    ("penalty_repeat", "repeat_penalty"),
    ("penalty_last_n", "repeat_last_n"),
    ("xtc_probability", "xtc_probability"),
    ("xtc_threshold", "xtc_threshold"),
    ("mirostat", "mirostat"),
    ("mirostat_tau", "mirostat_tau"),
    ("mirostat_eta", "mirostat_eta"),
];

/// The parameters that a file recommends. Those that are out of range are left out: they are advice, and no reason not
/// to run the model.
pub fn of_file(metadata: &Metadata<'_>) -> Vec<(String, Json)> {
    let pair = |(key, name): &(&str, &str)| {
        let value = match metadata.get(&format!("general.sampling.{key}"))? {
            Value::F32(number) => Json::from(number),
            Value::F64(number) => Json::from(number),
            value => Json::Int(i64::try_from(value.as_integer()?).ok()?),
        };
        let pair = (String::from(*name), value);
        let read = Parameters::of_model([pair.clone()].into());
        read.is_ok().then_some(pair)
    };
    KEYS.iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_weights::{Gguf, gguf::Builder};

    #[test]
    fn recommended_settings_are_read_and_wrong_ones_are_not() {
        let mut builder = Builder::new();
        builder.set("general.sampling.temp", 0.6_f32).unwrap();
        builder.set("general.sampling.top_k", 20_i32).unwrap();
        builder.set("general.sampling.top_p", 1.5_f32).unwrap();
        builder.set("general.sampling.mirostat", 1_i32).unwrap();
        builder.set("general.sampling.min_p", "low").unwrap();
        builder
            .set("general.sampling.penalty_last_n", -1_i32)
            .unwrap();
        let header = builder.finish().unwrap().header;
        let file = Gguf::parse(&header).unwrap();
        let read = Parameters::of_model(of_file(file.metadata())).unwrap();
        let expected = crate::Sampling {
            temperature: Some(0.6),
            top_k: Some(20),
            repeat_last_n: Some(-1),
            ..crate::Sampling::default()
        };
        assert_eq!(read.sampling, expected);
    }
}
