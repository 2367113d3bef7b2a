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

async function choices(model) {
  for await (const document of model.request('/v1/completions', body)) return document.choices;
}

for (const file of files) {
  const native = await loadNative(file, { context: 256 });
  const expected = await choices(native);
  await native.close();
  const model = await load({ module, file: await readFile(file), context: 256 });
  const got = await choices(model);
  assert.ok(expected[0].logprobs.token_logprobs.length >= 48, basename(file));
  assert.equal(JSON.stringify(got), JSON.stringify(expected), basename(file));
  console.error(`${model.info.isa}: ${basename(file)} is the native one's, to the last digit`);
  model.close();
}
console.log('feature native');
