// Holds a running server to OpenAI's client for Node: chat, streams, tools, structured output, embeddings, errors,
// and a client that goes away.
//
//   npm install --prefix FOLDER openai
//   node tools/conformance_node.mjs http://127.0.0.1:11434 FOLDER [MODEL]
//
// FOLDER is where the client was installed.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import assert from 'node:assert/strict';
import { join } from 'node:path';

const [address, folder, model = 'tale'] = process.argv.slice(2);
if (!folder) {
  console.error('usage: node tools/conformance_node.mjs ADDRESS FOLDER [MODEL]');
  process.exit(2);
}
const require = createRequire(join(folder, 'package.json'));
const { OpenAI } = require('openai');
const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: 'none', maxRetries: 0 });
const messages = [{ role: 'user', content: 'Tell me about a small dog.' }];
const schema = { type: 'object', properties: { word: { enum: ['漢字 😀', 'dog'] } }, required: ['word'], additionalProperties: false };
const tool = { type: 'function', function: { name: 'look_up', description: 'Looks a word up.', parameters: schema } };

const checks = {
  async chat_and_stream() {
    const fields = { model, messages, temperature: 0, max_tokens: 24 };
    const whole = await client.chat.completions.create(fields);
    assert.ok(whole.choices[0].message.content);
    let text = '';
    let usage = null;
    const stream = await client.chat.completions.create({ ...fields, stream: true, stream_options: { include_usage: true } });
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta?.content ?? '';
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, whole.choices[0].message.content);
    assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
  },
  async tools() {
    const fields = { model, messages, tools: [tool], tool_choice: 'required', seed: 3, temperature: 0, max_tokens: 100, parallel_tool_calls: false };
    const whole = await client.chat.completions.create(fields);
    const call = whole.choices[0].message.tool_calls[0];
    assert.equal(call.function.name, 'look_up');
    assert.ok(schema.properties.word.enum.includes(JSON.parse(call.function.arguments).word));
    let told = '';
    for await (const chunk of await client.chat.completions.create({ ...fields, stream: true })) {
      for (const piece of chunk.choices[0]?.delta?.tool_calls ?? []) told += piece.function?.arguments ?? '';
    }
    assert.equal(told, call.function.arguments);
  },
  async structured_output() {
    const format = { type: 'json_schema', json_schema: { name: 'x', schema, strict: true } };
    const answer = await client.chat.completions.create({ model, messages, response_format: format, max_tokens: 100 });
    assert.ok(schema.properties.word.enum.includes(JSON.parse(answer.choices[0].message.content).word));
  },
  async responses() {
    const fields = { model, input: 'Hello there.', max_output_tokens: 16, temperature: 0 };
    const whole = await client.responses.create(fields);
    let text = '';
    for await (const event of await client.responses.create({ ...fields, stream: true })) {
      if (event.type === 'response.output_text.delta') text += event.delta;
    }
    assert.equal(text, whole.output_text);
    const items = await client.responses.inputItems.list(whole.id);
    assert.equal(items.data[0].content[0].text, 'Hello there.');
  },
  async embeddings_and_models() {
    const answer = await client.embeddings.create({ model, input: ['a dog', 'the moon'] });
    assert.equal(answer.data.length, 2);
    assert.notDeepEqual(answer.data[0].embedding, answer.data[1].embedding);
    const names = [];
    for await (const item of client.models.list()) names.push(item.id);
    assert.ok(names.includes(model));
  },
  async errors() {
    await assert.rejects(client.chat.completions.create({ model: 'nobody', messages }), OpenAI.NotFoundError);
    await assert.rejects(client.chat.completions.create({ model, messages, temperature: -1 }), OpenAI.BadRequestError);
  },
  async going_away() {
    const stream = await client.chat.completions.create({ model, messages, max_tokens: 3000, ignore_eos: true, stream: true });
    for await (const _ of stream) break;
    const end = Date.now() + 10_000;
    for (;;) {
      const text = await (await fetch(`${address}/metrics`)).text();
      if (/^vllm:num_requests_running\{.*\} 0$/m.test(text)) break;
      assert.ok(Date.now() < end, 'a request of a client that has gone still runs');
      await new Promise((resolve) => { setTimeout(resolve, 100); });
    }
  },
};

let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log(`ok    node_${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  node_${name}\n${error.stack}`);
  }
}
const { version } = JSON.parse(readFileSync(join(folder, 'node_modules/openai/package.json')));
console.log(`openai for Node ${version}: ${Object.keys(checks).length - failed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
