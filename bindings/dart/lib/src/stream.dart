import 'dart:async';
import 'dart:convert';
import 'dart:ffi';
import 'dart:isolate';

import 'errors.dart';
import 'memory.dart';
import 'native.dart';

/// What strata_next returns.
const _failed = -1;
const _ended = 0;

/// The documents of a request. An isolate of its own waits for them, one at a time and only while somebody listens, so that
/// this one stays free. Canceling the subscription cancels the request.
final class JsonStream implements Finalizable {
  JsonStream(Pointer<Void> given) : _handle = checked(given) {
    _finalizer.attach(this, _handle, detach: this);
  }

  static final _finalizer = NativeFinalizer(library.lookup('strata_stream_free'));
  final Pointer<Void> _handle;
  bool _freed = false;

  /// The documents as they come.
  Stream<Map<String, dynamic>> get documents {
    final answers = ReceivePort();
    late final StreamController<Map<String, dynamic>> controller;
    late final Future<Isolate> isolate;
    SendPort? reader;
    var asked = false;

    void ask() {
      if (reader != null && !asked && !controller.isPaused) {
        asked = true;
        reader!.send(null);
      }
    }

    void hear(dynamic message) {
      switch (message) {
        case SendPort port:
          reader = port;
        case String document:
          asked = false;
          controller.add(jsonDecode(document) as Map<String, dynamic>);
        case List<String?> problem:
          answers.close();
          controller.addError(StrataError.of(problem));
          controller.close();
        case null:
          answers.close();
          controller.close();
      }
      if (!controller.isClosed) ask();
    }

    controller = StreamController(
      onListen: () {
        answers.listen(hear);
        isolate = Isolate.spawn(_read, (_handle.address, answers.sendPort), debugName: 'strata');
      },
      onResume: ask,
      onCancel: () async {
        answers.close();
        // One that has ended stays as it is.
        cancel();
        // It may wait to be asked.
        (await isolate).kill(priority: Isolate.beforeNextEvent);
      },
    );
    return controller.stream;
  }

  /// Cancels the request, at any time. Never waits.
  void cancel() {
    if (!_freed) native.strata_cancel(_handle);
  }

  /// Gives the result of a tool call.
  void toolResult(String id, String result) => using((scratch) {
        succeeded(native.strata_tool_result(_handle, scratch.text(id), scratch.text(result)));
      });

  /// Frees the stream and cancels what it waits for: the isolate that waits is woken and ends.
  void close() {
    if (_freed) return;
    _freed = true;
    _finalizer.detach(this);
    native.strata_stream_free(_handle);
  }

  /// The handle of the model that a load has loaded.
  Pointer<Void> takeModel() => checked(native.strata_stream_model(_handle));
}

/// The isolate's side: waits for a document each time that it is asked.
void _read((int, SendPort) given) {
  final (address, answers) = given;
  final stream = Pointer<Void>.fromAddress(address);
  final requests = ReceivePort();
  answers.send(requests.sendPort);
  requests.listen((_) => using((scratch) {
        final place = scratch.room<Pointer<Char>>(sizeOf<Pointer<Char>>());
        final status = native.strata_next(stream, -1, place);
        if (status == _failed) {
          answers.send(StrataError.last().parts);
        } else if (status == _ended) {
          answers.send(null);
        } else {
          answers.send(taken(place.value));
        }
        if (status == _failed || status == _ended) requests.close();
      }));
}
