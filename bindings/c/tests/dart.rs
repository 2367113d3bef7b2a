//! `bindings/dart/lib/src/functions.dart` is made of `strata.h`, so that a signature cannot be another in Dart.
//! `STRATA_WRITE_HEADER=1` writes it.

use std::fmt::Write;
use std::fs;
use std::path::Path;

const BEGINNING: &str = "\
/// The functions of strata.h. Made from it by the tests of bindings/c: do not edit.
// ignore_for_file: non_constant_identifier_names
library;

import 'dart:ffi';

/// Every function, looked up by its name.
final class Functions {
  Functions(DynamicLibrary library)
";

/// A type of C, as native code and as Dart see it.
fn types(c: &str) -> (&'static str, &'static str) {
    let same = |name| (name, name);
    match c {
        "const char *" | "char *" => same("Pointer<Char>"),
        "char **" => same("Pointer<Pointer<Char>>"),
        "strata_model *" | "strata_stream *" | "strata_session *" => same("Pointer<Void>"),
        "const uint32_t *" | "uint32_t *" => same("Pointer<Uint32>"),
        "const uint8_t *" | "uint8_t *" => same("Pointer<Uint8>"),
        "size_t *" => same("Pointer<Size>"),
        "size_t" => ("Size", "int"),
        "int64_t" => ("Int64", "int"),
        "int" => ("Int", "int"),
        "uint32_t" => ("Uint32", "int"),
        "void" => ("Void", "void"),
        other => panic!("Dart has no word for {other}"),
    }
}

/// A declaration's type and name.
fn split(declaration: &str) -> (&str, &str) {
    let before = declaration.rfind([' ', '*']).expect("a type and a name");
    let name = before + 1;
    (declaration[..name].trim(), &declaration[name..])
}

/// What native code and Dart see of a function.
fn signatures(result: &str, parameters: &str) -> (String, String) {
    let parameters = match parameters {
        "void" => Vec::new(),
        some => some.split(", ").map(|one| types(split(one).0)).collect(),
    };
    let list = |side: fn(&(&'static str, &'static str)) -> &'static str| {
        let names: Vec<&str> = parameters.iter().map(side).collect();
        format!("{} Function({})", side(&types(result)), names.join(", "))
    };
    (list(|both| both.0), list(|both| both.1))
}

fn dart(header: &str) -> String {
    let (mut lookups, mut fields) = (Vec::new(), String::new());
    let declared = header.lines().filter(|line| line.ends_with(");"));
    for line in declared.filter(|line| !line.starts_with(' ')) {
        let (before, rest) = line.split_once('(').expect("parameters");
        let (result, name) = split(before);
        let (native, dart) = signatures(result, rest.trim_end_matches(");"));
        lookups.push(format!(
            "{name} = library.lookupFunction<{native}, {dart}>('{name}')"
        ));
        write!(fields, "\n  final {dart} {name};").expect("a string grows");
    }
    let lookups = lookups.join(",\n        ");
    format!("{BEGINNING}      : {lookups};\n{fields}\n}}\n")
}

#[test]
fn the_functions_of_dart_are_those_of_the_header() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = fs::read_to_string(folder.join("include/strata.h")).unwrap();
    let made = dart(&header);
    let path = folder.join("../dart/lib/src/functions.dart");
    if std::env::var_os("STRATA_WRITE_HEADER").is_some() {
        fs::write(&path, &made).unwrap();
    }
    assert!(
        made.contains(
            "final int Function(Pointer<Void>, int, Pointer<Pointer<Char>>) strata_next;"
        )
    );
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == made,
        "functions.dart is not of this header: run with STRATA_WRITE_HEADER=1"
    );
}
