'use strict';

const native = require('./native.js');
const { StrataError, call, settle } = require('./errors.js');
const { Documents } = require('./documents.js');
const { Answer } = require('./answer.js');
const { jsonSchema } = require('./schema.js');

/** Opens a model: a GGUF file, a Hugging Face folder, a name in the store, or `tale`, which is built in. */
async function load(model, { signal, progress, ...options } = {}) {
  const raw = call(() => native.load(String(model), JSON.stringify(options)));
  const documents = new Documents(raw, signal);
  for await (const { loaded, total } of documents) progress?.(loaded, total);
  return new Model(raw.model());
}

/** What a model would take in bytes, without loading it. */
async function plan(model, options = {}) {
  return JSON.parse(await settle(native.plan(String(model), JSON.stringify(options))));
}

/** A model in memory. */
class Model {
  constructor(raw) {
    this._raw = raw;
  }

  /** Asks what `strata serve` is asked at a path: the documents that it would send. */
  request(path, body, { signal } = {}) {
    const text = body === undefined ? undefined : JSON.stringify(body);
    return new Documents(call(() => this._raw.request(path, text)), signal);
  }

  /** Asks for the next message of a conversation. */
  chat(messages, { tools, schema, adapters, signal, ...fields } = {}) {
    const list = typeof messages === 'string' ? [{ role: 'user', content: messages }] : messages;
    const { documents, functions } = split(tools);
    const body = { messages: list, ...common(adapters, fields) };
    if (documents.length > 0) body.tools = documents;
    if (schema) {
      const form = { name: 'answer', schema: jsonSchema(schema), strict: true };
      body.response_format = { type: 'json_schema', json_schema: form };
    }
    const start = () => {
      if (functions.size === 0) return this.request('/v1/chat/completions', body, { signal });
      return new Documents(call(() => this._raw.chatTools(JSON.stringify(body))), signal);
    };
    return new Answer(start, functions, schema);
  }

  /** Continues a text as it is. */
  complete(prompt, { adapters, signal, ...fields } = {}) {
    const body = { prompt, ...common(adapters, fields) };
    return new Answer(() => this.request('/v1/completions', body, { signal }), new Map());
  }

  /** Vectors of length 1: a `Float32Array` for each text, or one for one text. */
  async embed(input, { signal, ...fields } = {}) {
    const body = { input, ...fields, encoding_format: 'base64' };
    const { value } = await this.request('/v1/embeddings', body, { signal }).next();
    const rows = value.data.map(({ embedding }) => floats(Buffer.from(embedding, 'base64')));
    return typeof input === 'string' ? rows[0] : rows;
  }

  /** Documents by how well they answer a query, the best first. */
  async rerank(query, documents, { signal, ...fields } = {}) {
    const body = { query, documents, ...fields };
    const { value } = await this.request('/v1/rerank', body, { signal }).next();
    return value.results.map(({ index, relevance_score: score }) => ({ index, score }));
  }

  /** What is said in an audio file, by its path or its bytes, with a model for speech. */
  async transcribe(file, { signal, ...fields } = {}) {
    const where = typeof file === 'string' ? file : `data:;base64,${Buffer.from(file).toString('base64')}`;
    const body = { ...fields, file: where };
    const { value } = await this.request('/v1/audio/transcriptions', body, { signal }).next();
    return value;
  }

  /** The tokens of a text. */
  tokenize(text) {
    return call(() => this._raw.tokenize(text));
  }

  /** The text of tokens. */
  detokenize(tokens) {
    return call(() => this._raw.detokenize(Array.from(tokens)));
  }

  /** An empty session. */
  session() {
    return new Session(call(() => this._raw.session()));
  }

  /** A session that was saved, perhaps by another process. */
  async restore(saved) {
    return new Session(await settle(call(() => this._raw.restore(saved))));
  }

  /** What is known of the model. */
  get info() {
    return JSON.parse(call(() => this._raw.info()));
  }

  /** The adapters that it was opened with, by number. */
  get adapters() {
    return JSON.parse(call(() => this._raw.adapters()));
  }

  /** Sets the strength of adapters for requests that name none. */
  setAdapters(scales) {
    const list = Object.entries(scales).map(([id, scale]) => ({ id: Number(id), scale }));
    call(() => this._raw.setAdapters(JSON.stringify(list)));
  }

  /** Lets go of the model. It leaves memory when its last stream and session are gone too. */
  async close() {
    await settle(this._raw.close());
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.close();
  }
}

/** A text that grows over many requests. */
class Session {
  constructor(raw) {
    this._raw = raw;
  }

  append(text) {
    call(() => this._raw.append(text));
    return this;
  }

  /** Holds all later runs, and those of forks, to constraints. */
  constrain(constraints) {
    call(() => this._raw.constrain(JSON.stringify(constraints)));
    return this;
  }

  /** Continues the text. */
  run({ signal, ...fields } = {}) {
    const body = JSON.stringify(common(undefined, fields));
    return new Answer(() => new Documents(call(() => this._raw.run(body)), signal), new Map());
  }

  get text() {
    return this._raw.text();
  }

  fork() {
    return new Session(this._raw.fork());
  }

  save() {
    return settle(this._raw.save());
  }
}

function common(adapters, fields) {
  const body = { stream: true, stream_options: { include_usage: true }, ...fields };
  if (adapters) body.lora = Object.entries(adapters).map(([id, scale]) => ({ id: Number(id), scale }));
  return body;
}

/** Tools as requests list them, and the functions that answer some. */
function split(tools = []) {
  const functions = new Map();
  const documents = tools.map((tool) => {
    if (typeof tool.run !== 'function') return tool;
    functions.set(tool.name, tool.run);
    const { name, description, parameters, strict = true } = tool;
    return { type: 'function', function: { name, description, parameters: jsonSchema(parameters), strict } };
  });
  return { documents, functions };
}

function floats(bytes) {
  const copy = new Uint8Array(bytes);
  return new Float32Array(copy.buffer, 0, copy.byteLength / 4);
}

module.exports = { load, plan, features: native.features(), Model, Answer, Session, Documents, StrataError };
