//! Little-endian numbers, read from bytes that may be too few.

macro_rules! number {
    ($name:ident, $ty:ty, $doc:literal) => {
        #[doc = $doc]
        pub fn $name(bytes: &[u8], at: usize) -> Option<$ty> {
            let end = at.checked_add(size_of::<$ty>())?;
            Some(<$ty>::from_le_bytes(bytes.get(at..end)?.try_into().ok()?))
        }
    };
}

number!(u16, u16, "Two bytes.");
number!(u32, u32, "Four bytes.");
number!(u64, u64, "Eight bytes.");
