// An MCP client over streamable HTTP, in a worker of its own. The server sends this file with a policy that lets it talk to
// one origin and no other; the page itself can talk only to its own server.
//
// Protocol: https://modelcontextprotocol.io/specification/2025-06-18/basic/transports

import { serverSentEvents } from './sse.js';

const VERSIONS = ['2025-11-25', '2025-06-18', '2025-03-26'];
const MOST_TOOLS = 256;
const LONGEST_RESULT = 1_000_000;
const PATIENCE = { initialize: 30_000, 'tools/list': 30_000, 'tools/call': 300_000 };

const server = { url: '', token: '', session: null, version: null };
let count = 0;

/** A failure that the page puts into words: a key of its table, and values. */
class Problem extends Error {
  constructor(key, values = {}) {
    super(key);
    this.values = values;
  }
}

async function post(message, signal) {
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  if (server.session) headers['mcp-session-id'] = server.session;
  if (server.version) headers['mcp-protocol-version'] = server.version;
  if (server.token) headers.authorization = `Bearer ${server.token}`;
  let response;
  try {
    response = await fetch(server.url, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', ...message }), signal, credentials: 'omit', redirect: 'error' });
  } catch (error) {
    if (error.name === 'AbortError' || error.name === 'TimeoutError') throw error;
    // A browser does not tell a refused connection from an answer that another origin may not read.
    throw new Problem('mcp_unreachable');
  }
  if (response.status === 404 && server.session) throw new Problem('mcp_session_gone');
  if (response.status === 401 || response.status === 403) throw new Problem('mcp_unauthorized');
  if (!response.ok) throw new Problem('mcp_status', { status: String(response.status) });
  server.session = response.headers.get('mcp-session-id') ?? server.session;
  return response;
}

/** Sends a request and gives its result. What else the server says meanwhile is answered or passed over. */
async function request(method, params, abort) {
  count += 1;
  const id = count;
  const signals = [AbortSignal.timeout(PATIENCE[method])];
  if (abort) signals.push(abort);
  const signal = AbortSignal.any(signals);
  try {
    const response = await post({ id, method, params }, signal);
    const streamed = (response.headers.get('content-type') ?? '').includes('text/event-stream');
    if (!streamed) return result(await response.json(), id);
    for await (const { data } of serverSentEvents(response)) {
      const message = data ? JSON.parse(data) : null;
      if (message?.id === id && message.method === undefined) return result(message, id);
      if (message?.method !== undefined && message.id !== undefined) reply(message);
    }
    throw new Problem('mcp_no_answer');
  } catch (error) {
    if (error instanceof Problem) throw error;
    if (error instanceof SyntaxError) throw new Problem('mcp_not_json');
    if (error.name === 'AbortError' || error.name === 'TimeoutError') {
      const reason = abort?.aborted ? 'canceled' : 'timeout';
      post({ method: 'notifications/cancelled', params: { requestId: id, reason } }).catch(() => {});
      throw new Problem(abort?.aborted ? 'mcp_canceled' : 'mcp_timeout');
    }
    throw new Problem('mcp_failed', { message: error.message });
  }
}

function result(message, id) {
  if (message?.error) throw new Problem('mcp_failed', { message: String(message.error.message ?? message.error.code) });
  if (message?.id !== id || typeof message.result !== 'object' || message.result === null) throw new Problem('mcp_no_answer');
  return message.result;
}

/** Answers a request of the server's. This client offers nothing, so it only lives. */
function reply({ id, method }) {
  const answer = method === 'ping' ? { result: {} } : { error: { code: -32601, message: 'Method not found' } };
  post({ id, ...answer }).catch(() => {});
}

/** Begins a session and lists the tools. */
async function open() {
  Object.assign(server, { session: null, version: null });
  const told = await request('initialize', {
    protocolVersion: VERSIONS[0],
    capabilities: {},
    clientInfo: { name: 'strata', title: 'Strata', version: '1' },
  });
  if (!VERSIONS.includes(told.protocolVersion)) throw new Problem('mcp_failed', { message: `MCP ${told.protocolVersion}` });
  server.version = told.protocolVersion;
  await post({ method: 'notifications/initialized' }, AbortSignal.timeout(30_000));
  const tools = [];
  let cursor;
  do {
    const page = await request('tools/list', cursor ? { cursor } : {});
    for (const tool of Array.isArray(page.tools) ? page.tools : []) {
      if (typeof tool?.name !== 'string' || tools.length >= MOST_TOOLS) continue;
      tools.push({ name: tool.name, title: String(tool.title ?? tool.annotations?.title ?? ''), description: String(tool.description ?? ''), parameters: tool.inputSchema ?? { type: 'object' } });
    }
    cursor = tools.length < MOST_TOOLS ? page.nextCursor : undefined;
  } while (cursor);
  const { name, title } = told.serverInfo ?? {};
  return { name: String(title || name || new URL(server.url).host), tools };
}

/** Calls a tool: {text, failed}. A session that the server has forgotten is begun again, once. */
async function call(name, given, abort, again = true) {
  try {
    const told = await request('tools/call', { name, arguments: given }, abort);
    const parts = Array.isArray(told.content) ? told.content.map(spelt) : [];
    if (parts.length === 0 && told.structuredContent !== undefined) parts.push(JSON.stringify(told.structuredContent));
    return { text: parts.join('\n').slice(0, LONGEST_RESULT), failed: told.isError === true };
  } catch (error) {
    if (error.message !== 'mcp_session_gone' || !again) throw error;
    await open();
    return call(name, given, abort, false);
  }
}

function spelt(part) {
  if (part?.type === 'text') return String(part.text);
  if (part?.type === 'resource' && typeof part.resource?.text === 'string') return part.resource.text;
  if (part?.type === 'resource_link') return String(part.uri);
  return `[${part?.type ?? 'unknown'}${part?.mimeType ? `, ${part.mimeType}` : ''}]`;
}

const running = new Map();

self.addEventListener('message', async ({ data }) => {
  const { id, act } = data;
  if (act === 'cancel') {
    running.get(data.of)?.abort();
    return;
  }
  if (act === 'close') {
    const headers = server.session ? { 'mcp-session-id': server.session } : null;
    if (headers) await fetch(server.url, { method: 'DELETE', headers, credentials: 'omit' }).catch(() => {});
    self.close();
    return;
  }
  const control = new AbortController();
  running.set(id, control);
  try {
    if (act === 'open') Object.assign(server, { url: data.url, token: data.token });
    const value = act === 'open' ? await open() : await call(data.name, data.arguments, control.signal);
    self.postMessage({ id, value });
  } catch (error) {
    self.postMessage({ id, problem: error.message, values: error.values });
  }
  running.delete(id);
});
