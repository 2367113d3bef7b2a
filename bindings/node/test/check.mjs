// What every binding must do, in Node. Says `feature NAME` for each thing that it has seen work.
// `cargo xtask test-bindings node` sets what is expected in the environment.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { load, plan, StrataError } from 'strata-llm';

const { STRATA_STORY: STORY, STRATA_ADAPTER_ONE: ONE, STRATA_ADAPTER_TWO: TWO } = process.env;
const EMBEDDING = JSON.parse(process.env.STRATA_EMBEDDING);
const SECONDS = Number(process.env.STRATA_STRESS_SECONDS ?? 3);
const ASKED = 'Tell me a story about a fox.';
const SETTINGS = { temperature: 0, max_tokens: 32 };
const LONG = { max_tokens: 4000, ignore_eos: true };

const feature = (name) => console.log('feature', name);
const failsWith = (code) => (error) => error instanceof StrataError && error.code === code;

async function greedy(model) {
  assert.equal(await model.chat(ASKED, SETTINGS).text(), STORY);
  feature('greedy');
  const pieces = [];
  for await (const event of model.chat([{ role: 'user', content: ASKED }], SETTINGS)) pieces.push(event.text);
  assert.equal(pieces.join(''), STORY);
  assert.ok(pieces.length > 5);
  const answer = model.chat(ASKED, SETTINGS);
  assert.equal(await answer.finishReason(), 'length');
  assert.equal((await answer.usage()).completion_tokens, 32);
  feature('stream');
}

async function cancel(model) {
  const controller = new AbortController();
  const answer = model.complete('Once upon a time', { ...LONG, signal: controller.signal });
  setTimeout(() => controller.abort(), 50);
  await assert.rejects(answer.text(), { name: 'AbortError' });
  await assert.rejects(model.complete('Once', { ...LONG, signal: AbortSignal.abort() }).text(), { name: 'AbortError' });
  const other = model.complete('Once', LONG);
  setTimeout(() => other.cancel(), 30);
  await assert.rejects(other.text(), failsWith('canceled'));
  for await (const event of model.complete('Once', LONG)) {
    assert.ok(event.text);
    break;
  }
  const long = model.complete('owl fox '.repeat(900), { signal: AbortSignal.timeout(3) });
  await assert.rejects(long.text(), { name: 'TimeoutError' });
  // A long prompt is computed while the event loop turns.
  const prompt = model.complete('fox owl '.repeat(900), { max_tokens: 1 });
  const computed = prompt.text();
  let ticks = 0;
  let longest = 0;
  let over = false;
  computed.then(() => (over = true));
  while (!over) {
    const start = performance.now();
    await sleep(1);
    longest = Math.max(longest, performance.now() - start);
    ticks++;
  }
  assert.ok(ticks > 10 && longest < 500, `${ticks} turns, the longest ${longest} ms`);
  feature('cancel');
}

async function schema(model) {
  const hero = {
    type: 'object',
    properties: { animal: { enum: ['fox', 'owl'] }, age: { type: 'integer', minimum: 1, maximum: 9 } },
    required: ['animal', 'age'],
    additionalProperties: false,
  };
  const { animal, age } = await model.chat('Who is the hero?', { schema: hero, temperature: 0 }).parsed();
  assert.ok(['fox', 'owl'].includes(animal) && age >= 1 && age <= 9);
  const { z } = await import('zod').catch(() => ({}));
  if (z) {
    const Animal = z.object({ kind: z.enum(['fox', 'owl']), wise: z.boolean() });
    const parsed = await model.chat('Which animal?', { schema: Animal, temperature: 0 }).parsed();
    assert.ok(['fox', 'owl'].includes(parsed.kind) && typeof parsed.wise === 'boolean');
  }
  feature('schema');
}

async function tools(model) {
  const asked = [];
  const weather = {
    name: 'weather',
    description: 'Tells the weather in a city.',
    parameters: {
      type: 'object',
      properties: { city: { enum: ['Bern', 'Oslo'] } },
      required: ['city'],
      additionalProperties: false,
    },
    async run({ city }) {
      await sleep(1);
      asked.push(city);
      return { degrees: 18 };
    },
  };
  const fields = { tools: [weather], tool_choice: 'required', temperature: 0, max_tokens: 60 };
  const answer = model.chat('Is it warm in Oslo?', fields);
  assert.ok(await answer.text());
  assert.ok(['Bern', 'Oslo'].includes(asked[0]));
  assert.deepEqual(await answer.calls(), []);
  const { run, ...plain } = weather;
  const left = model.chat('Warm?', { ...fields, tools: [{ type: 'function', function: { ...plain, strict: true } }] });
  assert.ok(['Bern', 'Oslo'].includes((await left.calls())[0].arguments.city));
  feature('tools');
}

async function embeddings(model) {
  const vector = await model.embed('a fox and an owl');
  assert.deepEqual(Array.from(vector), EMBEDDING.map(Math.fround));
  const rows = await model.embed(['a fox', 'an owl']);
  assert.ok(rows.length === 2 && rows[0] instanceof Float32Array);
  feature('embeddings');
}

async function adapters() {
  const model = await load('tale', { adapters: [ONE, { path: TWO, scale: 0 }] });
  const ask = (adapters) => model.complete('Once upon a time', { temperature: 0, max_tokens: 16, adapters }).text();
  const [plain, one, two] = [await ask(), await ask({ 0: 1 }), await ask({ 1: 1 })];
  assert.equal(new Set([plain, one, two]).size, 3);
  assert.deepEqual(await Promise.all([ask(), ask({ 0: 1 }), ask({ 1: 1 })]), [plain, one, two]);
  model.setAdapters({ 1: 1 });
  assert.equal(await ask(), two);
  await model.close();
  feature('adapters');
}

async function sessions(model) {
  const session = model.session().append('Once upon a time');
  const fork = session.fork();
  const few = { max_tokens: 6, temperature: 0 };
  const said = await session.run(few).text();
  assert.equal(session.text, 'Once upon a time' + said);
  assert.equal((await model.restore(await session.save())).text, session.text);
  assert.equal(await fork.run(few).text(), said);
  await assert.rejects(model.restore(Buffer.from('nonsense')), failsWith('invalid_argument'));
  feature('sessions');
  const held = model.session().append('Once upon a time').constrain({ guided_regex: '(yes|no)', never_to_disk: true });
  assert.match(await held.run(few).text(), /^(yes|no)$/);
  assert.match(await held.fork().run(few).text(), /^(yes|no)$/);
  await assert.rejects(held.save(), failsWith('invalid_argument'));
  assert.throws(() => held.constrain({ colour: 'red' }), failsWith('invalid_argument'));
  feature('constraints');
}

async function others(model) {
  assert.ok(model.detokenize(model.tokenize('Once upon a time')).includes('upon a time'));
  feature('tokenize');
  const planned = await plan('tale', { context: 512 });
  assert.ok(planned.fits && planned.total > planned.weights);
  feature('plan');
  await assert.rejects(load('nowhere.gguf'), failsWith('not_found'));
  await assert.rejects(load('tale', { memory: '1k' }), failsWith('out_of_memory'));
  await assert.rejects(load('tale', { contxt: 1 }), failsWith('invalid_argument'));
  await assert.rejects(plan('nowhere.gguf'), failsWith('not_found'));
  await assert.rejects(model.chat('a', { tempreature: 1 }).text(), failsWith('invalid_argument'));
  await assert.rejects(model.rerank('a', ['b']), failsWith('unsupported'));
  let told = 0;
  const other = await load('tale', { progress: () => told++ });
  assert.ok(told > 0 && other.info.name === 'tale');
  await other.close();
  assert.throws(() => other.tokenize('a'), failsWith('closed'));
  feature('errors');
}

async function images() {
  const { STRATA_SEEING_MODEL: file, STRATA_EYES: projector, STRATA_SEEN: seen } = process.env;
  const question = JSON.parse(process.env.STRATA_QUESTION);
  const model = await load(file, { projector });
  const { value } = await model.request('/v1/chat/completions', question).next();
  assert.deepEqual(value.choices[0].logprobs, JSON.parse(seen));
  const { messages, logprobs, ...fields } = question;
  assert.equal(await model.chat(messages, fields).text(), value.choices[0].message.content);
  await model.close();
  const blind = await load(file);
  await assert.rejects(blind.chat(messages, fields).text(), /cannot see/);
  await blind.close();
  feature('images');
}

async function speech() {
  const { STRATA_HEARING_MODEL: file, STRATA_SOUND: sound } = process.env;
  const heard = JSON.parse(process.env.STRATA_HEARD);
  const model = await load(file);
  const { usage, ...told } = await model.transcribe(sound, { response_format: 'verbose_json' });
  assert.deepEqual(told, heard);
  assert.equal(usage.type, 'duration');
  assert.equal((await model.transcribe(await readFile(sound))).text, heard.text);
  const pieces = [];
  for await (const piece of model.request('/v1/audio/transcriptions', { file: sound, stream: true })) pieces.push(piece);
  assert.equal(pieces.pop().text, heard.text);
  assert.equal(pieces.map(({ delta }) => delta).join(''), heard.text);
  await assert.rejects(model.transcribe('/nowhere.wav'), failsWith('not_found'));
  await assert.rejects(model.transcribe(new Uint8Array(9)), failsWith('invalid_argument'));
  await assert.rejects(model.chat('a').text(), failsWith('unsupported'));
  await assert.rejects(model.transcribe(sound, { signal: AbortSignal.abort() }), { name: 'AbortError' });
  await model.close();
  feature('speech');
}

/** A thread of JavaScript comes, asks and goes; another is ended in the middle of an answer. */
async function threads() {
  const source = (work) => `require('strata-llm').load('tale').then(async (model) => { ${work} })`;
  const asks = source(`process.exitCode = (await model.chat(${JSON.stringify(ASKED)}, ${JSON.stringify(SETTINGS)}).text()).length`);
  const first = new Worker(asks, { eval: true });
  assert.deepEqual(await once(first, 'exit'), [STORY.length]);
  const endless = source('for await (const _ of model.complete("Once", { max_tokens: 2000, ignore_eos: true }));');
  const second = new Worker(endless, { eval: true });
  await sleep(200);
  await second.terminate();
}

async function stress() {
  const model = await load('tale', { context: 64, requests: 16 });
  const end = performance.now() + SECONDS * 1000;
  const counts = { ended: 0, canceled: 0 };
  const shared = [];
  const dice = (sides) => Math.floor(Math.random() * sides);
  const work = async () => {
    while (performance.now() < end) {
      const answer = model.complete(`Once upon a time ${dice(50)}`, { max_tokens: 1 + dice(24) });
      shared[dice(64)] = answer;
      try {
        for await (const _ of answer) {
          if (dice(16) === 0) shared[dice(64)]?.cancel();
          if (dice(64) === 0) break;
        }
        counts.ended++;
      } catch (error) {
        assert.equal(error.code, 'canceled', error);
        counts.canceled++;
      }
    }
  };
  const workers = Array.from({ length: 64 }, work);
  await sleep((SECONDS * 1000) / 3);
  const early = process.memoryUsage.rss();
  await Promise.all(workers);
  const late = process.memoryUsage.rss();
  assert.ok(counts.ended > 0 && counts.canceled > 0, JSON.stringify(counts));
  const most = SECONDS < 10 ? 96e6 : 48e6;
  assert.ok(late < early + most, `${early}, then ${late} bytes`);
  console.error(counts, early, 'bytes, then', late);
  await model.close();
  feature('stress');
}

const model = await load('tale');
await greedy(model);
await cancel(model);
await schema(model);
await tools(model);
await embeddings(model);
await adapters();
await sessions(model);
await others(model);
await images();
await speech();
await threads();
await stress();
await model.close();
