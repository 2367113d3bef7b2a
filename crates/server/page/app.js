// The page: its views, and the selected model.

import { $, keep, notice } from './dom.js';
import { model } from './api.js';
import * as chat from './chat.js';
import * as inside from './inside.js';
import * as lessons from './lessons.js';
import * as live from './live.js';
import { look } from './microphone.js';
import * as models from './models.js';
import { showDefaults } from './parameters.js';
import * as settings from './settings.js';
import { onLanguage, t } from './words.js';

const VIEWS = { chat, models, live, inside };
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
      const forward = document.documentElement.dir === 'rtl' ? -1 : 1;
      const step = { ArrowRight: forward, ArrowLeft: -forward }[event.key];
      if (!step) return;
      const next = all[(at + step + all.length) % all.length];
      location.hash = next.id.slice(4);
      // A view takes the focus when it opens by a click; whoever walks the tabs stays there.
      setTimeout(() => next.focus());
    });
  });
  addEventListener('hashchange', () => open(location.hash.slice(1)));
}

async function list() {
  look();
  try {
    notice((await models.list()) === 0 ? t('no_models') : '');
    chosen();
  } catch (error) {
    notice(error.message);
  }
}

function chosen() {
  showDefaults();
  // Tokenizing loads the model, which is for those who look.
  if (view === 'inside') inside.tokenize();
}

addEventListener('keydown', (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName);
  if (event.key === 'Escape' && view && !document.querySelector('dialog[open]')) VIEWS[view].stop?.();
  if (event.key === '/' && !typing && view === 'chat') {
    event.preventDefault();
    chat.enter();
  }
});

$('#model').addEventListener('change', () => {
  keep('model', model());
  chosen();
});

await settings.start({ onKey: list, onTheme: live.repaint });
tabs();
chat.start();
models.start(list);
inside.start();
lessons.start();
chat.redraw();
open(location.hash.slice(1));
list();
onLanguage(showDefaults);
