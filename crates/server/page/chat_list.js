// The list of conversations: searched, opened, renamed, deleted, exported and imported.

import { $, announce, download, h, notice } from './dom.js';
import * as store from './conversations.js';
import { t } from './words.js';

/** What the chat does when another conversation is opened: {stop, redraw, close}. */
let chat = null;
let renaming = false;

export function start(acts) {
  chat = acts;
  $('#new-chat').addEventListener('click', () => {
    change(store.begin);
    $('#input').focus();
  });
  $('#search').addEventListener('input', draw);
  $('#search').addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && $('#search').value !== '') {
      event.stopPropagation();
      $('#search').value = '';
      draw();
    }
    if (event.key === 'ArrowDown') $('#chats button')?.focus();
  });
  $('#chats').addEventListener('keydown', (event) => {
    const all = [...$('#chats').querySelectorAll('button')];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || renaming) return;
    event.preventDefault();
    (all[all.indexOf(document.activeElement) + step] ?? $('#search')).focus();
  });
  $('#rename').addEventListener('click', () => {
    renaming = true;
    $('#search').value = '';
    draw();
    $('#chats input')?.select();
  });
  $('#delete').addEventListener('click', () => {
    if (confirm(t('delete_question', { title: store.title(store.chat()) }))) change(store.remove);
  });
  $('#export').addEventListener('click', () => {
    const name = store.title(store.chat()).toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '');
    download(`${name || 'chat'}.json`, store.exported([store.chat()]));
  });
  $('#export-all').addEventListener('click', () => download('conversations.json', store.exported(store.list())));
  $('#import').addEventListener('click', () => $('#import-file').click());
  $('#import-file').addEventListener('change', read);
}

/** Does something to the list while no answer is on its way. */
function change(act) {
  chat.stop();
  act();
  notice('');
  $('#search').value = '';
  chat.redraw();
  chat.close();
}

async function read() {
  const problems = [];
  let count = 0;
  chat.stop();
  for (const file of $('#import-file').files) {
    try {
      count += store.importAll(await file.text());
    } catch (error) {
      problems.push(`${file.name}: ${error instanceof SyntaxError ? t('not_json') : error.message}`);
    }
  }
  $('#import-file').value = '';
  chat.redraw();
  notice(problems.join(' '));
  announce(t('imported', { n: count }));
}

export function draw() {
  const query = $('#search').value.trim();
  const found = query === '' ? store.list().map((one) => ({ one, match: null })) : store.search(query);
  const current = store.chat();
  $('#chats').replaceChildren(...found.map(({ one, match }) => h('li', {}, renaming && one === current ? field(one) : h('button', {
    class: 'quiet',
    'aria-current': one === current ? 'true' : undefined,
    onclick: () => {
      chat.stop();
      store.open(one.id);
      notice('');
      chat.redraw();
      chat.close();
    },
  }, h('span', { dir: 'auto' }, store.title(one)), match && excerpt(match)))));
  if (found.length === 0) $('#chats').append(h('li', { class: 'hint' }, t('nothing_found')));
}

function excerpt({ text, from, length }) {
  const start = Math.max(0, from - 20);
  return h('small', { dir: 'auto' }, start > 0 ? '…' : '', text.slice(start, from), h('mark', {}, text.slice(from, from + length)), text.slice(from + length, from + length + 60));
}

/** A field for the name of a conversation. */
function field(one) {
  const input = h('input', { dir: 'auto', 'aria-label': t('name'), maxlength: 120 });
  input.value = store.title(one);
  const end = (save) => {
    if (!renaming) return;
    renaming = false;
    if (save) {
      one.title = input.value.trim();
      store.save();
    }
    draw();
    $('#rename').focus();
  };
  input.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' || event.key === 'Escape') {
      event.preventDefault();
      event.stopPropagation();
      end(event.key === 'Enter');
    }
  });
  input.addEventListener('blur', () => end(true));
  return input;
}
