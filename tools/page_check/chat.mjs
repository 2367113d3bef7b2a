// The chat: messages, versions, waiting, files and conversations.

import { ask, canceled, check, click, give, idle, page, press, shot, sleep, texts, type, until } from './browser.mjs';

export async function chat() {
  await type('#parameters [name=max_tokens]', '40');
  await type('#input', '  Tell me a story about a small fox.\n\n    indented  ');
  await press('Enter', 13);
  await until('the first words', () => document.querySelector('article.assistant .text')?.textContent.length > 0);
  await idle();
  const [answer] = await texts('article.assistant .text');
  check(answer.length > 0 && (await texts('article .error')).length === 0, `an answer of ${answer.length} characters is streamed`);
  check((await texts('article.user .text'))[0] === '  Tell me a story about a small fox.\n\n    indented  ', 'the message is as it was written');
  const [told] = await texts('article.assistant .stats');
  check(/tokens\/s/.test(told) && /prompt \d+/.test(told), `what it took is told: ${told}`);
  check(/finished/.test(await page(() => document.querySelector('#announcement').textContent)), 'the end is announced to screen readers');
  for (let tries = 0; ; tries += 1) {
    if (tries === 5) throw new Error('five answers ended before they could be stopped');
    await type('#parameters [name=max_tokens]', '');
    await type('#input', 'And then?');
    await page(() => new Promise((resolve) => {
      const box = document.querySelector('#messages');
      const look = new MutationObserver(() => {
        if (!box.querySelector('article.running .text')?.textContent) return;
        look.disconnect();
        document.querySelector('#send').click();
        resolve();
      });
      look.observe(box, { childList: true, subtree: true, characterData: true });
      document.querySelector('#send').click();
      // An answer may end before any of it is drawn.
      const ended = setInterval(() => {
        if (document.querySelector('#send.stop')) return;
        look.disconnect();
        clearInterval(ended);
        resolve();
      }, 20);
    }));
    await idle();
    if (/stopped/.test((await texts('article.assistant:last-child .stats'))[0])) break;
  }
  check(canceled.count > 0, 'an answer is stopped, and the connection ends with it');
  await ask('Page.reload');
  const kept = await until('the conversation', () => {
    const found = [...document.querySelectorAll('article.assistant .text')].map((e) => e.textContent);
    return found.length > 1 && document.querySelectorAll('#model option').length > 0 && found;
  });
  check(kept[0] === answer, 'the conversation is there after a reload');
  await type('#parameters [name=temperature]', '7');
  await type('#input', 'x');
  await press('Enter', 13);
  await until('the notice', () => document.querySelector('#notice').textContent);
  check(await page(() => document.querySelector('#input').value) === 'x', 'a parameter out of range is told, and the message is not lost');
  await type('#input', '');
  await type('#parameters [name=temperature]', '');
  const shown = await until('the defaults', () => {
    const found = Object.fromEntries([...document.querySelectorAll('#parameters input')].map(({ name, placeholder }) => [name, placeholder]));
    return found.temperature && found;
  });
  const real = await page(async () => (await (await fetch('/props')).json()).default_generation_settings);
  check(Number(shown.temperature) === real.params.temperature && Number(shown.top_k) === real.params.top_k && shown.seed === 'random', `empty parameters show their defaults: ${JSON.stringify(shown)}`);
  check((await texts('#context-size'))[0].replace(/\D/g, '') === String(real.n_ctx), 'and the size of the context');
}

/** Versions of answers and of messages, and a fork. */
export async function versions() {
  await click('#new-chat');
  await type('#parameters [name=max_tokens]', '12');
  await type('#input', 'Tell me about the moon.');
  await press('Enter', 13);
  await idle();
  const [first] = await texts('article.assistant .text');
  await click('article.assistant [data-act=regenerate]');
  await until('a second version', () => /2\/2/.test(document.querySelector('article.assistant .versions')?.textContent));
  await idle();
  await page(() => document.querySelector('[data-act=previous_version]').focus());
  await press('Enter', 13);
  check((await texts('article.assistant .text'))[0] === first && (await texts('article.assistant .versions'))[0].includes('1/2'), 'Regenerate keeps the first version');
  check(await page(() => document.activeElement.closest('.versions') !== null), 'and the focus stays among the versions');
  await click('article.user [data-act=edit]');
  await type('article.user textarea', 'Tell me about the sea.');
  await click('[data-act=send_again]');
  await until('a version of the message', () => /2\/2/.test(document.querySelector('article.user .versions')?.textContent));
  await idle();
  check((await texts('article.user .text'))[0] === 'Tell me about the sea.' && (await texts('article.assistant .versions')).length === 0, 'an edited message begins a branch');
  await click('article.user [data-act=previous_version]');
  check((await texts('article.user .text'))[0] === 'Tell me about the moon.' && (await texts('article.assistant .versions')).length === 1, 'the other branch is as it was');
  await ask('Page.reload');
  await until('the branches', () => document.querySelectorAll('.versions').length === 2 && document.querySelectorAll('#model option').length > 0);
  const before = (await texts('#chats li')).length;
  await click('article.assistant [data-act=fork]');
  check((await texts('#chats li')).length === before + 1 && (await texts('.versions')).length === 0 && (await texts('article')).length === 2, 'a fork is a conversation of its own');
  await page(() => { document.querySelector('#messages').focus(); });
  await click('article.assistant [data-act=source]');
  const raw = (await texts('article.assistant .text pre'))[0];
  check(raw === await page(async () => { const { path } = await import('/conversations.js'); return path().at(-1).content; }), 'the source of an answer is shown to the letter');
  await click('article.assistant [data-act=source]');
}

/** What is seen before the first token. `busy` makes the server work for someone else. */
export async function waiting(busy) {
  const end = await busy();
  await type('#input', 'Wait for it.');
  await press('Enter', 13);
  const words = await until('a place in the queue', () => {
    const text = document.querySelector('.wait')?.textContent;
    return /queue/.test(text) && text;
  });
  check(await page(() => document.querySelector('.wait progress') !== null), `waiting is visible: ${words}`);
  await shot('waiting');
  await click('#tab-live');
  const reason = await until('a reason', () => document.querySelector('#blocked').textContent);
  check(/waiting/.test(reason), `the live view says why: ${reason}`);
  await click('#tab-chat');
  end();
  await idle();
  check((await texts('.wait')).length === 0 && (await texts('article.assistant:last-child .text'))[0].length > 0, 'and the answer comes');
  const told = await page(async () => {
    const { standing } = await import('/answer.js');
    return [{ state: 'loading', done: 1, total: 4 }, { state: 'prompt', done: 512, total: 2048 }].map((phase) => standing({ phase }));
  });
  check(told[0].share === 0.25 && /Loading/.test(told[0].words) && /512 of 2,048/.test(told[1].words), `so are ${told.map(({ words: w }) => w).join(' ')}`);
}

export async function files() {
  await click('#new-chat');
  const odd = 'a ```\nb\n\u00e4\u6f22 <img src=x onerror=alert(1)>';
  await give('drop', '#chat', [{ name: 'notes.md', text: odd }]);
  await give('paste', '#input', [{ name: 'wide.txt', bytes: [0xff, 0xfe, 0x68, 0, 0x69, 0] }]);
  await until('both files', () => document.querySelectorAll('#files li').length === 2);
  await give('choose', '#file', [{ name: 'data.bin', bytes: [0x89, 0x50, 0x4e, 0x47, 0, 0, 0xff] }]);
  await until('the refusal', () => /data\.bin is not a text file/.test(document.querySelector('#notice').textContent));
  await give('choose', '#file', [{ name: 'picture.png', bytes: [0x89, 0x50, 0x4e, 0x47, 0, 0, 0xff] }]);
  await until('the refusal', () => /picture\.png is a picture/.test(document.querySelector('#notice').textContent));
  check((await texts('#files li')).length === 2, 'text files are dropped and pasted, others refused');
  await page(() => { document.querySelectorAll('#files button')[1].click(); });
  check((await texts('#files li')).length === 1, 'a file is removed again');
  await type('#input', 'What is this?');
  await press('Enter', 13);
  await idle();
  const said = await page(async () => { const { spoken } = await import('/answer.js'); const { chat: of } = await import('/conversations.js'); return spoken(of()); });
  check(said[0].content === `notes.md:\n\`\`\`\`\n${odd}\n\`\`\`\`\n\nWhat is this?`, 'the model reads the file inside a fence that holds');
  check((await texts('article.user .file pre'))[0] === odd && (await texts('article img')).length === 0, 'it is shown as text');
}

export async function conversations() {
  await click('#rename');
  await type('#chats input', 'Attached things');
  await press('Enter', 13);
  check((await texts('#chats li'))[0] === 'Attached things', 'a conversation is renamed');
  await type('#search', 'moon');
  const found = await texts('#chats li');
  check(found.length > 0 && found.every((text) => /moon/i.test(text)) && (await texts('#chats mark')).length > 0, `${found.length} conversations are found by their text`);
  await type('#search', 'no such words anywhere');
  check((await texts('#chats button')).length === 0, 'and none where there are none');
  await type('#search', '');
  const all = await page(async () => { const store = await import('/conversations.js'); return store.exported(store.list()); });
  const names = await texts('#chats li');
  await give('choose', '#import-file', [{ name: 'all.json', text: all }]);
  await sleep(300);
  check((await texts('#chats li')).length === names.length, 'importing what is here makes no copies');
  const foreign = JSON.stringify([{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'From elsewhere' }, { role: 'assistant', content: '**Yes.**' }]);
  await give('choose', '#import-file', [{ name: 'openai.json', text: foreign }, { name: 'bad.json', text: '{' }, { name: 'none.json', text: '{"messages": 3}' }]);
  await until('the import', () => document.querySelector('#chats li')?.textContent === 'From elsewhere');
  check((await texts('article.assistant strong'))[0] === 'Yes.' && await page(() => document.querySelector('#system').value) === 'Be brief.', 'a list of messages is imported');
  check(/bad\.json: not a JSON file.*none\.json/.test((await texts('#notice'))[0]), 'files that are none are told');
  await click('#delete');
  check((await texts('#chats li')).length === names.length, 'a conversation is deleted');
}
