import 'dart:ffi';

import 'memory.dart';
import 'native.dart';

/// What went wrong: a sentence, a code that stays the same from version to version, perhaps a hint.
class StrataError implements Exception {
  StrataError(this.code, this.message, [this.hint]);

  /// The error's kind, such as `not_found` or `out_of_memory`.
  final String code;
  final String message;

  /// What the user can do about it.
  final String? hint;

  /// What the thread's latest call failed with. An isolate stays on its thread between two calls that nothing awaits.
  static StrataError last() {
    final code = _text(native.strata_error_code()) ?? 'internal';
    final message = _text(native.strata_error_message()) ?? 'the call failed';
    return of([code, message, _text(native.strata_error_hint())]);
  }

  /// An error that came from another isolate.
  static StrataError of(List<String?> parts) {
    final [code, message, hint] = parts;
    return code == 'canceled' ? Canceled(message!) : StrataError(code!, message!, hint);
  }

  /// The error for another isolate.
  List<String?> get parts => [code, message, hint];

  static String? _text(Pointer<Char> given) => given == nullptr ? null : copied(given);

  @override
  String toString() => 'StrataError($code): $message';
}

/// The request was canceled.
class Canceled extends StrataError {
  Canceled(String message) : super('canceled', message);
}

/// A handle or memory, unless the call failed.
Pointer<T> checked<T extends NativeType>(Pointer<T> given) {
  if (given == nullptr) throw StrataError.last();
  return given;
}

/// Throws where a call gave no 0.
void succeeded(int status) {
  if (status != 0) throw StrataError.last();
}

/// A text that the library gave, copied and freed.
String taken(Pointer<Char> given) {
  final text = copied(checked(given));
  native.strata_string_free(given);
  return text;
}
