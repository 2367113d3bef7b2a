//! What a processor can do, by its identification registers (Arm ARM, chapter D24).

use core::fmt;

/// What a processor can do.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// `sdot` and `udot`.
    pub dot_products: bool,
    /// Products of matrices of bytes.
    pub byte_matrices: bool,
    /// Atomic instructions.
    pub atomics: bool,
    /// SHA-256.
    pub sha256: bool,
    /// Random numbers.
    pub random: bool,
    /// The scalable vector extension, which is not used.
    pub scalable_vectors: bool,
}

impl Features {
    /// From `ID_AA64ISAR0_EL1`, `ID_AA64ISAR1_EL1` and `ID_AA64PFR0_EL1`.
    pub fn read(isar0: u64, isar1: u64, pfr0: u64) -> Self {
        let has = |register: u64, at: u32| register >> at & 15 != 0;
        Self {
            dot_products: has(isar0, 44),
            byte_matrices: has(isar1, 52),
            atomics: has(isar0, 20),
            sha256: has(isar0, 12),
            random: has(isar0, 60),
            scalable_vectors: has(pfr0, 32),
        }
    }

    /// What there is, by the names that Linux has for it.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let all = [
            ("asimd", true),
            ("asimddp", self.dot_products),
            ("i8mm", self.byte_matrices),
            ("atomics", self.atomics),
            ("sha2", self.sha256),
            ("rng", self.random),
            ("sve", self.scalable_vectors),
        ];
        all.into_iter()
            .filter(|(_, has)| *has)
            .map(|(name, _)| name)
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NEON")?;
        if self.dot_products {
            f.write_str(" with dot products")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn fields_are_told_apart() {
        // As Cortex-A72 and Neoverse N1 say it.
        let old = Features::read(0x1_1120, 0, 0x2222);
        assert!(old.names().eq(["asimd", "sha2"]));
        assert_eq!(old.to_string(), "NEON");
        let new = Features::read(0x1000_1021_1120, 1 << 20, 0x11_0000_1011_1112);
        assert!(new.names().eq(["asimd", "asimddp", "atomics", "sha2"]));
        assert_eq!(new.to_string(), "NEON with dot products");
        let all = Features::read(u64::MAX, u64::MAX, u64::MAX);
        assert_eq!(all.names().count(), 7);
    }
}
