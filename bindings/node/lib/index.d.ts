/** A JSON schema. */
export type JsonSchema = { readonly [key: string]: unknown };

/** What a schema's answers are: zod's and others' own type, anything for a JSON schema. */
export type Output<S> = S extends { parse(value: unknown): infer T } ? T : unknown;

/** A schema: a JSON schema, or one that can tell its JSON schema and parse, such as zod's. */
export type Schema = JsonSchema | { toJSONSchema(): unknown; parse(value: unknown): unknown };

export interface Message {
  role: 'system' | 'developer' | 'user' | 'assistant' | 'tool';
  content?: unknown;
  [key: string]: unknown;
}

export interface Call {
  id: string;
  name: string;
  arguments: any;
}

/** A tool that a function answers, by itself. */
export interface FunctionTool {
  name: string;
  description?: string;
  parameters: Schema;
  strict?: boolean;
  run(args: any): unknown | Promise<unknown>;
}

/** A piece of an answer. */
export interface Event {
  text: string;
  thinking: string;
  calls: Call[];
  /** The document that it came with, in OpenAI's shape. */
  raw: any;
}

export interface Options {
  memory?: string | number;
  threads?: number;
  context?: number;
  requests?: number;
  batch?: number;
  kv?: 'f16' | 'q8_0' | 'f32';
  stream?: 'auto' | 'never' | 'always';
  quantize?: string;
  adapters?: (string | { path: string; scale?: number })[];
  draft_model?: string;
  max_draft?: number;
  /** What tokens are drafted from, if not from texts or with the draft model. */
  drafts?: 'mtp' | 'auto';
  /** The file that lets the model see; one beside the model is found by itself. */
  projector?: string;
  /** 'cpu', 'auto', 'cuda:0', 'cuda:0,1', 'vulkan:0'. */
  device?: string;
  /** Layers on GPUs, the last ones; as many as fit where no number is given. */
  gpu_layers?: number;
  /** What becomes of a model whose GPU fails. */
  device_lost?: 'stop' | 'cpu';
  cache?: { folder: string; bytes: number };
  sessions?: boolean;
  /** Fetches images from the https addresses that requests name. */
  image_urls?: boolean;
  /** Machines that run `strata peer` and have some of the layers. */
  peers?: { addresses: string[]; key: string; layers?: number[] };
}

export interface LoadOptions extends Options {
  signal?: AbortSignal;
  progress?(loaded: number, total: number): void;
}

/** Fields of OpenAI's requests, such as `temperature`, `max_tokens`, `seed`, `stop`. */
export interface Fields {
  signal?: AbortSignal;
  /** Adapters by number, with their strengths. */
  adapters?: Record<number, number>;
  temperature?: number;
  max_tokens?: number;
  seed?: number;
  stop?: string | string[];
  [field: string]: unknown;
}

export interface ChatFields<S extends Schema | undefined> extends Fields {
  tools?: (FunctionTool | { type: 'function'; function: unknown })[];
  tool_choice?: unknown;
  schema?: S;
}

export interface Plan {
  weights: number;
  kv: number;
  activations: number;
  draft: number;
  program: number;
  total: number;
  limit: number;
  limited_by: string;
  fits: boolean;
  streamed: number | null;
  context: number;
  remedies: string[];
  model: any;
}

/** What went wrong: a sentence, a code that stays the same from version to version, perhaps a hint. */
export class StrataError extends Error {
  readonly code: string;
  readonly hint?: string;
}

/** The documents of a request. Leaving the loop cancels it. */
export class Documents implements AsyncIterableIterator<any> {
  next(): Promise<IteratorResult<any>>;
  return(value?: any): Promise<IteratorResult<any>>;
  cancel(): void;
  toolResult(id: string, text: string): void;
  [Symbol.asyncIterator](): this;
}

/** An answer that comes while you read it. */
export class Answer<T = unknown> implements AsyncIterable<Event> {
  [Symbol.asyncIterator](): AsyncGenerator<Event, void, void>;
  text(): Promise<string>;
  thinking(): Promise<string>;
  parsed(): Promise<T>;
  calls(): Promise<Call[]>;
  finishReason(): Promise<string | undefined>;
  usage(): Promise<Record<string, number>>;
  cancel(): void;
}

/** A model in memory. */
export class Model {
  chat<S extends Schema | undefined = undefined>(
    messages: string | Message[],
    fields?: ChatFields<S>,
  ): Answer<Output<S>>;
  complete(prompt: string, fields?: Fields): Answer;
  request(path: string, body?: unknown, options?: { signal?: AbortSignal }): Documents;
  embed(input: string, fields?: Fields): Promise<Float32Array>;
  embed(input: string[], fields?: Fields): Promise<Float32Array[]>;
  rerank(query: string, documents: string[], fields?: Fields): Promise<{ index: number; score: number }[]>;
  transcribe(file: string | Uint8Array, fields?: Fields): Promise<{ text: string; [field: string]: any }>;
  tokenize(text: string): number[];
  detokenize(tokens: Iterable<number>): string;
  session(): Session;
  restore(saved: Uint8Array): Promise<Session>;
  readonly info: any;
  readonly adapters: { id: number; path: string; scale: number }[];
  setAdapters(scales: Record<number, number>): void;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** What a session's runs are held to, and where nothing of them may go. */
export interface Constraints {
  deadline_ms?: number;
  first_token_ms?: number;
  token_ms?: number;
  /** Bytes of keys and values. */
  memory?: number;
  response_format?: unknown;
  guided_regex?: string;
  grammar?: string;
  guided_choice?: string[];
  never_to_disk?: boolean;
  never_off_machine?: boolean;
}

/** A text that grows over many requests. */
export class Session {
  constrain(constraints: Constraints): this;
  append(text: string): this;
  run(fields?: Fields): Answer;
  readonly text: string;
  fork(): Session;
  save(): Promise<Uint8Array>;
}

/** Opens a model: a GGUF file, a Hugging Face folder, a name in the store, or `tale`, which is built in. */
export function load(model: string, options?: LoadOptions): Promise<Model>;
/** What a model would take in bytes, without loading it. */
export function plan(model: string, options?: Options): Promise<Plan>;
/** What this build can do. */
export const features: string[];
