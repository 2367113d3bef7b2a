// A chat on the device: the model runs in this process, and the page stays free while it computes.
import 'dart:async';

import 'package:flutter/material.dart';
import 'package:strata_llm/strata.dart';

void main() => runApp(const MaterialApp(title: 'Strata', home: ChatPage()));

class ChatPage extends StatefulWidget {
  const ChatPage({super.key});

  @override
  State<ChatPage> createState() => _ChatPageState();
}

class _ChatPageState extends State<ChatPage> {
  final _input = TextEditingController();
  final _messages = <Map<String, String>>[];
  Model? _model;
  double _loaded = 0;
  String? _problem;
  StreamSubscription<Event>? _answer;

  @override
  void initState() {
    super.initState();
    _load();
  }

  Future<void> _load() async {
    try {
      final model = await Strata.load(
        'tale',
        options: {'memory': '2G'},
        progress: (loaded, total) => setState(() => _loaded = loaded / total),
      );
      setState(() => _model = model);
    } on StrataError catch (problem) {
      setState(() => _problem = problem.message);
    }
  }

  void _send() {
    final asked = _input.text.trim();
    final model = _model;
    if (asked.isEmpty || model == null || _answer != null) return;
    _input.clear();
    setState(() => _messages.add({'role': 'user', 'content': asked}));
    final history = List.of(_messages);
    setState(() => _messages.add({'role': 'assistant', 'content': ''}));
    _answer = model.chat(history, fields: {'max_tokens': 200}).listen(
      (event) => setState(() => _messages.last['content'] = _messages.last['content']! + event.text),
      onError: (Object problem) => setState(() => _problem = '$problem'),
      onDone: () => setState(() => _answer = null),
    );
  }

  Future<void> _stop() async {
    await _answer?.cancel();
    setState(() => _answer = null);
  }

  @override
  void dispose() {
    _answer?.cancel();
    _model?.close();
    _input.dispose();
    super.dispose();
  }

  @override
  Widget build(BuildContext context) {
    return Scaffold(
      appBar: AppBar(title: const Text('Strata')),
      body: Column(
        children: [
          if (_model == null && _problem == null) LinearProgressIndicator(value: _loaded),
          if (_problem != null) Padding(padding: const EdgeInsets.all(16), child: Text(_problem!)),
          Expanded(
            child: ListView(
              padding: const EdgeInsets.all(16),
              children: [
                for (final message in _messages)
                  Align(
                    alignment: message['role'] == 'user' ? Alignment.centerRight : Alignment.centerLeft,
                    child: Card(
                      child: Padding(padding: const EdgeInsets.all(12), child: SelectableText(message['content']!)),
                    ),
                  ),
              ],
            ),
          ),
          Padding(
            padding: const EdgeInsets.all(8),
            child: Row(
              children: [
                Expanded(child: TextField(controller: _input, onSubmitted: (_) => _send())),
                IconButton(
                  icon: Icon(_answer == null ? Icons.send : Icons.stop),
                  onPressed: _answer == null ? _send : _stop,
                ),
              ],
            ),
          ),
        ],
      ),
    );
  }
}
