// The lessons of Look inside: from the running engine, by mouse and by keyboard.

import { check, click, page, press, scheme, shot, size, texts, type, until } from './browser.mjs';

const set = (selector, value) => page((s, v) => {
  const field = document.querySelector(s);
  field.value = v;
  field.dispatchEvent(new Event('change', { bubbles: true }));
}, selector, value);

export async function lessons() {
  await click('#tab-inside');
  await type('#prompt', 'Once upon a time');
  await click('#lesson-run');
  await until('the lesson', () => !document.querySelector('#lesson-seen').hidden && document.querySelector('#lesson-stored').textContent !== '');
  const tokens = await texts('#lesson-tokens .piece');
  check(tokens.join() === 'Once2050,·upon693,·a261,·time550', `the prompt has the tokens ${tokens.join(' ')}`);
  await attention();
  await samplers();
  await quantization();
  await chats();
  await looks();
}

async function attention() {
  const heads = await page(() => [document.querySelectorAll('#lesson-layer option').length, document.querySelectorAll('#lesson-head option').length]);
  check(heads.join() === '8,8', 'there are eight layers and eight heads to choose from');
  await set('#lesson-layer', '7');
  // The book shows the same head of the same prompt.
  await until('the head', () => /Once 8[67]%/.test(document.querySelector('#lesson-attended').textContent));
  check(true, `a head is shown: ${(await texts('#lesson-attended'))[0]}`);
  const cells = await page(() => [...document.querySelectorAll('#lesson-attention tr')].map((row) => row.querySelectorAll('td:not(.later)').length));
  check(cells.join() === '1,2,3,4', 'no token looks ahead');
  await page(() => document.querySelector('#lesson-attention button[tabindex="0"]').focus());
  await press('ArrowUp', 38);
  const read = await page(() => [document.activeElement.textContent, document.querySelector('#lesson-attended').textContent]);
  check(read[0] === '·a' && read[1].startsWith('·a '), 'rows are read by keyboard');
  await press('Home', 36);
  check(await page(() => document.querySelector('#lesson-attended').textContent.includes('100%')), 'the first token has only itself to look at');
}

async function samplers() {
  const names = () => texts('#lesson-samplers h4');
  check((await names()).join() === 'Logits,Top k,Top p,Min p,Temperature', `the chain is ${(await names()).join(', ')}`);
  check(/^8.?192 candidates/.test((await texts('#lesson-samplers .hint'))[0]), 'it begins with the whole vocabulary');
  await set('#lesson-top-k', '3');
  await until('three candidates', () => document.querySelectorAll('#lesson-samplers .hint')[1].textContent.startsWith('3 '));
  await set('#lesson-temperature', '0');
  await until('one candidate', () => document.querySelector('#lesson-samplers section:last-child .hint').textContent === '1 candidate left');
  check(/100%/.test((await texts('#lesson-drawn'))[0]), `what is drawn is told: ${(await texts('#lesson-drawn'))[0]}`);
}

async function quantization() {
  await set('#lesson-tensor', 'blk.0.attn_q.weight');
  await until('the tensor', () => document.querySelectorAll('#lesson-formats tbody tr').length > 5 && document.querySelector('#lesson-stored').textContent.startsWith('512 '));
  const first = (await texts('#lesson-formats tbody tr'))[0];
  await set('#lesson-row', '17');
  await until('the row', (other) => document.querySelector('#lesson-formats tbody tr').textContent !== other, first);
  const errors = await page(() => [...document.querySelectorAll('#lesson-formats tbody tr')].slice(1).map((row) => [row.children[0].textContent, parseFloat(row.children[2].textContent)]));
  const of = Object.fromEntries(errors);
  check(of.Q8_0 < of.Q4_0 && of.Q4_0 < of.Q2_K, `fewer bits lose more: ${errors.map(([name, error]) => `${name} ${error}%`).join(', ')}`);
  await set('#lesson-row', '100000');
  await until('the refusal', () => document.querySelector('#lesson-status').textContent.includes('no row'));
  check(true, 'a row that is not there is refused in words');
  await set('#lesson-row', '0');
  await until('the row again', () => document.querySelector('#lesson-status').textContent === '');
}

async function chats() {
  await page(() => document.querySelector('#chats-run').focus());
  await press('Enter', 13);
  await until('the steps', () => !document.querySelector('#chats-seen').hidden);
  await page(() => document.querySelector('#chats-step').focus());
  await press('End', 35);
  await until('the last step', () => document.querySelector('#chats-step').value === document.querySelector('#chats-step').max);
  const pages = await page(() => [...document.querySelectorAll('#chats-pages section')].map((chat) => [...chat.querySelectorAll('li')].map((li) => [li.querySelector('b').textContent, li.classList.contains('both')])));
  const shared = (list) => list.filter(([, both]) => both).map(([name]) => name).join();
  check(pages.length === 2 && shared(pages[0]) !== '' && shared(pages[0]) === shared(pages[1]), `two chats share the pages ${shared(pages[0])}`);
  check(pages.every((list) => list.some(([, both]) => !both)), 'and each has pages of its own');
  const before = (await texts('#chats-words'))[0];
  await press('Home', 36);
  await until('the first step', () => document.querySelector('#chats-step').value === '1');
  check((await texts('#chats-batch i.prompted')).length > 0 && (await texts('#chats-words'))[0] !== before, 'the first step has the prompt in its batch; the slider moves by keyboard');
  await press('End', 35);
}

/** Two sizes and two themes. */
async function looks() {
  for (const [kind, width, colours] of [['light', 1200, 'light'], ['dark', 1200, 'dark'], ['phone', 390, 'light'], ['phone-dark', 390, 'dark']]) {
    await size(width, 900);
    await scheme(colours);
    for (const id of ['lesson-run', 'lesson-samplers', 'lesson-formats', 'chats-seen']) {
      await page((name) => document.querySelector(`#${name}`).scrollIntoView(), id);
      const beyond = await page(() => document.documentElement.scrollWidth - innerWidth);
      if (beyond > 0) throw new Error(`the lessons are ${beyond} pixels too wide at ${width}`);
      await shot(`${id}-${kind}`);
    }
  }
  await size(1200, 800);
  await scheme('light');
  check(true, 'the lessons fit the screen, also on a phone, in light and dark');
}
