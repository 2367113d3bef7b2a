//! LoRA adapters: files that are given before the model is opened, and chosen by requests.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use strata_chat::Fault;
use strata_engine::{AdapterId, Engine};
use strata_model::{Adapter, Model};
use strata_weights::{Gguf, GgufSet};

/// Adapters with strengths that the engine keeps ready; then it forgets them all.
const READY: usize = 16;

/// A file, and its strength in requests that name none.
pub(crate) struct AdapterFile {
    pub(crate) bytes: Vec<u8>,
    pub(crate) scale: f32,
}

/// The adapters of a model, by number.
#[derive(Default)]
pub(crate) struct Adapters {
    list: Vec<(Arc<Adapter>, f32)>,
    ready: Vec<((usize, u32), AdapterId)>,
}

impl Adapters {
    /// Reads files that were made for a model.
    pub(crate) fn load(files: &[AdapterFile], model: &Model) -> Result<Self, String> {
        let load = |file: &AdapterFile| {
            let parsed = Gguf::parse(&file.bytes).map_err(|error| error.to_string())?;
            let set = GgufSet::new(vec![parsed]).map_err(|error| error.to_string())?;
            let adapter = Adapter::load(&set, model).map_err(|error| error.to_string())?;
            Ok((Arc::new(adapter), file.scale))
        };
        let numbered = files.iter().enumerate();
        let list = numbered.map(|(number, file)| {
            load(file).map_err(|problem: String| format!("adapter {number}: {problem}"))
        });
        Ok(Self {
            list: list.collect::<Result<_, String>>()?,
            ready: Vec::new(),
        })
    }

    /// The engine's adapter for a request: what it asks for, or what is set for those that ask for none.
    pub(crate) fn choose(
        &mut self,
        engine: &mut Engine,
        asked: &[(usize, f32)],
    ) -> Result<Option<AdapterId>, Fault> {
        let set: Vec<(usize, f32)> = match asked {
            [] => self
                .list
                .iter()
                .map(|&(_, scale)| scale)
                .enumerate()
                .collect(),
            asked => asked.to_vec(),
        };
        let mut wanted = set.into_iter().filter(|&(_, scale)| scale != 0.0);
        let Some((number, scale)) = wanted.next() else {
            return Ok(None);
        };
        if wanted.next().is_some() {
            return Err(Fault::bad_request(
                "a request can have one adapter at a time",
            ));
        }
        let missing = || Fault::bad_request(format_args!("there is no adapter {number}"));
        let (adapter, _) = self.list.get(number).ok_or_else(missing)?;
        let key = (number, scale.to_bits());
        if let Some((_, id)) = self.ready.iter().find(|(known, _)| *known == key) {
            return Ok(Some(*id));
        }
        if self.ready.len() >= READY {
            for (_, id) in self.ready.drain(..) {
                engine.remove_adapter(id);
            }
        }
        let added = engine.add_adapter(Arc::clone(adapter), scale);
        let id = added.map_err(|_| missing())?;
        self.ready.push((key, id));
        Ok(Some(id))
    }
}
