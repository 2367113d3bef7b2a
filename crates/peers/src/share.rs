//! Which machine has which layers.

/// What a machine has room for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Bytes for weights, pages and activations.
    pub room: u64,
    /// Bytes of that which it needs whatever layers it has.
    pub fixed: u64,
}

/// Why layers cannot be shared out so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Uneven {
    #[error("the model can be cut in {cuts} places, which are too few for {machines} machines")]
    TooFew { cuts: usize, machines: usize },
    #[error("{given} numbers of layers are given for {machines} machines")]
    Machines { given: usize, machines: usize },
    #[error("the numbers of layers given add up to {given}; the model has {layers}")]
    Layers { given: usize, layers: usize },
    #[error("a peer is given no layers")]
    Nothing,
    #[error(
        "the model cannot be cut before layer {layer}: later layers read what earlier ones keep"
    )]
    Cut { layer: usize },
}

/// The first layer of each machine but the first, the head's being 0: such that the fullest machine, for its room, is as
/// empty as can be. `layers` has the bytes of each; machines begin at layers of which `can_cut` says so.
pub fn share(
    layers: &[u64],
    machines: &[Machine],
    can_cut: impl Fn(usize) -> bool,
) -> Result<Vec<usize>, Uneven> {
    let cuts: Vec<usize> = (0..layers.len()).filter(|&at| can_cut(at)).collect();
    let peers = machines.len().saturating_sub(1);
    if cuts.len() < peers {
        return Err(Uneven::TooFew {
            cuts: cuts.len(),
            machines: machines.len(),
        });
    }
    // What the fullest machine has of its room lies between these.
    let (mut low, mut high) = (0.0, 1.0);
    while fill(layers, machines, &cuts, high).is_none() && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        match fill(layers, machines, &cuts, middle) {
            Some(_) => high = middle,
            None => low = middle,
        }
    }
    let last = |peer: usize| cuts[cuts.len() - peers + peer];
    Ok(fill(layers, machines, &cuts, high).unwrap_or_else(|| (0..peers).map(last).collect()))
}

/// Where machines begin if each is filled up to a part of its room, one after the other; none if that is too little.
fn fill(layers: &[u64], machines: &[Machine], cuts: &[usize], part: f64) -> Option<Vec<usize>> {
    let mut starts = Vec::new();
    let mut first = 0;
    for (number, machine) in machines.iter().enumerate() {
        let room = (machine.room as f64 * part) as u64;
        let room = room.checked_sub(machine.fixed)?;
        let bytes = |end: usize| layers[first..end].iter().sum::<u64>();
        let after = machines.len() - 1 - number;
        if after == 0 {
            return (bytes(layers.len()) <= room).then_some(starts);
        }
        // Each machine after this one needs a place to begin, and a peer has at least a layer.
        let possible = &cuts[..cuts.len() + 1 - after];
        let least = first + usize::from(number > 0);
        let mut ends = possible.iter().rev().filter(|&&end| end >= least);
        first = *ends.find(|&&end| bytes(end) <= room)?;
        starts.push(first);
    }
    None
}

impl Uneven {
    /// Where machines begin of which the numbers of layers are given, the head's first.
    pub fn given(
        counts: &[usize],
        layers: usize,
        machines: usize,
        can_cut: impl Fn(usize) -> bool,
    ) -> Result<Vec<usize>, Self> {
        if counts.len() != machines {
            let given = counts.len();
            return Err(Self::Machines { given, machines });
        }
        let sum = |counts: &[usize]| counts.iter().fold(0usize, |sum, &n| sum.saturating_add(n));
        if sum(counts) != layers {
            let given = sum(counts);
            return Err(Self::Layers { given, layers });
        }
        if counts.iter().skip(1).any(|&count| count == 0) {
            return Err(Self::Nothing);
        }
        let starts: Vec<usize> = (1..machines).map(|end| sum(&counts[..end])).collect();
        match starts.iter().find(|&&layer| !can_cut(layer)) {
            Some(&layer) => Err(Self::Cut { layer }),
            None => Ok(starts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(room: u64) -> Machine {
        Machine { room, fixed: 0 }
    }

    #[test]
    fn machines_are_filled_alike() {
        let layers = [10; 16];
        let anywhere = |_| true;
        assert_eq!(share(&layers, &[room(1000); 2], anywhere), Ok(vec![8]));
        assert_eq!(
            share(&layers, &[room(1000); 4], anywhere),
            Ok(vec![4, 8, 12])
        );
        let machines = [room(3000), room(1000)];
        assert_eq!(share(&layers, &machines, anywhere), Ok(vec![12]));
        // The head has embeddings beside, here as much as six layers.
        let head = Machine {
            room: 1000,
            fixed: 60,
        };
        assert_eq!(share(&layers, &[head, room(1000)], anywhere), Ok(vec![5]));
        // A head with no room at all has no layers.
        let machines = [room(1), room(1000)];
        assert_eq!(share(&layers, &machines, anywhere), Ok(vec![0]));
        // Too large for all of them: shared all the same, and refused by their plans.
        assert_eq!(share(&layers, &[room(10); 2], anywhere), Ok(vec![8]));
    }

    #[test]
    fn machines_begin_where_the_model_can_be_cut() {
        let layers = [10; 8];
        let machines = [room(100); 2];
        assert_eq!(share(&layers, &machines, |at| at <= 2), Ok(vec![2]));
        let machines = [room(100); 5];
        let few = share(&layers, &machines, |at| at <= 2);
        assert_eq!(
            few,
            Err(Uneven::TooFew {
                cuts: 3,
                machines: 5
            })
        );
        // As many machines as there are places: each has what it must.
        assert_eq!(
            share(&layers[..2], &machines[..3], |_| true),
            Ok(vec![0, 1])
        );
    }

    #[test]
    fn numbers_of_layers_must_be_those_of_the_model() {
        let given = |counts: &[usize]| Uneven::given(counts, 8, 3, |at| at != 5);
        assert_eq!(given(&[0, 4, 4]), Ok(vec![0, 4]));
        assert_eq!(given(&[4, 2, 2]), Ok(vec![4, 6]));
        assert_eq!(given(&[5, 2, 1]), Err(Uneven::Cut { layer: 5 }));
        assert_eq!(given(&[4, 4, 0]), Err(Uneven::Nothing));
        assert!(given(&[4, 4]).is_err() && given(&[4, 4, 4]).is_err());
        assert!(given(&[usize::MAX, 4, 5]).is_err());
    }
}
