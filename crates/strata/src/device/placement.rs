//! Which layers are on which GPU, and which stay with the processors.

use super::choice::GpuLayers;
use crate::size::Size;
use std::ops::Range;
use strata_gpu::DeviceNeeds;
use strata_model::Config;
use strata_peers::{Machine, Uneven, share};

/// The part of a GPU's free memory that is left to its driver: kernels, recordings, what does not fill whole pages. One in so
/// many.
const DRIVER_SHARE: u64 = 32;

/// Why layers cannot be placed so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misplaced {
    #[error("{} of the GPU's memory, of which {} are free", in_words(*.layers, *.needed), Size(*.free))]
    Full {
        layers: usize,
        needed: u64,
        free: u64,
    },
    #[error(
        "layers from number {layer} on read keys and values of earlier ones, and must be where those are"
    )]
    Cut { layer: usize },
    #[error("the model can be cut in {cuts} places, which are too few for {gpus} GPUs")]
    TooFew { cuts: usize, gpus: usize },
}

fn in_words(layers: usize, needed: u64) -> String {
    match layers {
        1 => format!("its last layer needs {}", Size(needed)),
        _ => format!("its last {layers} layers need {}", Size(needed)),
    }
}

/// What GPUs have free of their memory, and how many positions' pages each must hold.
pub(super) struct Room<'a> {
    pub(super) free: &'a [u64],
    pub(super) pages: usize,
}

/// The layers of each GPU, in order; the model's last ones.
pub(super) fn place(
    config: &Config,
    needs: &DeviceNeeds,
    room: &Room<'_>,
    asked: GpuLayers,
) -> Result<Vec<Range<usize>>, Misplaced> {
    let all = config.layers.len();
    match asked {
        GpuLayers::Last(layers) => place_from(config, needs, room, all - layers.min(all)),
        GpuLayers::Auto => {
            // The largest part that fits; if none does, why the smallest does not.
            let mut starts = (needs.first..all).filter(|&start| config.can_cut(start));
            let mut refused = None;
            starts
                .find_map(|start| match place_from(config, needs, room, start) {
                    Ok(placed) => Some(placed),
                    Err(error) => {
                        // Fewer GPUs than were asked for are no answer.
                        refused = match (refused.take(), error) {
                            (Some(first), Misplaced::TooFew { .. }) => Some(first),
                            (_, error) => Some(error),
                        };
                        None
                    }
                })
                .ok_or(refused.unwrap_or(Misplaced::Cut { layer: 0 }))
        }
    }
}

/// The same for the layers from this one on.
fn place_from(
    config: &Config,
    needs: &DeviceNeeds,
    room: &Room<'_>,
    first: usize,
) -> Result<Vec<Range<usize>>, Misplaced> {
    if !config.can_cut(first) {
        return Err(Misplaced::Cut { layer: first });
    }
    let (all, gpus) = (config.layers.len(), room.free.len());
    let usable = |free: u64| free - free / DRIVER_SHARE;
    let machines = room.free.iter().enumerate().map(|(number, &free)| Machine {
        room: usable(free),
        fixed: needs.buffers(room.pages) + if number + 1 == gpus { needs.output } else { 0 },
    });
    let machines: Vec<Machine> = machines.collect();
    let each = (first..all).map(|layer| {
        let at = layer - needs.first;
        let pages = needs.page[at].saturating_mul(room.pages as u64);
        needs.weights[at].saturating_add(pages)
    });
    let each: Vec<u64> = each.collect();
    let can_cut = |layer: usize| layer > 0 && config.can_cut(first + layer);
    let starts = share(&each, &machines, can_cut).map_err(|error| match error {
        Uneven::TooFew { cuts, .. } => Misplaced::TooFew { cuts, gpus },
        _ => Misplaced::Cut { layer: first },
    })?;
    let starts: Vec<usize> = starts.into_iter().map(|start| first + start).collect();
    let starts: Vec<usize> = std::iter::once(first).chain(starts).collect();
    let ends = starts[1..].iter().copied().chain([all]);
    let placed: Vec<Range<usize>> = starts.iter().zip(ends).map(|(&s, end)| s..end).collect();
    for (layers, &free) in placed.iter().zip(room.free) {
        let needed = needs.share(layers.clone(), room.pages).total();
        if needed > usable(free) {
            let layers = all - first;
            return Err(Misplaced::Full {
                layers,
                needed,
                free: usable(free),
            });
        }
    }
    Ok(placed)
}

/// How many of a model's last layers would fit with so many pages; none if not one does.
pub(super) fn most_layers(config: &Config, needs: &DeviceNeeds, room: &Room<'_>) -> Option<usize> {
    let placed = place(config, needs, room, GpuLayers::Auto).ok()?;
    Some(config.layers.len() - placed.first()?.start)
}

/// The most pages with which these layers would fit, up to what is wanted; 0 if they do not with one.
pub(super) fn most_pages(
    config: &Config,
    needs: &DeviceNeeds,
    room: &Room<'_>,
    asked: GpuLayers,
) -> usize {
    let fits = |pages| place(config, needs, &Room { pages, ..*room }, asked).is_ok();
    let (mut low, mut high) = (0, room.pages);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::{Misplaced, Room, most_layers, most_pages, place};
    use crate::GpuLayers;
    use std::path::Path;
    use strata_gpu::DeviceNeeds;
    use strata_model::{Blueprint, Config, LoadOptions};
    use strata_weights::{Gguf, GgufSet};

    /// The built-in model's eight layers.
    fn config() -> Config {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let file = std::fs::read(root.join("models/tale/tale-q4_k_m.gguf")).unwrap();
        let set = GgufSet::new(vec![Gguf::parse(&file).unwrap()]).unwrap();
        let blueprint = Blueprint::new(&set, LoadOptions::default()).unwrap();
        blueprint.config().clone()
    }

    /// Layers of 100 bytes and 10 for a page each, 50 for the logits, 200 for buffers.
    fn needs() -> DeviceNeeds {
        DeviceNeeds {
            first: 0,
            weights: vec![100; 8],
            page: vec![10; 8],
            output: 50,
            buffers: 200,
            buffers_by_page: 0,
        }
    }

    #[test]
    fn as_many_of_the_last_layers_are_placed_as_fit() {
        let (config, needs) = (config(), needs());
        let place = |free: &[u64], pages, asked| {
            let placed = place(&config, &needs, &Room { free, pages }, asked)?;
            let ends = placed.iter().map(|layers| (layers.start, layers.end));
            Ok(ends.collect::<Vec<_>>())
        };
        let auto = GpuLayers::Auto;
        // All of them take 8 · 120 + 250; a part of what is free is the driver's.
        assert_eq!(place(&[1300], 2, auto), Ok(vec![(0, 8)]));
        assert_eq!(place(&[1200], 2, auto), Ok(vec![(1, 8)]));
        assert_eq!(place(&[640], 2, auto), Ok(vec![(5, 8)]));
        assert_eq!(place(&[10_000], 2, GpuLayers::Last(3)), Ok(vec![(5, 8)]));
        assert_eq!(place(&[10_000], 2, GpuLayers::Last(99)), Ok(vec![(0, 8)]));
        // Two of them have buffers each, and the second one the logits.
        assert_eq!(place(&[800, 800], 2, auto), Ok(vec![(0, 4), (4, 8)]));
        assert_eq!(
            place(&[400, 900], 2, GpuLayers::Last(6)),
            Ok(vec![(2, 3), (3, 8)])
        );
        let full = place(&[640], 2, GpuLayers::Last(4));
        assert!(
            matches!(full, Err(Misplaced::Full { layers: 4, .. })),
            "{full:?}"
        );
        let sentence = full.unwrap_err().to_string();
        assert!(
            sentence.contains("its last 4 layers need 0.7 kB"),
            "{sentence}"
        );
        let nothing = place(&[300], 2, auto);
        assert!(
            matches!(nothing, Err(Misplaced::Full { layers: 1, .. })),
            "{nothing:?}"
        );
        let few = place(&[10_000; 9], 2, auto);
        assert!(
            matches!(few, Err(Misplaced::TooFew { gpus: 9, .. })),
            "{few:?}"
        );
    }

    #[test]
    fn what_would_fit_is_found() {
        let (config, needs) = (config(), needs());
        let (free, pages) = (&[1200][..], 10);
        let room = Room { free, pages };
        // 250 and seven times 200 are too much; four times 200 are not.
        assert_eq!(most_layers(&config, &needs, &room), Some(4));
        // 1050 for all layers leave 112 bytes for pages of 80.
        assert_eq!(most_pages(&config, &needs, &room, GpuLayers::Last(8)), 1);
        let none = Room {
            free: &[300],
            pages,
        };
        assert_eq!(most_layers(&config, &needs, &none), None);
        assert_eq!(most_pages(&config, &needs, &none, GpuLayers::Last(8)), 0);
    }
}
