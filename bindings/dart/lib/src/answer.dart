import 'dart:async';
import 'dart:convert';

import 'errors.dart';
import 'stream.dart';
import 'tool.dart';

/// A call that the model makes.
class ToolCall {
  ToolCall(this.id, this.name, this.arguments);
  ToolCall.of(Map<String, dynamic> document)
      : this(document['id'] as String, document['name'] as String, document['arguments'] as Map<String, dynamic>);

  final String id;
  final String name;
  final Map<String, dynamic> arguments;
}

/// A piece of an answer.
class Event {
  Event(this.text, this.thinking, this.calls, this.raw);

  /// What the model says.
  final String text;

  /// What it thinks.
  final String thinking;

  /// Tool calls, complete.
  final List<ToolCall> calls;

  /// The document that it came with, in OpenAI's shape.
  final Map<String, dynamic> raw;
}

/// An answer that comes while you listen: `await for (final event in answer)`, or whole with [text]. Canceling the
/// subscription cancels the request.
class Answer extends Stream<Event> {
  Answer(this._start, [List<Tool> tools = const []]) : _functions = {for (final tool in tools) tool.name: tool};

  final JsonStream Function() _start;
  final Map<String, Tool> _functions;
  final _said = StringBuffer();
  final _thought = StringBuffer();
  final _calls = <({String id, String name, StringBuffer arguments})>[];
  JsonStream? _stream;
  bool _canceled = false;
  Future<void>? _whole;

  /// Why it ended, once it has.
  String? finishReason;

  @override
  StreamSubscription<Event> listen(
    void Function(Event)? onData, {
    Function? onError,
    void Function()? onDone,
    bool? cancelOnError,
  }) =>
      _events().listen(onData, onError: onError, onDone: onDone, cancelOnError: cancelOnError);

  Stream<Event> _events() async* {
    final stream = _stream = _start();
    if (_canceled) stream.cancel();
    try {
      await for (final document in stream.documents) {
        if (document['object'] == 'tool.calls') {
          final calls = [for (final call in document['calls'] as List) ToolCall.of(call as Map<String, dynamic>)];
          yield Event('', '', calls, document);
          if (!await _answered(calls, stream)) return;
          continue;
        }
        final event = _hear(document);
        if (event.text.isNotEmpty || event.thinking.isNotEmpty) yield event;
      }
    } finally {
      stream.close();
    }
  }

  /// Answers calls, if there are functions for all of them.
  Future<bool> _answered(List<ToolCall> calls, JsonStream stream) async {
    if (!calls.every((call) => _functions.containsKey(call.name))) return false;
    // What was said before its calls is no part of the answer.
    _calls.clear();
    _said.clear();
    for (final call in calls) {
      stream.toolResult(call.id, await _functions[call.name]!.call(call.arguments));
    }
    return true;
  }

  Event _hear(Map<String, dynamic> document) {
    final text = StringBuffer();
    final thinking = StringBuffer();
    for (final choice in (document['choices'] ?? const []) as List) {
      if (choice['index'] != 0) continue;
      final delta = choice['delta'] ?? const {};
      text.write(delta['content'] ?? choice['text'] ?? '');
      thinking.write(delta['reasoning_content'] ?? '');
      for (final part in (delta['tool_calls'] ?? const []) as List) {
        final function = part['function'];
        if (part['id'] != null) {
          _calls.add((id: part['id'] as String, name: function['name'] as String, arguments: StringBuffer()));
        }
        _calls.last.arguments.write(function['arguments'] ?? '');
      }
      finishReason = (choice['finish_reason'] ?? finishReason) as String?;
    }
    _said.write(text);
    _thought.write(thinking);
    return Event(text.toString(), thinking.toString(), const [], document);
  }

  Future<void> _read() => _whole ??= drain<void>();

  /// The whole text.
  Future<String> text() async {
    await _read();
    return _said.toString();
  }

  /// What the model thought.
  Future<String> thinking() async {
    await _read();
    return _thought.toString();
  }

  /// The answer as its schema says: `await model.chat('Who?', schema: Hero.schema).parsed(Hero.fromJson)`.
  Future<T> parsed<T>(T Function(Map<String, dynamic>) fromJson) async =>
      fromJson(jsonDecode(await text()) as Map<String, dynamic>);

  /// The tool calls that no function has answered.
  Future<List<ToolCall>> calls() async {
    await _read();
    return [
      for (final call in _calls)
        ToolCall(call.id, call.name, jsonDecode(call.arguments.toString()) as Map<String, dynamic>),
    ];
  }

  /// Cancels the request, at any time: listeners get [Canceled].
  void stop() {
    _canceled = true;
    _stream?.cancel();
  }
}
