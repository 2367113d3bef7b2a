//! Licence expressions (SPDX): names joined by `OR` and `AND`, with parentheses. A slash is an old way to write `OR`.

/// Whether the expression can be met with licences that `is_allowed` takes; `None` if it cannot be read.
pub(super) fn is_met(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let mut words = Words {
        words: spaced.split_whitespace().collect(),
        at: 0,
        is_allowed,
    };
    let met = words.any()?;
    (words.at == words.words.len()).then_some(met)
}

struct Words<'a> {
    words: Vec<&'a str>,
    at: usize,
    is_allowed: &'a dyn Fn(&str) -> bool,
}

impl<'a> Words<'a> {
    fn takes(&mut self, word: &str) -> bool {
        let found = self.words.get(self.at) == Some(&word);
        self.at += usize::from(found);
        found
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = *self.words.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    fn any(&mut self) -> Option<bool> {
        let mut met = self.all()?;
        while self.takes("OR") {
            met |= self.all()?;
        }
        Some(met)
    }

    fn all(&mut self) -> Option<bool> {
        let mut met = self.one()?;
        while self.takes("AND") {
            met &= self.one()?;
        }
        Some(met)
    }

    fn one(&mut self) -> Option<bool> {
        if self.takes("(") {
            let met = self.any()?;
            return self.takes(")").then_some(met);
        }
        let name = self
            .next()
            .filter(|word| !matches!(*word, "OR" | "AND" | ")"))?;
        if self.takes("WITH") {
            let exception = self.next()?;
            return Some((self.is_allowed)(&format!("{name} WITH {exception}")));
        }
        Some((self.is_allowed)(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_weighed() {
        let met = |text| is_met(text, &|name| matches!(name, "MIT" | "ISC" | "A WITH x"));
        for (expression, expected) in [
            ("MIT", Some(true)),
            ("GPL-3.0-only", Some(false)),
            ("GPL-3.0-only OR MIT", Some(true)),
            ("MIT/Apache-2.0", Some(true)),
            ("MIT AND GPL-3.0-only", Some(false)),
            ("(GPL-3.0-only OR MIT) AND ISC", Some(true)),
            ("GPL-3.0-only OR MIT AND B", Some(false)),
            ("A WITH x", Some(true)),
            ("A WITH y", Some(false)),
            ("", None),
            ("MIT OR", None),
            ("(MIT", None),
            ("MIT ISC", None),
        ] {
            assert_eq!(met(expression), expected, "{expression}");
        }
    }
}
