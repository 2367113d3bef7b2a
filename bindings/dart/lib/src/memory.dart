/// Memory outside Dart's heap, for what calls take and give.
library;

import 'dart:convert';
import 'dart:ffi';
import 'dart:io';

final _c = Platform.isWindows ? DynamicLibrary.open('msvcrt.dll') : DynamicLibrary.process();
final _malloc = _c.lookupFunction<Pointer<Void> Function(Size), Pointer<Void> Function(int)>('malloc');
final _free = _c.lookupFunction<Void Function(Pointer<Void>), void Function(Pointer<Void>)>('free');

/// Memory for one call.
final class Scratch {
  final _taken = <Pointer<Void>>[];

  /// So many bytes.
  Pointer<T> room<T extends NativeType>(int bytes) {
    final place = _malloc(bytes);
    if (place == nullptr) throw OutOfMemoryError();
    _taken.add(place);
    return place.cast();
  }

  /// A text with the zero at its end.
  Pointer<Char> text(String text) => bytes([...utf8.encode(text), 0]).cast();

  /// Bytes.
  Pointer<Uint8> bytes(List<int> given) {
    final place = room<Uint8>(given.length + 1);
    place.asTypedList(given.length).setAll(0, given);
    return place;
  }
}

/// Does something with memory that is freed when it ends.
T using<T>(T Function(Scratch) act) {
  final scratch = Scratch();
  try {
    return act(scratch);
  } finally {
    scratch._taken.forEach(_free);
  }
}

/// A text of C's, copied.
String copied(Pointer<Char> given) {
  final bytes = given.cast<Uint8>();
  var length = 0;
  while ((bytes + length).value != 0) {
    length++;
  }
  return utf8.decode(bytes.asTypedList(length));
}
