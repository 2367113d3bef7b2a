// What can be asked of a model, in this thread or in another: chats with tools and schemas, vectors, sessions. All of it is
// made of requests.

/** Rounds of tool calls at most, as everywhere else. */
const MOST_ROUNDS = 16;
const CHAT = '/v1/chat/completions';

/** A class's `request(path, body, { signal })` answers these. */
export class Requests {
  /**
   * The text of an answer, piece by piece. `adapters` are strengths by number: `{ 0: 0.8 }`; `schema` is a JSON schema;
   * `tools` are `{ name, description, parameters, run }`, whose `run` is called with the arguments, and the chat goes on.
   */
  async *chat(messages, { signal, adapters, tools, schema, ...fields } = {}) {
    const list = typeof messages === 'string' ? [{ role: 'user', content: messages }] : [...messages];
    const body = { messages: list, stream: true, lora: loras(adapters), ...fields };
    if (schema) body.response_format = { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } };
    const runs = new Map((tools ?? []).map(({ name, run }) => [name, run]));
    if (tools) body.tools = tools.map(described);
    for (let round = 0; round <= MOST_ROUNDS; round++) {
      const said = { role: 'assistant', content: '', tool_calls: [] };
      for await (const { choices } of this.request(CHAT, body, { signal })) {
        const delta = choices[0]?.delta ?? {};
        for (const part of delta.tool_calls ?? []) spell(said.tool_calls, part);
        if (!delta.content) continue;
        said.content += delta.content;
        yield delta.content;
      }
      if (said.tool_calls.length === 0) return;
      list.push(said);
      for (const call of said.tool_calls) list.push(await answered(runs.get(call.function.name), call));
      // It was forced once.
      if (typeof body.tool_choice === 'object' || body.tool_choice === 'required') body.tool_choice = 'auto';
    }
  }

  /** An answer as its `schema` describes it, parsed. */
  async parsed(messages, fields) {
    let text = '';
    for await (const piece of this.chat(messages, fields)) text += piece;
    return JSON.parse(text);
  }

  /** Vectors of length 1: a `Float32Array` for each text, or one for one text. */
  async embed(input, { signal, ...fields } = {}) {
    const body = { input, ...fields, encoding_format: 'base64' };
    const { data } = await this._one('/v1/embeddings', body, signal);
    const rows = data.map(({ embedding }) => {
      const bytes = Uint8Array.from(atob(embedding), (letter) => letter.charCodeAt(0));
      return new Float32Array(bytes.buffer);
    });
    return typeof input === 'string' ? rows[0] : rows;
  }

  /** The tokens of a text, with those that the model wants around one unless `special` is false. */
  async tokenize(text, { special = true } = {}) {
    const body = { content: text, add_special: special, parse_special: true };
    return (await this._one('/tokenize', body)).tokens;
  }

  /** The text of tokens. */
  async detokenize(tokens) {
    return (await this._one('/detokenize', { tokens: Array.from(tokens) })).content;
  }

  /** An empty session: a text that grows over many requests. */
  session() {
    return new Session(this, []);
  }

  /** A session that was saved, perhaps by another page. */
  restore(saved) {
    const { buffer, byteOffset, byteLength } = saved;
    const view = new DataView(buffer, byteOffset, byteLength);
    if (byteLength % 4 !== 0 || byteLength < 4 || view.getUint32(0) !== MAGIC) {
      throw Object.assign(new Error('these bytes are no session'), { code: 'invalid_argument' });
    }
    const tokens = Array.from({ length: byteLength / 4 - 1 }, (_, place) => view.getUint32(4 * place + 4, true));
    return new Session(this, tokens);
  }

  async _one(path, body, signal) {
    for await (const document of this.request(path, body, { signal })) return document;
    throw new Error(`${path} gave nothing`);
  }
}

/** What a saved session begins with: "STRA". */
const MAGIC = 0x53545241;

/** A text that grows over many requests. The engine keeps what it computed of it for as long as there is room. */
class Session {
  constructor(model, tokens) {
    this._model = model;
    this._tokens = tokens;
    this._runs = false;
  }

  /** Appends to the text. Control tokens in it are read as such. */
  async append(text) {
    this._rest();
    this._tokens = [...this._tokens, ...(await this._model.tokenize(text, { special: this._tokens.length === 0 }))];
    return this;
  }

  /** Continues the text, piece by piece. It has grown when the last piece was read; canceled, it stays as it was. */
  async *run({ signal, adapters, ...fields } = {}) {
    this._rest();
    this._runs = true;
    const tokens = [...this._tokens];
    const body = { ...fields, prompt: this._tokens, stream: true, return_token_ids: true, lora: loras(adapters) };
    try {
      for await (const { choices } of this._model.request('/v1/completions', body, { signal })) {
        tokens.push(...(choices[0]?.token_ids ?? []));
        if (choices[0]?.text) yield choices[0].text;
      }
      this._tokens = tokens;
    } finally {
      this._runs = false;
    }
  }

  /** The text so far. */
  text() {
    return this._model.detokenize(this._tokens);
  }

  /** Another session with the same text; both share what was computed of it. */
  fork() {
    return new Session(this._model, [...this._tokens]);
  }

  /** The session as bytes, for `restore`. */
  save() {
    const bytes = new Uint8Array(4 * this._tokens.length + 4);
    const view = new DataView(bytes.buffer);
    view.setUint32(0, MAGIC);
    this._tokens.forEach((token, place) => view.setUint32(4 * place + 4, token, true));
    return bytes;
  }

  _rest() {
    if (this._runs) throw Object.assign(new Error('the session is running'), { code: 'invalid_argument' });
  }
}

function loras(adapters) {
  return adapters && Object.entries(adapters).map(([id, scale]) => ({ id: Number(id), scale }));
}

/** A tool as requests list it. */
function described(tool) {
  if (tool.type) return tool;
  const { name, description, parameters, strict = true } = tool;
  return { type: 'function', function: { name, description, parameters, strict } };
}

/** Adds a part of a call to those that were told of. */
function spell(calls, { index, id, function: spelt }) {
  const call = (calls[index] ??= { id, type: 'function', function: { name: '', arguments: '' } });
  call.function.name += spelt?.name ?? '';
  call.function.arguments += spelt?.arguments ?? '';
}

/** The message with a call's result; the model is told of errors. */
async function answered(run, { id, function: { name, arguments: given } }) {
  let content;
  try {
    if (typeof run !== 'function') throw new Error(`there is no function ${name}`);
    const result = await run(JSON.parse(given || '{}'));
    content = typeof result === 'string' ? result : JSON.stringify(result ?? null);
  } catch (error) {
    content = `error: ${error?.message ?? error}`;
  }
  return { role: 'tool', tool_call_id: id, content };
}
