// The other views: models, live and look inside; how all of them look, and in which languages they speak.

import { ask, check, click, page, press, scheme, shot, size, sleep, texts, type, until } from './browser.mjs';

/** A model is pulled, looked at, loaded, used, unloaded and removed. */
export async function models(name) {
  await click('#tab-models');
  const card = (act) => `[data-model="${name}"] [data-act=${act}]`;
  await type('#pull-name', `${name.split('/')[0]}/library/nosuch`);
  await click('#pull button');
  await until('the failure', () => document.querySelector('.pull .error'));
  check((await texts('.pull .error'))[0].length > 0, `a pull that fails says why: ${(await texts('.pull .error'))[0]}`);
  await click('.pull [data-act=dismiss]');
  await type('#pull-name', name);
  await page(() => {
    window.seen = [];
    new MutationObserver(() => { const bar = document.querySelector('.pull progress'); if (bar) window.seen.push(bar.value); }).observe(document.querySelector('#pulls'), { childList: true, subtree: true });
  });
  await click('#pull button');
  await until('the model', (s) => document.querySelector(s), card('use'));
  const seen = await page(() => window.seen.filter((value) => value > 0));
  check(seen.length > 0 && seen.every((value, at) => at === 0 || value >= seen[at - 1]), `it is pulled, with ${seen.length} steps of progress`);
  check(await until('the menu', (wanted) => [...document.querySelectorAll('#model option')].some(({ value }) => value === wanted), name), 'it is in the menu');
  await click(card('details'));
  const facts = await until('the details', () => document.querySelector('.model-card dl')?.textContent);
  check(/llama/.test(facts) && /Layers/.test(facts) && (await texts('.sheet summary')).includes('Chat template'), 'its details are shown');
  await click(card('load'));
  await until('the model in memory', (s) => document.querySelector(s), card('unload'));
  check(/of .*GB.? in use/.test((await texts('#memory-words'))[0]), `memory is shown: ${(await texts('#memory-words'))[0].replace(/[\u2066\u2069]/g, '')}`);
  await shot('models');
  await click(card('unload'));
  await until('the model gone', (s) => document.querySelector(s), card('load'));
  await click(card('use'));
  check(await page(() => document.querySelector('#model').value) === name, 'it is chosen for the chat');
  await click('#tab-models');
  await until('the list', (s) => document.querySelector(s), card('remove'));
  await click(card('remove'));
  await until('the removal', (s) => !document.querySelector(s), card('use'));
  check(await until('the menu', (gone) => ![...document.querySelectorAll('#model option')].some(({ value }) => value === gone), name), 'it is removed after a question');
}

export async function live() {
  await click('#tab-live');
  const cards = await until('numbers', () => {
    const found = [...document.querySelectorAll('#cards .card')].map((card) => card.textContent);
    // Two looks are needed for a rate.
    return found.length > 0 && /^[\d.,]+Generated/.test(found[4]) && found;
  });
  check(!cards[0].startsWith('–'), `the live view has numbers: ${cards.join(', ')}`);
  const painted = await page(() => {
    const canvas = document.querySelector('#pages canvas');
    return canvas && [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data].some((value) => value > 0);
  });
  check(painted, 'the pages are painted');
  await shot('live');
}

export async function inside() {
  await click('#tab-inside');
  const prompt = 'Once upon a time, there was';
  await type('#prompt', prompt);
  const pieces = await until('the pieces', (whole) => {
    const found = [...document.querySelectorAll('#prompt-pieces .piece')].map((e) => e.textContent);
    return found.join('').replaceAll('·', ' ').includes(whole) && found;
  }, prompt);
  check(pieces.length > 3, `the prompt is shown as ${pieces.length} pieces`);
  await type('#inside-count', '12');
  await click('#continue');
  await until('the continuation', () => document.querySelector('#inside-status').textContent.startsWith('Branch 1.'));
  const tokens = await texts('#tokens .piece:not(.given)');
  check(tokens.length > 0, `${tokens.length} tokens follow it`);
  await page(() => document.querySelectorAll('#tokens .piece:not(.given)')[0].focus());
  await press('ArrowRight', 39);
  await press('Enter', 13);
  const offered = await texts('#alternatives li');
  check(offered.length >= 10, `${offered.length} alternatives are offered by the keyboard`);
  const chosen = await page(() => document.activeElement.querySelector('.piece').textContent);
  await press('Enter', 13);
  await until('the branch', () => document.querySelector('#inside-status').textContent.startsWith('Branch 2.'));
  const branched = await texts('#tokens .piece:not(.given)');
  check(branched[0] === tokens[0] && branched[1] === chosen && chosen !== tokens[1], 'a branch keeps what is before it and begins with the alternative');
  check((await texts('#tree li')).length === 2, 'both branches are in the tree');
  await shot('inside');
  await click('#tree button');
  check((await texts('#tokens .piece:not(.given)')).join() === tokens.join(), 'the first branch is as it was');
}

const choose = (language) => page((value) => {
  const field = document.querySelector('#language');
  field.value = value;
  field.dispatchEvent(new Event('change'));
}, language);

export async function languages() {
  const followed = await page(async () => {
    const { resolve } = await import('/words.js');
    return [['de-AT', 'en'], ['pt-BR', 'fr-CA'], ['zh-Hant-TW'], ['xx'], []].map((preferred) => resolve('auto', preferred)).concat(resolve('ja', ['de']));
  });
  check(followed.join() === 'de,fr,zh,en,en,ja', 'the language follows the browser, or the setting');
  for (const [code, send] of [['es', 'Enviar'], ['de', 'Senden'], ['fr', 'Envoyer'], ['zh', '发送'], ['ja', '送信'], ['ar', 'إرسال']]) {
    await choose(code);
    await until(code, (word) => document.querySelector('#send').textContent === word, send);
    const odd = await page(async (language) => {
      const { default: words } = await import(`/words/${language}.js`);
      return [...document.querySelectorAll('[data-t], [data-t-label], [data-t-placeholder], [data-t-title]')].filter((e) => {
        const { t, tLabel, tPlaceholder, tTitle } = e.dataset;
        return [[t, e.textContent], [tLabel, e.getAttribute('aria-label')], [tPlaceholder, e.placeholder], [tTitle, e.title]].some(([key, text]) => key && (!text || text !== words[key]));
      }).map((e) => e.outerHTML);
    }, code);
    if (odd.length) throw new Error(`${code} has no words for ${odd}`);
  }
  check(await page(() => document.documentElement.dir === 'rtl' && document.documentElement.lang === 'ar'), 'seven languages, and Arabic from right to left');
  await click('#tab-chat');
  const [panel, talk] = await page(() => ['#panel', '.talk'].map((s) => document.querySelector(s).getBoundingClientRect().left));
  check(panel > talk, 'with the panel on the right');
  await looks('arabic', [['', 1200, 'light'], ['-phone', 390, 'dark']]);
  await choose('auto');
  await until('English', () => document.querySelector('#send').textContent === 'Send');
}

export async function looks(name = '', kinds = [['light', 1200, 'light'], ['dark', 1200, 'dark'], ['phone', 390, 'light'], ['phone-dark', 390, 'dark'], ['narrow', 320, 'light']]) {
  for (const [kind, width, colours] of kinds) {
    await size(width, 800);
    await scheme(colours);
    for (const view of ['chat', 'models', 'live', 'inside']) {
      await click(`#tab-${view}`);
      await sleep(150);
      const beyond = await page(() => document.documentElement.scrollWidth - innerWidth);
      if (beyond > 0) throw new Error(`${view} is ${beyond} pixels too wide at ${width}`);
      await shot(`${view}-${name}${kind}`);
    }
  }
  await size(1200, 800);
  await scheme('light');
  check(true, 'nothing is wider than the screen, also on a phone');
}

/** What can be pressed has a name; fields have labels; a dialog holds the focus. */
export async function access() {
  await click('#tab-chat');
  const nameless = await page(() => {
    const named = (e) => (e.textContent.trim() || e.getAttribute('aria-label') || e.title || e.labels?.[0]?.textContent.trim());
    return [...document.querySelectorAll('button, input:not([hidden]), textarea, select, canvas, progress, [role=tab]')].filter((e) => !named(e)).map((e) => e.outerHTML);
  });
  check(nameless.length === 0, `everything has a name ${nameless}`);
  await page(() => document.querySelector('#tab-chat').focus());
  await press('ArrowRight', 39);
  await until('the next view', () => document.querySelector('#tab-models[aria-selected=true]') === document.activeElement);
  await page(() => document.querySelector('#settings-button').focus());
  await press('Enter', 13);
  check(await page(() => document.querySelector('#settings').open && document.querySelector('#settings').contains(document.activeElement)), 'tabs and the settings open by keyboard');
  await shot('settings');
  await press('Escape', 27);
  check(await page(() => !document.querySelector('#settings').open && document.activeElement.id === 'settings-button'), 'and Escape goes back to where one was');
  const outline = await page(() => { document.querySelector('#tab-models').focus(); return getComputedStyle(document.activeElement).outlineStyle; });
  check(outline !== 'none', 'the focus is visible');
  await ask('Page.bringToFront');
}
