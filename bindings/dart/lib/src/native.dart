/// The C library, as `STRATA_LIBRARY` says, inside the program on iOS, or where the system finds it.
library;

import 'dart:ffi';
import 'dart:io';

import 'errors.dart';
import 'functions.dart';
import 'memory.dart';

const _abi = 1;
const _needed = 'chat completions constraints embeddings plan sessions tokenize tools';

/// The library.
final DynamicLibrary library = _open();

/// Its functions. Every isolate looks them up once.
final Functions native = _checked();

DynamicLibrary _open() {
  final given = Platform.environment['STRATA_LIBRARY'];
  if (given != null) return DynamicLibrary.open(given);
  if (Platform.isIOS) return DynamicLibrary.process();
  if (Platform.isMacOS) return DynamicLibrary.open('libstrata_c.dylib');
  return DynamicLibrary.open(Platform.isWindows ? 'strata_c.dll' : 'libstrata_c.so');
}

Functions _checked() {
  final functions = Functions(library);
  if (functions.strata_abi_version() != _abi) {
    throw StrataError('unsupported', 'the library is of another version than this package');
  }
  using((scratch) {
    if (functions.strata_require(scratch.text(_needed)) != 0) {
      throw StrataError('unsupported', copied(functions.strata_error_message()));
    }
  });
  return functions;
}
