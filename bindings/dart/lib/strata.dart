/// Language models in your own process, on the device: no daemon, the same bytes everywhere.
///
/// ```dart
/// final model = await Strata.load('tale');
/// await for (final event in model.chat('Tell me a story about a fox.')) {
///   stdout.write(event.text);
/// }
/// ```
library;

export 'src/answer.dart' show Answer, Event, ToolCall;
export 'src/errors.dart' show Canceled, StrataError;
export 'src/model.dart' show Model, Session, Strata;
export 'src/stream.dart' show JsonStream;
export 'src/tool.dart' show Tool;
