// The page: views, theme, models and the key.

import { $, h, keep, notice, recall } from './dom.js';
import { askKey, json, model } from './api.js';
import * as chat from './chat.js';
import * as inside from './inside.js';
import * as live from './live.js';

const VIEWS = { chat, live, inside };
const THEMES = ['auto', 'light', 'dark'];
let view = null;

function open(name) {
  if (!Object.hasOwn(VIEWS, name)) name = 'chat';
  if (view === name) return;
  if (view) VIEWS[view].leave?.();
  view = name;
  for (const tab of document.querySelectorAll('[role=tab]')) {
    const own = tab.id === `tab-${name}`;
    tab.setAttribute('aria-selected', own);
    tab.tabIndex = own ? 0 : -1;
    $(`#${tab.getAttribute('aria-controls')}`).hidden = !own;
  }
  notice('');
  VIEWS[name].enter?.();
}

function tabs() {
  const all = [...document.querySelectorAll('[role=tab]')];
  all.forEach((tab, at) => {
    tab.addEventListener('click', () => { location.hash = tab.id.slice(4); });
    tab.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = all[(at + step + all.length) % all.length];
      location.hash = next.id.slice(4);
      // The view takes the focus when it opens by a click; whoever walks the tabs stays there.
      setTimeout(() => next.focus());
    });
  });
  addEventListener('hashchange', () => open(location.hash.slice(1)));
}

function theme(next) {
  const current = THEMES.includes(next) ? next : 'auto';
  if (current === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = current;
  $('#theme').textContent = { auto: 'Auto', light: 'Light', dark: 'Dark' }[current];
  $('#theme').setAttribute('aria-label', `Colours: ${current}`);
  keep('theme', current);
  live.repaint();
}

async function models() {
  try {
    const { data } = await json('/v1/models');
    const chosen = recall('model', '');
    $('#model').replaceChildren(...data.map(({ id }) => h('option', { value: id, selected: id === chosen }, id)));
    $('#model').disabled = data.length === 0;
    notice(data.length === 0 ? 'The server has no model.' : '');
    inside.tokenize();
  } catch (error) {
    notice(error.message);
  }
}

addEventListener('keydown', (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName);
  if (event.key === 'Escape' && view && !$('#key-dialog').open) VIEWS[view].stop?.();
  if (event.key === '/' && !typing && view === 'chat') {
    event.preventDefault();
    chat.enter();
  }
});

$('#theme').addEventListener('click', () => theme(THEMES[(THEMES.indexOf(recall('theme', 'auto')) + 1) % THEMES.length]));
$('#model').addEventListener('change', () => {
  keep('model', model());
  inside.tokenize();
});
$('#key-button').addEventListener('click', async () => {
  if (await askKey('The key for this server.')) models();
});

theme(recall('theme', 'auto'));
tabs();
chat.start();
inside.start();
open(location.hash.slice(1));
models();
