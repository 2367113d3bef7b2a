// Settings: language, colours, the key, and MCP servers.

import { $, announce, h, keep, recall } from './dom.js';
import { askKey } from './api.js';
import * as mcp from './mcp.js';
import { LANGUAGES, onLanguage, speak, t } from './words.js';

const THEMES = ['auto', 'light', 'dark'];

/** Puts the settings to work. `onKey` is called after a key was given, `onTheme` after the colours have changed. */
export async function start({ onKey, onTheme }) {
  const dialog = $('#settings');
  $('#settings-button').addEventListener('click', () => dialog.showModal());
  $('#settings-close').addEventListener('click', () => dialog.close());
  dialog.addEventListener('click', (event) => { if (event.target === dialog) dialog.close(); });

  theme(recall('theme', 'auto'));
  $('#theme').addEventListener('change', () => {
    theme($('#theme').value);
    onTheme();
  });
  $('#language').addEventListener('change', () => {
    keep('language', $('#language').value);
    speak($('#language').value);
  });
  $('#key-button').addEventListener('click', async () => {
    dialog.close();
    if (await askKey(t('key_for_server'))) onKey();
  });
  $('#mcp-form').addEventListener('submit', add);
  mcp.onChange(draw);
  onLanguage(() => {
    options();
    draw();
  });
  await speak(recall('language', 'auto'));
  mcp.start();
  draw();
}

function options() {
  const option = (value, label, chosen) => h('option', { value, selected: value === chosen }, label);
  $('#language').replaceChildren(...[['auto', t('auto')], ...Object.entries(LANGUAGES)].map(([value, label]) => option(value, label, recall('language', 'auto'))));
  $('#theme').replaceChildren(...THEMES.map((value) => option(value, t(`theme_${value}`), recall('theme', 'auto'))));
}

function theme(next) {
  const chosen = THEMES.includes(next) ? next : 'auto';
  if (chosen === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  keep('theme', chosen);
}

async function add(event) {
  event.preventDefault();
  const [url, token] = [$('#mcp-url'), $('#mcp-token')];
  try {
    const adding = mcp.add(url.value.trim(), token.value.trim());
    $('#mcp-problem').textContent = '';
    url.value = '';
    token.value = '';
    await adding;
  } catch (error) {
    $('#mcp-problem').textContent = error.message;
  }
}

/** The MCP servers, and what each offers. */
function draw() {
  $('#mcp-list').replaceChildren(...mcp.list().map((server) => {
    const { name, url, state, tools, problem, enabled } = server;
    const words = { idle: t('mcp_off'), connecting: t('mcp_connecting'), ready: t('mcp_tools', { n: tools.length }), failed: problem }[state];
    const box = h('input', { type: 'checkbox', checked: enabled, onchange: () => mcp.enable(server, box.checked) });
    const offered = tools.map((tool) => h('li', {}, h('b', { dir: 'ltr' }, tool.name), ' ', h('span', { dir: 'auto' }, tool.title || tool.description.split('\n')[0])));
    return h('li', { data: { state } },
      h('label', { class: 'check' }, box, ' ', h('b', { dir: 'auto' }, name || url)),
      h('span', { class: state === 'failed' ? 'error' : 'hint', role: state === 'failed' ? 'alert' : undefined }, words),
      name && h('span', { class: 'hint', dir: 'ltr' }, url),
      offered.length > 0 && h('details', {}, h('summary', {}, t('tools')), h('ul', {}, ...offered)),
      h('span', { class: 'row' },
        enabled && h('button', { type: 'button', class: 'quiet', data: { act: 'reconnect' }, onclick: () => mcp.connect(server) }, t('reconnect')),
        h('button', { type: 'button', class: 'quiet', data: { act: 'remove' }, 'aria-label': `${t('remove')}: ${name || url}`, onclick: () => mcp.remove(server) }, t('remove'))));
  }));
  const ready = mcp.tools().size;
  $('#tools-ready').hidden = ready === 0;
  $('#tools-ready').textContent = t('mcp_tools', { n: ready });
  if (mcp.list().some(({ state }) => state === 'ready')) announce(t('mcp_tools', { n: ready }));
}
