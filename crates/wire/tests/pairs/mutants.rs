//! Requests that are almost right.

use strata_chat::json::Json;

/// The same numbers on every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// A value of another kind, or of a size that nothing has.
fn odd(random: &mut Random) -> Json {
    match random.below(14) {
        0 => Json::Null,
        1 => true.into(),
        2 => Json::Int(i64::MIN),
        3 => Json::Int(i64::MAX),
        4 => Json::Large(u64::MAX),
        5 => 1e308.into(),
        6 => (-1e-308).into(),
        7 => "".into(),
        8 => "\u{0}😀".repeat(1000).into(),
        9 => Json::Array(Vec::new()),
        10 => Json::Object(Vec::new()),
        11 => Json::array([Json::Int(-1), "a".into(), Json::Null]),
        12 => Json::object([("type", "text".into()), ("text", 1.5.into())]),
        _ => "data:image/png;base64,====".into(),
    }
}

/// Changes one value somewhere inside.
fn change(value: &mut Json, random: &mut Random) {
    let inside = match value {
        Json::Array(items) => items.len(),
        Json::Object(pairs) => pairs.len(),
        _ => 0,
    };
    if inside == 0 || random.below(5) == 0 {
        *value = odd(random);
        return;
    }
    let chosen = random.below(inside);
    match value {
        Json::Array(items) => match random.below(8) {
            0 => drop(items.remove(chosen)),
            1 => items.push(items[chosen].clone()),
            _ => change(&mut items[chosen], random),
        },
        Json::Object(pairs) => match random.below(8) {
            0 => drop(pairs.remove(chosen)),
            1 => pairs.push((pairs[chosen].0.clone(), odd(random))),
            2 => pairs[chosen].0.push('x'),
            _ => change(&mut pairs[chosen].1, random),
        },
        _ => {}
    }
}

/// A body that is a little wrong, as JSON or as bytes.
pub(crate) fn mutant(body: &Json, random: &mut Random) -> Vec<u8> {
    let mut body = body.clone();
    for _ in 0..=random.below(3) {
        change(&mut body, random);
    }
    let mut bytes = body.text().into_bytes();
    if random.below(4) == 0 && !bytes.is_empty() {
        let at = random.below(bytes.len());
        match random.below(3) {
            0 => bytes.truncate(at),
            1 => bytes[at] = random.below(256) as u8,
            _ => bytes.insert(at, b"{}[]\",:\\0e-"[random.below(11)]),
        }
    }
    bytes
}

/// The body once for each object in it, with a field that nobody knows; with the field's place. Objects under `free`
/// names may have any fields.
pub(crate) fn strangers(body: &Json, free: &[&str]) -> Vec<(String, Json)> {
    let mut found = Vec::new();
    walk(body, "", free, &mut |place, changed| {
        found.push((place, changed));
    });
    found
}

fn walk(value: &Json, place: &str, free: &[&str], found: &mut dyn FnMut(String, Json)) {
    match value {
        Json::Object(pairs) => {
            let name = |key: &str| match place {
                "" => key.to_string(),
                place => format!("{place}.{key}"),
            };
            found(name("stranger"), value.clone().with("stranger", 1_i64));
            for (i, (key, inner)) in pairs.iter().enumerate() {
                if !free.contains(&key.as_str()) {
                    walk(inner, &name(key), free, &mut |place, changed| {
                        let mut pairs = pairs.clone();
                        pairs[i].1 = changed;
                        found(place, Json::Object(pairs));
                    });
                }
            }
        }
        Json::Array(items) => {
            for (i, inner) in items.iter().enumerate() {
                walk(
                    inner,
                    &format!("{place}[{i}]"),
                    free,
                    &mut |place, changed| {
                        let mut items = items.clone();
                        items[i] = changed;
                        found(place, Json::Array(items));
                    },
                );
            }
        }
        _ => {}
    }
}
