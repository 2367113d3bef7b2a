// The models of the server: pulled, loaded, unloaded, removed, and looked at.

import { $, announce, h, keep, notice, recall } from './dom.js';
import { call, json, lines } from './api.js';
import { parse, sum } from './metrics.js';
import { bytes, number, onLanguage, share, t } from './words.js';

const EVERY = 5000;
/** Registries on the server's own machine need no TLS. */
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+)(:\d+)?\//;

/** Pulls on their way or failed: name → {control, text, done, total, part, failed}. */
const pulls = new Map();
/** Names whose details are open, with what they are. */
const opened = new Map();
let shown = false;
let timer = 0;
let known = { models: [], loaded: [], limit: undefined };
/** Called when the list of models may be another one. */
let changed = () => {};

export function start(onChange) {
  changed = onChange;
  $('#pull').addEventListener('submit', (event) => {
    event.preventDefault();
    const name = $('#pull-name').value.trim();
    if (name !== '' && !(pulls.get(name) && !pulls.get(name).failed)) pull(name);
    $('#pull-name').value = '';
  });
  onLanguage(() => { if (shown) draw(); });
}

export function enter() {
  shown = true;
  refresh();
}

export function leave() {
  shown = false;
  clearTimeout(timer);
}

/** Fills the menu of models, and keeps the choice. */
export async function list() {
  const { data } = await json('/v1/models');
  const chosen = recall('model', '');
  $('#model').replaceChildren(...data.map(({ id }) => h('option', { value: id, selected: id === chosen }, id)));
  $('#model').disabled = data.length === 0;
  return data.length;
}

async function refresh() {
  clearTimeout(timer);
  try {
    const [tags, running] = await Promise.all([json('/api/tags'), json('/api/ps')]);
    known = { ...known, models: tags.models, loaded: running.models };
    known.limit = await limit();
    draw();
  } catch (error) {
    notice(error.message);
  }
  if (shown) timer = setTimeout(refresh, EVERY);
}

/** Memory that models may take. */
async function limit() {
  try {
    return sum(parse(await (await call('/metrics', { ask: false })).text()), 'strata:memory_limit_bytes');
  } catch {
    return undefined;
  }
}

async function pull(name) {
  const state = { control: new AbortController(), text: t('starting'), done: 0, total: 0, failed: false };
  const layers = new Map();
  pulls.set(name, state);
  draw();
  try {
    for await (const { status, digest, total, completed } of lines('/api/pull', { model: name, stream: true, insecure: LOOPBACK.test(name) }, state.control.signal)) {
      if (digest) layers.set(digest, [Math.max(completed ?? 0, layers.get(digest)?.[0] ?? 0), total ?? 0]);
      [state.done, state.total] = [...layers.values()].reduce(([a, b], [c, d]) => [a + c, b + d], [0, 0]);
      // A layer that is named later makes the whole larger; the bar does not go back for it.
      if (state.total > 0) state.part = Math.max(state.part ?? 0, state.done / state.total);
      state.text = status;
      drawPulls();
    }
    pulls.delete(name);
    announce(t('pulled', { model: name }));
    changed();
  } catch (error) {
    if (error.name === 'AbortError') pulls.delete(name);
    else Object.assign(state, { failed: true, text: error.message });
  }
  drawPulls();
  if (shown) refresh();
}

function drawPulls() {
  const rows = [...pulls].map(([name, state]) => {
    const { failed, done, total, part, text, control } = state;
    const size = total > 0 ? t('of_total', { done: bytes(done), total: bytes(total) }) : '';
    const words = failed ? text : [size || text, part !== undefined && share(part, 1)].filter(Boolean).join(' · ');
    const act = (label, todo) => h('button', { class: 'quiet', data: { act: label }, onclick: todo }, t(label));
    const drop = () => {
      pulls.delete(name);
      drawPulls();
    };
    return h('li', { class: 'card pull' }, h('strong', {}, h('bdi', {}, name)),
      h('span', { class: failed ? 'error' : 'hint', role: failed ? 'alert' : undefined }, words),
      !failed && h('progress', { max: 1, value: part, 'aria-label': t('pulling', { model: name }) }),
      failed ? act('dismiss', drop) : act('cancel', () => control.abort()));
  });
  $('#pulls').replaceChildren(...rows);
}

function draw() {
  drawPulls();
  drawMemory();
  $('#models-list').replaceChildren(...known.models.map(card));
  if (known.models.length === 0) $('#models-list').append(h('p', { class: 'hint' }, t('no_models')));
}

function drawMemory() {
  const { loaded, limit: whole } = known;
  const used = loaded.reduce((all, { size }) => all + size, 0);
  $('#memory-words').textContent = whole ? t('memory_of', { used: bytes(used), limit: bytes(whole) }) : t('memory_used', { used: bytes(used) });
  $('#memory-bar').hidden = !whole;
  $('#memory-bar').replaceChildren(...loaded.map(({ name, size }) => {
    const part = h('span', { title: `${name}: ${bytes(size)}` });
    part.style.width = `${Math.max(0.5, (100 * size) / (whole || used))}%`;
    return part;
  }));
}

const remaining = (until) => Math.max(0, (new Date(until) - Date.now()) / 60_000);

function card(one) {
  const { name, size, details, capabilities = [] } = one;
  const loaded = known.loaded.find((other) => other.name === name);
  const button = (label, todo, quiet = true) => h('button', {
    class: quiet ? 'quiet' : '',
    data: { act: label },
    'aria-label': `${t(label)}: ${name}`,
    'aria-expanded': label === 'details' ? String(opened.has(name)) : undefined,
    onclick: (event) => todo(event.currentTarget),
  }, t(label));
  const facts = [details.family, details.parameter_size, details.quantization_level, bytes(size)].filter(Boolean).join(' · ');
  const left = loaded ? remaining(loaded.expires_at) : 0;
  const state = !loaded ? '' : left > 60 * 24 * 365 ? t('in_memory', { size: bytes(loaded.size) }) : t('in_memory_until', { size: bytes(loaded.size), minutes: Math.ceil(left) });
  return h('section', { class: `card model-card ${loaded ? 'loaded' : ''}`, data: { model: name } },
    h('h2', {}, h('bdi', {}, name)),
    h('p', { class: 'hint' }, h('bdi', {}, facts)),
    h('p', { class: 'tags' }, ...capabilities.map((what) => h('span', {}, t(`can_${what}`)))),
    state && h('p', { class: 'state' }, state),
    h('div', { class: 'row' },
      button('use', () => use(name), false),
      loaded ? button('unload', () => hold(name, 0)) : button('load', (pressed) => hold(name, undefined, pressed)),
      button('details', () => look(name)),
      // Only what is in the store has a tag: files and the built-in model are not the store's to remove.
      name.includes(':') && button('remove', () => remove(name))),
    opened.has(name) && sheet(opened.get(name)));
}

function use(name) {
  keep('model', name);
  $('#model').value = name;
  $('#model').dispatchEvent(new Event('change'));
  location.hash = 'chat';
}

/** Loads a model, or unloads it after no time. */
async function hold(name, time, pressed) {
  if (pressed) {
    pressed.textContent = t('loading');
    pressed.disabled = true;
  }
  await attempt(() => json('/api/generate', { body: { model: name, stream: false, keep_alive: time } }));
}

async function remove(name) {
  if (!confirm(t('remove_question', { model: name }))) return;
  await attempt(() => call('/api/delete', { method: 'DELETE', body: { model: name } }));
  changed();
}

async function attempt(act) {
  try {
    await act();
    notice('');
  } catch (error) {
    notice(error.message);
  }
  // Unloading takes a moment.
  setTimeout(refresh, 200);
}

async function look(name) {
  if (opened.delete(name)) {
    draw();
  } else {
    try {
      opened.set(name, await json('/api/show', { body: { model: name } }));
      draw();
    } catch (error) {
      notice(error.message);
    }
  }
  document.querySelector(`[data-model="${CSS.escape(name)}"] [data-act=details]`)?.focus();
}

/** What a model is: its own words, and the numbers of its file. */
function sheet({ model_info: info = {}, license, template, system, parameters }) {
  const family = info['general.architecture'];
  const of = (key) => info[`${family}.${key}`];
  const facts = [
    ['description', info['general.description']],
    ['architecture', family],
    ['context', of('context_length')],
    ['layers', of('block_count')],
    ['heads', of('attention.head_count') && [of('attention.head_count'), of('attention.head_count_kv')].filter(Boolean).join(' / ')],
    ['embedding', of('embedding_length')],
    ['license', (license ?? info['general.license'])?.split('\n')[0].slice(0, 200)],
  ];
  const fold = (label, text) => text && h('details', {}, h('summary', {}, t(label)), h('pre', { tabindex: 0, dir: 'ltr' }, text));
  return h('div', { class: 'sheet' },
    h('dl', {}, ...facts.filter(([, value]) => value !== undefined && value !== '').flatMap(([label, value]) => [h('dt', {}, t(label)), h('dd', { dir: 'auto' }, typeof value === 'number' ? number(value) : String(value))])),
    fold('system_prompt', system), fold('parameters', parameters), fold('template', template));
}

