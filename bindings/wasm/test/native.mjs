// The same requests to the engine in WebAssembly and to the native one in this process: every digit of every
// log-probability must be the same.
// node native.mjs strata.wasm FOLDER_OF_THE_NODE_PACKAGE MODEL.gguf…
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, resolve } from 'node:path';
import { load } from '../js/strata.mjs';

const [wasm, bindings, ...files] = process.argv.slice(2);
const { load: loadNative } = createRequire(import.meta.url)(resolve(bindings, 'lib/index.js'));
const module = await readFile(wasm);

/** A prompt of tokens, so that models without words can be asked; more than one step of the prompt's computation. */
const body = {
  prompt: Array.from({ length: 40 }, (_, place) => 3 + ((place * 37) % 200)),
  max_tokens: 8,
  temperature: 0,
  logprobs: 5,
  echo: true,
  ignore_eos: true,
};

/** A form that answers are held to, by the same grammar. */
const hero = {
  type: 'object',
  properties: { name: { type: 'string', maxLength: 12 }, friends: { type: 'array', items: { type: 'integer', minimum: 0, maximum: 99 }, maxItems: 3 } },
  required: ['name', 'friends'],
  additionalProperties: false,
};
const form = { type: 'json_schema', json_schema: { name: 'hero', schema: hero, strict: true } };
const chat = {
  messages: [{ role: 'user', content: 'Who?' }],
  max_tokens: 60,
  temperature: 0,
  logprobs: true,
  response_format: form,
};

async function choices(model, path = '/v1/completions', asked = body) {
  for await (const document of model.request(path, asked)) return document.choices;
}

for (const file of files) {
  const native = await loadNative(file, { context: 256 });
  const expected = await choices(native);
  const talks = Boolean(native.info.template);
  const held = talks ? await choices(native, '/v1/chat/completions', chat) : undefined;
  await native.close();
  const model = await load({ module, file: await readFile(file), context: 256 });
  const got = await choices(model);
  assert.ok(expected[0].logprobs.token_logprobs.length >= 48, basename(file));
  assert.equal(JSON.stringify(got), JSON.stringify(expected), basename(file));
  if (talks) {
    const form = await choices(model, '/v1/chat/completions', chat);
    assert.equal(JSON.stringify(form), JSON.stringify(held), `${basename(file)} in a form`);
    assert.equal(typeof JSON.parse(form[0].message.content).name, 'string');
  }
  console.error(`${model.info.isa}: ${basename(file)} is the native one's, to the last digit`);
  model.close();
}
console.log('feature native');
