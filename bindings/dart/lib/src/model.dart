import 'dart:convert';
import 'dart:ffi';
import 'dart:typed_data';

import 'answer.dart';
import 'errors.dart';
import 'memory.dart';
import 'native.dart';
import 'stream.dart';
import 'tool.dart';

/// Opens models.
abstract final class Strata {
  /// Opens a model: a GGUF file, a Hugging Face folder, a name in the store, or "tale", which is built in. Options are
  /// memory ("2G"), threads, context, requests, adapters and others. No isolate waits for it but one of its own.
  static Future<Model> load(
    String model, {
    Map<String, dynamic> options = const {},
    void Function(int loaded, int total)? progress,
  }) async {
    final stream = using((scratch) => JsonStream(native.strata_load(
          scratch.text(model),
          scratch.text(jsonEncode(options)),
        )));
    await for (final document in stream.documents) {
      progress?.call(document['loaded'] as int, document['total'] as int);
    }
    final opened = Model._(stream.takeModel());
    stream.close();
    return opened;
  }

  /// What a model would take in bytes, without loading it.
  static Map<String, dynamic> plan(String model, {Map<String, dynamic> options = const {}}) => using((scratch) {
        final plan = native.strata_plan(
          scratch.text(model),
          scratch.text(jsonEncode(options)),
        );
        return jsonDecode(taken(plan)) as Map<String, dynamic>;
      });

  /// What the library can do, by name.
  static List<String> get features => copied(native.strata_features()).split(' ');
}

/// A model in memory. It may be asked any number of things at once.
final class Model implements Finalizable {
  Model._(this._given) {
    _finalizer.attach(this, _given, detach: this);
  }

  static final _finalizer = NativeFinalizer(library.lookup('strata_model_free'));
  final Pointer<Void> _given;
  bool _closed = false;

  Pointer<Void> get _handle {
    if (_closed) throw StrataError('closed', 'the model was closed');
    return _given;
  }

  /// Asks what `strata serve` is asked at a path; no body is a GET.
  JsonStream request(String path, [Object? body]) => using((scratch) => JsonStream(native.strata_request(
        _handle,
        scratch.text(path),
        body == null ? nullptr : scratch.text(jsonEncode(body)),
      )));

  JsonStream _chatTools(Object body) => using((scratch) => JsonStream(
        native.strata_chat_tools(_handle, scratch.text(jsonEncode(body))),
      ));

  /// Asks for the next message of a conversation: a text, or a list of messages. [schema] is a JSON schema, [adapters] are
  /// strengths by number, [fields] those of /v1/chat/completions.
  Answer chat(
    Object messages, {
    List<Tool> tools = const [],
    Map<String, dynamic>? schema,
    Map<int, double>? adapters,
    Map<String, dynamic> fields = const {},
  }) {
    final body = {
      'stream': true,
      'messages': messages is String
          ? [
              {'role': 'user', 'content': messages}
            ]
          : messages,
      if (tools.isNotEmpty) 'tools': [for (final tool in tools) tool.document],
      if (schema != null)
        'response_format': {
          'type': 'json_schema',
          'json_schema': {'name': 'answer', 'schema': schema, 'strict': true},
        },
      if (adapters != null) 'lora': _loras(adapters),
      ...fields,
    };
    return Answer(() => tools.isEmpty ? request('/v1/chat/completions', body) : _chatTools(body), tools);
  }

  /// Continues a text as it is. The fields are those of /v1/completions.
  Answer complete(String prompt, {Map<int, double>? adapters, Map<String, dynamic> fields = const {}}) {
    final body = {'stream': true, 'prompt': prompt, if (adapters != null) 'lora': _loras(adapters), ...fields};
    return Answer(() => request('/v1/completions', body));
  }

  /// A vector of length 1 for each text.
  Future<List<Float32List>> embed(List<String> texts) async {
    final stream = request('/v1/embeddings', {'input': texts, 'encoding_format': 'base64'});
    final document = await stream.documents.first;
    stream.close();
    return [
      for (final one in document['data'] as List)
        base64Decode(one['embedding'] as String).buffer.asFloat32List(),
    ];
  }

  /// What is said in an audio file, with a model for speech. The fields are those of /v1/audio/transcriptions.
  Future<Map<String, dynamic>> transcribe(String file, {Map<String, dynamic> fields = const {}}) async {
    final stream = request('/v1/audio/transcriptions', {...fields, 'file': file});
    final document = await stream.documents.first;
    stream.close();
    return document;
  }

  /// The tokens of a text, with those that the model wants around one.
  List<int> tokenize(String text) => using((scratch) {
        final bytes = utf8.encode(text);
        final count = scratch.room<Size>(sizeOf<Size>());
        final tokens = checked(native.strata_tokenize(_handle, scratch.bytes(bytes).cast(), bytes.length, count));
        final copy = List<int>.of(tokens.asTypedList(count.value));
        native.strata_tokens_free(tokens, count.value);
        return copy;
      });

  /// The text of tokens.
  String detokenize(List<int> tokens) => using((scratch) {
        final given = scratch.room<Uint32>(4 * tokens.length + 4);
        given.asTypedList(tokens.length).setAll(0, tokens);
        return taken(native.strata_detokenize(_handle, given, tokens.length));
      });

  /// What is known of the model.
  Map<String, dynamic> get info => jsonDecode(taken(native.strata_model_info(_handle))) as Map<String, dynamic>;

  /// The adapters that it was opened with: id, path and scale.
  List<dynamic> get adapters => jsonDecode(taken(native.strata_adapters(_handle))) as List<dynamic>;

  /// Sets the strength of adapters for requests that name none; those that are not listed are left out.
  void setAdapters(Map<int, double> scales) => using((scratch) {
        succeeded(native.strata_adapters_set(_handle, scratch.text(jsonEncode(_loras(scales)))));
      });

  /// An empty session.
  Session session() => Session._(native.strata_session_new(_handle));

  /// A session that was saved, perhaps by another process.
  Session restore(Uint8List saved) => using((scratch) {
        return Session._(native.strata_session_restore(_handle, scratch.bytes(saved), saved.length));
      });

  /// Lets go of the model. It leaves memory when its last stream and session are gone too.
  void close() {
    if (_closed) return;
    _closed = true;
    _finalizer.detach(this);
    native.strata_model_free(_given);
  }
}

/// A text that grows over many requests.
final class Session implements Finalizable {
  Session._(Pointer<Void> given) : _handle = checked(given) {
    _finalizer.attach(this, _handle, detach: this);
  }

  static final _finalizer = NativeFinalizer(library.lookup('strata_session_free'));
  final Pointer<Void> _handle;
  bool _closed = false;

  /// Appends to the text. Control tokens in it are read as such.
  void append(String text) => using((scratch) {
        succeeded(native.strata_session_append(_handle, scratch.text(text)));
      });

  /// Holds all later runs, and those of forks, to constraints: deadline_ms, first_token_ms, token_ms, memory in bytes, a format
  /// (response_format, guided_regex, guided_choice, grammar), never_to_disk, never_off_machine.
  void constrain(Map<String, dynamic> constraints) => using((scratch) {
        succeeded(native.strata_session_constrain(_handle, scratch.text(jsonEncode(constraints))));
      });

  /// Continues the text. The fields are those of /v1/completions.
  Answer run([Map<String, dynamic> fields = const {}]) => Answer(() => using((scratch) => JsonStream(
        native.strata_session_run(_handle, scratch.text(jsonEncode({'stream': true, ...fields}))),
      )));

  /// The text so far.
  String get text => taken(native.strata_session_text(_handle));

  /// Another session with the same text; both share what was computed of it.
  Session fork() => Session._(native.strata_session_fork(_handle));

  /// The session as bytes, for [Model.restore].
  Uint8List save() => using((scratch) {
        final count = scratch.room<Size>(sizeOf<Size>());
        final bytes = checked(native.strata_session_save(_handle, count));
        final copy = Uint8List.fromList(bytes.asTypedList(count.value));
        native.strata_bytes_free(bytes, count.value);
        return copy;
      });

  /// Lets go of the session.
  void close() {
    if (_closed) return;
    _closed = true;
    _finalizer.detach(this);
    native.strata_session_free(_handle);
  }
}

List<Map<String, dynamic>> _loras(Map<int, double> scales) =>
    [for (final MapEntry(:key, :value) in scales.entries) {'id': key, 'scale': value}];
