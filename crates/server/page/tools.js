// Calls of tools in a conversation. A tool of an MCP server runs only after the user has agreed to this one call; for other
// tools the user writes the result.

import { h } from './dom.js';
import * as mcp from './mcp.js';
import * as store from './conversations.js';
import { t } from './words.js';

/** Calls on their way, by their id: they can be stopped. */
const running = new Map();

export function stop() {
  for (const control of running.values()) control.abort();
}

/** The tools that a request declares: those of the parameters, and those of MCP servers with other names. */
export function declare(parameters) {
  const own = parameters.tools ?? [];
  const names = new Set(own.map((tool) => tool?.function?.name));
  const all = [...own, ...mcp.declared().filter((tool) => !names.has(tool.function.name))];
  return all.length > 0 ? { ...parameters, tools: all } : parameters;
}

const result = (call, message) => store.path().find((other) => other.role === 'tool' && other.call === call.id && store.path().indexOf(other) > store.path().indexOf(message));

/** A call with what can be done about it. `give(call, content, failed)` adds its result to the conversation. */
export function box(call, message, { meter, give, redraw }) {
  const { name, arguments: written } = call.function;
  const target = mcp.tools().get(name);
  let spelt = written;
  let given = null;
  try {
    given = JSON.parse(written || '{}');
    spelt = JSON.stringify(given, null, 2);
  } catch { /* Still being written, or not JSON: shown as it is. */ }
  const title = h('p', {}, t('calls'), ' ', h('strong', { dir: 'auto' }, name), target && h('span', { class: 'hint' }, ' ', t('of_server', { server: target.server.name })));
  const element = h('div', { class: 'call' }, title, h('pre', { tabindex: 0, dir: 'ltr' }, spelt));
  if (meter || result(call, message)) return element;
  if (running.has(call.id)) {
    element.append(h('p', { class: 'wait' }, h('span', {}, t('tool_running')), h('progress', { 'aria-label': t('tool_running') })));
  } else if (target && given !== null && typeof given === 'object') {
    element.append(consent(call, target, given, { give, redraw }));
  } else {
    element.append(byHand(call, give));
  }
  return element;
}

/** The question whether a call may be made. */
function consent(call, target, given, { give, redraw }) {
  const run = async () => {
    const control = new AbortController();
    running.set(call.id, control);
    redraw();
    let outcome;
    try {
      outcome = await mcp.call(target, given, control.signal);
    } catch (error) {
      outcome = { text: error.message, failed: true };
    }
    running.delete(call.id);
    give(call, outcome.text, outcome.failed);
  };
  return h('div', { class: 'row consent', role: 'group', 'aria-label': t('consent', { tool: target.tool.name, server: target.server.name }) },
    h('p', {}, t('consent', { tool: target.tool.title || target.tool.name, server: target.server.name })),
    h('button', { data: { act: 'allow' }, onclick: run }, t('allow')),
    h('button', { class: 'quiet', data: { act: 'refuse' }, onclick: () => give(call, 'The user refused this call.', true) }, t('refuse')));
}

/** A field for the result of a tool that runs elsewhere. */
function byHand(call, give) {
  const field = h('textarea', { rows: 2, dir: 'auto', 'aria-label': t('result_of', { tool: call.function.name }), placeholder: t('result') });
  return h('form', {
    class: 'row',
    onsubmit: (event) => {
      event.preventDefault();
      give(call, field.value, false);
    },
  }, field, h('button', {}, t('give_result')));
}
