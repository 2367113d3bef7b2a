// What every binding must do, in Dart. Says `feature NAME` for each thing that it has seen work.
// dart run test/check.dart, with what is expected in the environment: see bindings/README.md.
import 'dart:async';
import 'dart:convert';
import 'dart:io';
import 'dart:math';
import 'dart:typed_data';

import 'package:strata_llm/strata.dart';

final story = Platform.environment['STRATA_STORY']!;
const asked = 'Tell me a story about a fox.';
const settings = {'temperature': 0, 'max_tokens': 32};
const endless = {'max_tokens': 2000, 'ignore_eos': true};

void feature(String name) => print('feature $name');

void check(bool holds, Object? what) {
  if (!holds) throw StateError('$what');
}

Future<void> fails(String code, FutureOr<Object?> Function() act) async {
  try {
    await act();
  } on StrataError catch (problem) {
    return check(problem.code == code, problem);
  }
  throw StateError('no error $code');
}

class Hero {
  Hero.fromJson(Map<String, dynamic> json)
      : animal = json['animal'] as String,
        age = json['age'] as int;
  final String animal;
  final int age;
  static const schema = {
    'type': 'object',
    'properties': {
      'animal': {'enum': ['fox', 'owl']},
      'age': {'type': 'integer', 'minimum': 1, 'maximum': 9},
    },
    'required': ['animal', 'age'],
    'additionalProperties': false,
  };
}

Future<void> main() async {
  final model = await Strata.load('tale', progress: (loaded, total) => check(loaded <= total, loaded));
  check(await model.chat(asked, fields: settings).text() == story, 'another story');
  feature('greedy');
  final pieces = [await for (final event in model.chat(asked, fields: settings)) event.text];
  check(pieces.join() == story && pieces.length > 5, pieces);
  feature('stream');

  final first = await model.complete('Once', fields: endless).first;
  check(first.text.isNotEmpty, first);
  final answer = model.complete('Once', fields: endless);
  Timer(const Duration(milliseconds: 50), answer.stop);
  await fails('canceled', answer.text);
  final prompt = model.complete('fox owl ' * 900, fields: {'max_tokens': 1});
  Timer(const Duration(milliseconds: 1), prompt.stop);
  await fails('canceled', prompt.text);
  feature('cancel');

  final hero = await model.chat('Who?', schema: Hero.schema, fields: {'temperature': 0}).parsed(Hero.fromJson);
  check(['fox', 'owl'].contains(hero.animal) && hero.age > 0, hero.animal);
  feature('schema');

  final cities = <Object?>[];
  final weather = Tool('weather', 'Tells the weather in a city.', {
    'type': 'object',
    'properties': {'city': {'enum': ['Bern', 'Oslo']}},
    'required': ['city'],
    'additionalProperties': false,
  }, (arguments) async {
    cities.add(arguments['city']);
    return {'degrees': 18};
  });
  final told = model.chat('Is it warm?', tools: [weather], fields: {
    'tool_choice': 'required',
    'temperature': 0,
    'max_tokens': 60,
  });
  check((await told.text()).isNotEmpty && cities.isNotEmpty, cities);
  feature('tools');

  final expected = Float32List.fromList([
    for (final number in jsonDecode(Platform.environment['STRATA_EMBEDDING']!) as List) (number as num).toDouble(),
  ]);
  final [vector, ..._] = await model.embed(['a fox and an owl', 'an owl']);
  for (var i = 0; i < expected.length; i++) {
    check(vector[i] == expected[i], i);
  }
  feature('embeddings');

  final session = model.session()..append('Once upon a time');
  final fork = session.fork();
  final said = await session.run({'max_tokens': 6, 'temperature': 0}).text();
  check(session.text == 'Once upon a time$said' && model.restore(session.save()).text == session.text, said);
  check(await fork.run({'max_tokens': 6, 'temperature': 0}).text() == said, said);
  feature('sessions');
  final held = model.session()
    ..append('Once upon a time')
    ..constrain({'guided_regex': '(yes|no)', 'never_to_disk': true});
  final heldAnswer = await held.run({'temperature': 0, 'max_tokens': 6}).text();
  check(heldAnswer == 'yes' || heldAnswer == 'no', heldAnswer);
  await fails('invalid_argument', held.save);
  await fails('invalid_argument', () => held.constrain({'colour': 'red'}));
  feature('constraints');

  check(model.detokenize(model.tokenize('Once upon a time')).contains('upon a time'), 'tokens');
  feature('tokenize');
  check(Strata.plan('tale', options: {'context': 512})['fits'] == true, 'fits');
  feature('plan');
  await fails('not_found', () => Strata.load('nowhere.gguf'));
  await fails('invalid_argument', () => model.chat('a', fields: {'tempreature': 1}).text());
  await adapters();
  await senses();
  await stress();
  model.close();
  await fails('closed', () => model.tokenize('a'));
  feature('errors');
}

Future<void> adapters() async {
  final files = [Platform.environment['STRATA_ADAPTER_ONE'], Platform.environment['STRATA_ADAPTER_TWO']];
  final model = await Strata.load('tale', options: {'adapters': files});
  Future<String> ask(Map<int, double>? scales) =>
      model.complete('Once', adapters: scales, fields: {'temperature': 0, 'max_tokens': 16}).text();
  final wanted = [null, {0: 1.0}, {1: 1.0}];
  final alone = [for (final scales in wanted) await ask(scales)];
  check(alone.toSet().length == 3, alone);
  check((await Future.wait(wanted.map(ask))).join() == alone.join(), alone);
  feature('adapters');
}

Future<void> senses() async {
  final environment = Platform.environment;
  final sees = await Strata.load(environment['STRATA_SEEING_MODEL']!, options: {'projector': environment['STRATA_EYES']});
  final stream = sees.request('/v1/chat/completions', jsonDecode(environment['STRATA_QUESTION']!));
  final answer = await stream.documents.first;
  final choice = (answer['choices'] as List).first as Map<String, dynamic>;
  check(jsonEncode(choice['logprobs']) == jsonEncode(jsonDecode(environment['STRATA_SEEN']!)), choice);
  stream.close();
  sees.close();
  feature('images');
  check(Strata.features.contains('transcriptions'), Strata.features);
  final hears = await Strata.load(environment['STRATA_HEARING_MODEL']!);
  final heard = jsonDecode(environment['STRATA_HEARD']!) as Map<String, dynamic>;
  final told = await hears.transcribe(environment['STRATA_SOUND']!, fields: {'response_format': 'verbose_json'});
  for (final MapEntry(:key, :value) in heard.entries) {
    check(jsonEncode(told[key]) == jsonEncode(value), told);
  }
  check(told['text'] != '', told);
  await fails('not_found', () => hears.transcribe('/nowhere.wav'));
  await fails('unsupported', () => hears.chat('a').text());
  hears.close();
  feature('speech');
}

Future<void> stress() async {
  final model = await Strata.load('tale', options: {'context': 64, 'requests': 16});
  final seconds = double.parse(Platform.environment['STRATA_STRESS_SECONDS'] ?? '3');
  final end = DateTime.now().add(Duration(milliseconds: (seconds * 1000).round()));
  final dice = Random(1);
  var ended = 0, canceled = 0;
  Future<void> work() async {
    while (DateTime.now().isBefore(end)) {
      final answer = model.complete('Once ${dice.nextInt(50)}', fields: {'max_tokens': 1 + dice.nextInt(24)});
      if (dice.nextInt(3) == 0) Timer(Duration(milliseconds: dice.nextInt(50)), answer.stop);
      try {
        await answer.text();
        ended++;
      } on Canceled {
        canceled++;
      }
    }
  }

  final workers = [for (var i = 0; i < 64; i++) work()];
  await Future.delayed(Duration(milliseconds: (seconds * 333).round()));
  final early = ProcessInfo.currentRss;
  await Future.wait(workers);
  check(ended > 0 && canceled > 0 && ProcessInfo.currentRss < early + 128 * 1024 * 1024, [ended, canceled]);
  feature('stress');
}
