//! Which source files have code in a linked program, by its line tables (DWARF 4 and 5, section 6.2.4).

use anyhow::{Context, Result, bail};
use std::collections::HashSet;

/// Bytes that are read from front to back.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (front, rest) = self
            .0
            .split_at_checked(len)
            .context("a line table is cut off")?;
        self.0 = rest;
        Ok(front)
    }

    fn number(&mut self, bytes: usize) -> Result<usize> {
        let bytes = self.take(bytes)?.iter().rev();
        Ok(bytes.fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    }

    fn uleb(&mut self) -> Result<usize> {
        let (mut sum, mut shift) = (0, 0);
        loop {
            let byte = self.number(1)?;
            sum |= (byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                return Ok(sum);
            }
        }
    }

    fn text(&mut self) -> Result<String> {
        let len = self.0.iter().position(|byte| *byte == 0);
        let text = self.take(len.context("a line table is cut off")?)?;
        self.take(1)?;
        Ok(String::from_utf8_lossy(text).into_owned())
    }
}

/// The ends of the paths of all files with code in a program, without what the build changes of them.
pub(super) fn files(elf: &[u8]) -> Result<HashSet<String>> {
    let strings = section(elf, ".debug_line_str").unwrap_or_default();
    let lines = section(elf, ".debug_line").context("the program has no line tables")?;
    let mut rest = Reader(lines);
    let mut found = HashSet::new();
    while !rest.0.is_empty() {
        let len = rest.number(4)?;
        unit(Reader(rest.take(len)?), strings, &mut found)?;
    }
    Ok(found)
}

fn unit(mut table: Reader<'_>, strings: &[u8], found: &mut HashSet<String>) -> Result<()> {
    let version = table.number(2)?;
    match version {
        4 => table.take(4)?,
        5 => table.take(6)?,
        _ => bail!("line tables of DWARF {version} are not known"),
    };
    table.take(5)?;
    let opcodes = table.number(1)?;
    table.take(opcodes.saturating_sub(1))?;
    let mut folders = Vec::new();
    if version == 5 {
        let list = entries(&mut table, strings)?;
        folders.extend(list.into_iter().map(|(folder, _)| folder));
        // The first is where the compiler ran.
        if let Some(first) = folders.first_mut() {
            first.clear();
        }
        for (name, folder) in entries(&mut table, strings)? {
            found.insert(ending(folders.get(folder), &name));
        }
        return Ok(());
    }
    folders.push(String::new());
    while table.0.first().is_some_and(|byte| *byte != 0) {
        folders.push(table.text()?);
    }
    table.take(1)?;
    while table.0.first().is_some_and(|byte| *byte != 0) {
        let name = table.text()?;
        let folder = table.uleb()?;
        table.uleb()?;
        table.uleb()?;
        found.insert(ending(folders.get(folder), &name));
    }
    Ok(())
}

/// Names with the number of their folder, as DWARF 5 lists them.
fn entries(table: &mut Reader<'_>, strings: &[u8]) -> Result<Vec<(String, usize)>> {
    let formats = table.number(1)?;
    let formats: Vec<(usize, usize)> = (0..formats)
        .map(|_| Ok((table.uleb()?, table.uleb()?)))
        .collect::<Result<_>>()?;
    let count = table.uleb()?;
    let mut list = Vec::new();
    for _ in 0..count {
        let (mut name, mut folder) = (String::new(), 0);
        for &(what, form) in &formats {
            match (form, what) {
                (0x08, _) => name = table.text()?,
                (0x1f, _) => {
                    let at = table.number(4)?;
                    let rest = strings.get(at..).context("a name is missing")?;
                    name = Reader(rest).text()?;
                }
                (0x0b, _) => folder = table.number(1)?,
                (0x05, _) => folder = table.number(2)?,
                (0x0f, 2) => folder = table.uleb()?,
                (0x0f, _) => drop(table.uleb()?),
                (0x1e, _) => drop(table.take(16)?),
                _ => bail!("a line table has a field of form {form:#x}"),
            }
        }
        list.push((name, folder));
    }
    Ok(list)
}

/// A path from the package's folder on, or from the repository's root.
fn ending(folder: Option<&String>, name: &str) -> String {
    let path = match folder.map(String::as_str).unwrap_or_default() {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    };
    // `cargo/registry/src/INDEX/PACKAGE/…`, whatever stands before.
    match path.split_once("registry/src/") {
        Some((_, rest)) => rest.split_once('/').map_or(rest, |(_, path)| path).into(),
        None => path.trim_start_matches("./").into(),
    }
}

fn section<'a>(elf: &'a [u8], wanted: &str) -> Option<&'a [u8]> {
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let field = elf.get(at..at.checked_add(bytes)?)?.iter().rev();
        Some(field.fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    };
    let (table, size) = (number(40, 8)?, number(58, 2)?);
    let (count, names) = (number(60, 2)?, number(62, 2)?);
    let entry = |index: usize| {
        let at = table + index * size;
        Some((number(at, 4)?, number(at + 24, 8)?, number(at + 32, 8)?))
    };
    let (_, names, _) = entry(names)?;
    (0..count).find_map(|index| {
        let (name, start, len) = entry(index)?;
        let name = Reader(elf.get(names + name..)?).text().ok()?;
        (name == wanted).then(|| elf.get(start..start + len))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_from_what_stands_before_them() {
        let path = |folder: &str, name| ending(Some(&folder.to_owned()), name);
        assert_eq!(path("", "src/lib.rs"), "src/lib.rs");
        assert_eq!(
            path("cargo/registry/src/index-1/a-1.0", "src/x.rs"),
            "a-1.0/src/x.rs"
        );
        assert_eq!(
            path("crates/unikernel", "src/http/mod.rs"),
            "crates/unikernel/src/http/mod.rs"
        );
    }

    #[test]
    fn a_table_is_read() {
        let mut table = vec![4, 0, 0, 0, 0, 0, 1, 1, 1, 1, 14, 1];
        table.push(0);
        table.truncate(11);
        table.push(2);
        table.push(0);
        table.extend(b"crates/a\0\0");
        table.extend(b"src/x.rs\0\x01\0\0y.rs\0\0\0\0\0");
        let mut found = HashSet::new();
        unit(Reader(&table), &[], &mut found).unwrap();
        let expected = ["crates/a/src/x.rs", "y.rs"].map(String::from);
        assert_eq!(found, HashSet::from(expected));
        for len in 0..table.len() {
            let _ = unit(Reader(&table[..len]), &[], &mut HashSet::new());
        }
    }
}
