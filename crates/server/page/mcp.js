// MCP servers that the user has named: which there are, whether they answer, and calls to their tools.

import { keep, recall } from './dom.js';
import { t } from './words.js';

/** Servers: {url, token, enabled, state, name, tools, problem}. Tokens last as long as the tab. */
const servers = [];
const listeners = [];

export const list = () => servers;

/** Calls a function whenever a server changes. */
export const onChange = (listener) => listeners.push(listener);
const changed = () => listeners.forEach((listener) => listener());

function remember() {
  keep('mcp', servers.map(({ url, enabled }) => ({ url, enabled })));
  sessionStorage.setItem('strata.mcp', JSON.stringify(Object.fromEntries(servers.map(({ url, token }) => [url, token]))));
}

export function start() {
  const saved = recall('mcp', []);
  let tokens = {};
  try {
    tokens = JSON.parse(sessionStorage.getItem('strata.mcp')) ?? {};
  } catch { /* Damaged: no tokens. */ }
  for (const one of Array.isArray(saved) ? saved : []) {
    if (typeof one?.url !== 'string') continue;
    const server = made(one.url, tokens[one.url] ?? '');
    server.enabled = one.enabled !== false;
    servers.push(server);
    if (server.enabled) connect(server);
  }
}

const made = (url, token) => ({ url, token, enabled: true, state: 'idle', name: '', tools: [], problem: '', worker: null, waiting: new Map(), count: 0 });

/** Adds a server; an error if its address is none. */
export function add(address, token) {
  let url;
  try {
    url = new URL(address);
  } catch {
    throw new Error(t('mcp_bad_address'));
  }
  if (!/^https?:$/.test(url.protocol) || url.username || url.hostname.startsWith('[')) throw new Error(t('mcp_bad_address'));
  const known = servers.find((server) => server.url === url.href);
  if (known) remove(known);
  const server = made(url.href, token);
  servers.push(server);
  remember();
  return connect(server);
}

export function remove(server) {
  close(server);
  servers.splice(servers.indexOf(server), 1);
  remember();
  changed();
}

export function enable(server, enabled) {
  server.enabled = enabled;
  remember();
  if (enabled) connect(server);
  else {
    close(server);
    server.state = 'idle';
    changed();
  }
}

/** Connects to a server and asks for its tools. */
export async function connect(server) {
  close(server);
  Object.assign(server, { state: 'connecting', problem: '', tools: [] });
  changed();
  try {
    // The worker's policy names the one origin that it may talk to.
    server.worker = new Worker(`/mcp_worker.js?connect=${encodeURIComponent(new URL(server.url).origin)}`, { type: 'module' });
    server.worker.addEventListener('message', ({ data }) => settle(server, data));
    server.worker.addEventListener('error', () => {
      for (const id of [...server.waiting.keys()]) settle(server, { id, problem: 'mcp_no_answer' });
    });
    const { name, tools } = await send(server, { act: 'open', url: server.url, token: server.token });
    Object.assign(server, { state: 'ready', name, tools });
  } catch (error) {
    close(server);
    Object.assign(server, { state: 'failed', problem: error.message });
  }
  changed();
}

function close(server) {
  for (const id of [...server.waiting.keys()]) settle(server, { id, problem: 'mcp_canceled' });
  server.worker?.postMessage({ act: 'close' });
  server.worker = null;
}

function settle(server, { id, value, problem, values }) {
  const waiting = server.waiting.get(id);
  server.waiting.delete(id);
  if (problem) waiting?.reject(new Error(t(problem, values)));
  else waiting?.resolve(value);
}

function send(server, message, signal) {
  const id = (server.count += 1);
  return new Promise((resolve, reject) => {
    server.waiting.set(id, { resolve, reject });
    server.worker.postMessage({ id, ...message });
    signal?.addEventListener('abort', () => server.worker?.postMessage({ act: 'cancel', of: id }));
  });
}

/** All tools, under names that APIs take and that differ from each other: name → {server, tool}. */
export function tools() {
  const found = new Map();
  for (const server of servers.filter(({ enabled, state }) => enabled && state === 'ready')) {
    for (const tool of server.tools) {
      const plain = tool.name.replace(/[^\w-]/g, '_').slice(0, 56) || 'tool';
      let name = plain;
      for (let n = 2; found.has(name); n += 1) name = `${plain}_${n}`;
      found.set(name, { server, tool });
    }
  }
  return found;
}

/** The tools as the API wants them. */
export const declared = () => [...tools()].map(([name, { tool }]) => ({
  type: 'function',
  function: { name, description: tool.description || tool.title, parameters: tool.parameters },
}));

/** Calls a tool: {text, failed}. */
export async function call({ server, tool }, given, signal) {
  if (!server.worker) await connect(server);
  if (!server.worker) throw new Error(server.problem);
  return send(server, { act: 'call', name: tool.name, arguments: given }, signal);
}
