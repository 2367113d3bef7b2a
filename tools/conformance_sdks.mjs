// Holds a running server to two more clients for Node: the AI SDK, and the tool runner of Anthropic's SDK.
//
//   npm install --prefix FOLDER ai @ai-sdk/openai-compatible @anthropic-ai/sdk zod
//   node tools/conformance_sdks.mjs http://127.0.0.1:11434 FOLDER [MODEL]
//
// FOLDER is where the clients were installed.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [address, folder, model = 'tale'] = process.argv.slice(2);
if (!folder) {
  console.error('usage: node tools/conformance_sdks.mjs ADDRESS FOLDER [MODEL]');
  process.exit(2);
}
const require = createRequire(join(folder, 'package.json'));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { generateText, streamText, Output, tool, isStepCount, stepCountIs } = await load('ai');
const { createOpenAICompatible } = await load('@ai-sdk/openai-compatible');
const { z } = await load('zod');
const { default: Anthropic } = await load('@anthropic-ai/sdk');
const { betaTool } = await load('@anthropic-ai/sdk/helpers/beta/json-schema');

const provider = createOpenAICompatible({ name: 'strata', baseURL: `${address}/v1`, apiKey: 'none', supportsStructuredOutputs: true });
const chat = provider.chatModel(model);
const prompt = 'Tell me about a small dog.';
const calm = { model: chat, maxRetries: 0, temperature: 0 };
const steps = isStepCount ?? stepCountIs;

const checks = {
  async ai_text_and_stream() {
    const whole = await generateText({ ...calm, prompt, maxOutputTokens: 24 });
    assert.ok(whole.text && whole.usage.outputTokens <= 24);
    let text = '';
    for await (const piece of streamText({ ...calm, prompt, maxOutputTokens: 24 }).textStream) text += piece;
    assert.equal(text, whole.text);
  },
  async ai_structured_output() {
    const schema = z.object({ name: z.enum(['Rex', 'Ada']), age: z.number().int().min(1).max(9) });
    const { output } = await generateText({ ...calm, prompt, maxOutputTokens: 100, output: Output.object({ schema }) });
    schema.parse(output);
  },
  async ai_tools() {
    const words = [];
    const lookUp = tool({
      description: 'Looks a word up.',
      inputSchema: z.object({ word: z.enum(['dog', '漢字 😀']) }),
      execute: async ({ word }) => { words.push(word); return 'An animal.'; },
    });
    const fields = { ...calm, prompt, maxOutputTokens: 100, tools: { look_up: lookUp } };
    await generateText({ ...fields, toolChoice: 'required', stopWhen: steps(2) });
    assert.ok(words.length >= 1 && words.every((word) => ['dog', '漢字 😀'].includes(word)));
  },
  async anthropic_tool_runner() {
    const client = new Anthropic({ baseURL: address, apiKey: 'none', maxRetries: 0 });
    const cities = [];
    const weather = betaTool({
      name: 'weather',
      description: 'The weather of a city.',
      inputSchema: { type: 'object', properties: { city: { enum: ['Oslo', 'Rome'] } }, required: ['city'] },
      run: ({ city }) => { cities.push(city); return 'Rain.'; },
    });
    for (const [stream, thread] of [[false, undefined], [true, undefined], [false, false]]) {
      cities.length = 0;
      const runner = client.beta.messages.toolRunner({
        model, max_tokens: 100, temperature: 0, stream, thread, max_iterations: 2,
        tools: [weather], tool_choice: { type: 'any' }, messages: [{ role: 'user', content: 'Do I need an umbrella in Oslo?' }],
      });
      let turns = 0;
      for await (const turn of runner) {
        const message = stream ? await turn.finalMessage() : turn;
        assert.equal(message.stop_reason, 'tool_use');
        turns += 1;
      }
      assert.equal(turns, 2);
      assert.ok(cities.length >= 1 && cities.every((city) => ['Oslo', 'Rome'].includes(city)));
    }
  },
};

let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log(`ok    ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${name}\n${error.stack}`);
  }
}
const version = (name) => JSON.parse(readFileSync(join(folder, 'node_modules', name, 'package.json'))).version;
console.log(`ai ${version('ai')}, @anthropic-ai/sdk ${version('@anthropic-ai/sdk')}: ${Object.keys(checks).length - failed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
