//! `include/strata.h` is made of the source, so that neither can change alone. `STRATA_WRITE_HEADER=1` writes it.

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The files in the order of the header, with a line above each one's functions.
const PARTS: [(&str, &str); 6] = [
    ("version", "The library"),
    ("errors", "Errors"),
    ("model", "Models"),
    ("stream", "Requests and their streams"),
    ("session", "Sessions"),
    ("memory", "What the caller frees"),
];

const BEGINNING: &str = "\
/* Strata: language models in your own program.
 *
 * Made from the source of bindings/c by its tests: do not edit.
 *
 * Every function may be called from any thread at any time. Texts are UTF-8 and end with a zero byte; those that go in
 * stay the caller's and need not outlive the call. Handles are looked up, never followed: a handle that was freed is an
 * error, not a crash. A function that fails returns NULL or -1, and strata_error_code and strata_error_message say why to
 * the thread that called it. Nothing is thrown or unwound.
 */
#ifndef STRATA_H
#define STRATA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif

/* The number of this interface; compare it with strata_abi_version(). */
#define STRATA_ABI_VERSION 1

/* A model in memory. */
typedef struct strata_model strata_model;
/* An answer on its way, or a load: JSON documents to pull. */
typedef struct strata_stream strata_stream;
/* A text that grows over many requests. */
typedef struct strata_session strata_session;

/* What strata_next returns. */
enum {
    STRATA_ERROR = -1,
    STRATA_END = 0,
    STRATA_DOCUMENT = 1,
    STRATA_PENDING = 2
};
";

const ENDING: &str = "
#ifdef __cplusplus
}
#endif

#endif
";

/// The C type of a parameter or result, ready for a name to follow.
fn c_type(rust: &str) -> &'static str {
    match rust {
        "*const c_char" => "const char *",
        "*mut c_char" => "char *",
        "*mut *mut c_char" => "char **",
        // A handle that is only looked up is no promise about what it leads to.
        "*const StrataModel" | "*mut StrataModel" => "strata_model *",
        "*const StrataStream" | "*mut StrataStream" => "strata_stream *",
        "*const StrataSession" | "*mut StrataSession" => "strata_session *",
        "*const u32" => "const uint32_t *",
        "*mut u32" => "uint32_t *",
        "*const u8" => "const uint8_t *",
        "*mut u8" => "uint8_t *",
        "*mut usize" => "size_t *",
        "usize" => "size_t ",
        "i64" => "int64_t ",
        "i32" => "int ",
        "u32" => "uint32_t ",
        other => panic!("the header has no word for {other}"),
    }
}

/// The declarations of a source file.
fn declarations(source: &str, header: &mut String) {
    let mut words: Vec<&str> = Vec::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if let Some(text) = line.strip_prefix("///") {
            words.push(text.trim());
            continue;
        }
        let function = line
            .strip_prefix("pub extern \"C\" fn ")
            .or_else(|| line.strip_prefix("pub unsafe extern \"C\" fn "));
        if let Some(function) = function {
            let mut whole = function.to_owned();
            while !whole.ends_with('{') {
                whole += " ";
                whole += lines.next().expect("a body").trim();
            }
            let safety = words.iter().position(|line| *line == "# Safety");
            let mut told = &words[..safety.unwrap_or(words.len())];
            while let [rest @ .., ""] = told {
                told = rest;
            }
            writeln!(header, "\n/* {} */", told.join("\n * ")).unwrap();
            writeln!(header, "{};", declaration(&whole)).unwrap();
        }
        if !line.starts_with("#[") {
            words.clear();
        }
    }
}

fn declaration(function: &str) -> String {
    let (name, rest) = function.split_once('(').unwrap();
    let (parameters, result) = rest.split_once(')').unwrap();
    let result = result.trim().trim_end_matches('{').trim();
    let result = result.strip_prefix("-> ").map_or("void ", c_type);
    let parameters: Vec<String> = parameters
        .split(',')
        .filter_map(|parameter| {
            let (name, rust) = parameter.trim().split_once(": ")?;
            Some(format!("{}{name}", c_type(rust)))
        })
        .collect();
    let parameters = match &parameters[..] {
        [] => "void".into(),
        some => some.join(", "),
    };
    format!("{result}{name}({parameters})")
}

#[test]
fn the_header_is_what_the_source_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut header = BEGINNING.to_owned();
    for (file, title) in PARTS {
        write!(header, "\n/* ---- {title} ---- */\n").unwrap();
        let source = fs::read_to_string(folder.join(format!("src/{file}.rs"))).unwrap();
        declarations(&source, &mut header);
    }
    header += ENDING;
    let path = folder.join("include/strata.h");
    if std::env::var_os("STRATA_WRITE_HEADER").is_some() {
        fs::write(&path, &header).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == header,
        "strata.h is not of this source: run with STRATA_WRITE_HEADER=1"
    );
    assert_eq!(strata_c::strata_abi_version(), 1);
}
