'use strict';

const { parse } = require('./schema.js');

/** An answer: `for await (const event of answer)`, `await answer.text()`, `await answer.parsed()`. */
class Answer {
  constructor(start, functions, schema) {
    this._start = start;
    this._functions = functions;
    this._schema = schema;
    this._said = [];
    this._thought = [];
    this._calls = [];
    this._usage = {};
    this._finish = undefined;
    this._canceled = false;
    this._whole = undefined;
  }

  async *[Symbol.asyncIterator]() {
    const documents = (this._documents ??= this._start());
    if (this._canceled) documents.cancel();
    try {
      for await (const document of documents) {
        if (document.object === 'tool.calls') {
          if (!document.calls.every((call) => this._functions.has(call.name))) return;
          this._calls = [];
          this._said = [];
          yield { text: '', thinking: '', calls: document.calls, raw: document };
          for (const call of document.calls) {
            documents.toolResult(call.id, await answered(this._functions.get(call.name), call));
          }
          continue;
        }
        const event = this._hear(document);
        if (event.text || event.thinking) yield event;
      }
    } finally {
      documents.cancel();
    }
  }

  _hear(document) {
    const event = { text: '', thinking: '', calls: [], raw: document };
    for (const [name, number] of Object.entries(document.usage ?? {})) {
      if (typeof number === 'number') this._usage[name] = (this._usage[name] ?? 0) + number;
    }
    for (const choice of document.choices ?? []) {
      if (choice.index !== 0) continue;
      event.text += choice.delta?.content ?? choice.text ?? '';
      event.thinking += choice.delta?.reasoning_content ?? '';
      for (const part of choice.delta?.tool_calls ?? []) this._addCall(part);
      this._finish = choice.finish_reason ?? this._finish;
    }
    this._said.push(event.text);
    this._thought.push(event.thinking);
    return event;
  }

  _addCall({ id, function: spelt }) {
    if (id) this._calls.push({ id, name: spelt.name, arguments: '' });
    this._calls[this._calls.length - 1].arguments += spelt.arguments ?? '';
  }

  /** Waits for the end. */
  async _wait() {
    this._whole ??= (async () => {
      for await (const _ of this);
    })();
    await this._whole;
  }

  /** Cancels the request, at any time. */
  cancel() {
    this._canceled = true;
    this._documents?.cancel();
  }

  /** The whole text. */
  async text() {
    await this._wait();
    return this._said.join('');
  }

  /** What the model thought. */
  async thinking() {
    await this._wait();
    return this._thought.join('');
  }

  /** The tool calls that no function has answered. */
  async calls() {
    await this._wait();
    return this._calls.map((call) => ({ ...call, arguments: JSON.parse(call.arguments || '{}') }));
  }

  /** The answer as its schema describes it. */
  async parsed() {
    return parse(this._schema, await this.text());
  }

  /** Why it ended. */
  async finishReason() {
    await this._wait();
    return this._finish;
  }

  /** What it took, all rounds of tool calls together. */
  async usage() {
    await this._wait();
    return { ...this._usage };
  }
}

/** The result of a call, for the model; it is told of errors. */
async function answered(run, call) {
  try {
    const result = await run(call.arguments);
    return typeof result === 'string' ? result : JSON.stringify(result ?? null);
  } catch (error) {
    return `error: ${error?.message ?? error}`;
  }
}

module.exports = { Answer };
