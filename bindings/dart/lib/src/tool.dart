import 'dart:async';
import 'dart:convert';

/// A tool that a function answers.
class Tool {
  Tool(this.name, this.description, this.parameters, this.function);

  final String name;
  final String description;

  /// The JSON schema of its arguments.
  final Map<String, dynamic> parameters;

  /// What it does with them. The result is told as text, or as JSON.
  final FutureOr<Object?> Function(Map<String, dynamic> arguments) function;

  /// The tool as requests list it.
  Map<String, dynamic> get document => {
        'type': 'function',
        'function': {'name': name, 'description': description, 'parameters': parameters, 'strict': true},
      };

  /// Calls the function. The model is told of errors.
  Future<String> call(Map<String, dynamic> arguments) async {
    try {
      final result = await function(arguments);
      return result is String ? result : jsonEncode(result);
    } on Exception catch (problem) {
      return 'error: $problem';
    }
  }
}
