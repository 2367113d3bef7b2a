// The book as `strata learn` serves it: every page, on a screen and on a phone, in light and dark, by links and by keyboard.

import { ask, check, origins, page, press, scheme, shot, size, until } from './browser.mjs';

async function visit(address) {
  await ask('Page.navigate', { url: address });
  await until(address, (wanted) => document.readyState === 'complete' && location.href === wanted && document.querySelector('main h1, main ul') !== null, address);
}

export async function book(address) {
  const { origin } = new URL(address);
  origins.add(origin);
  await size(390, 800);
  await scheme('light');
  await visit(`${origin}/contents.html`);
  const pages = await page(() => [...document.querySelectorAll('main a')].map((link) => link.href));
  check(pages.length >= 27, `the book has ${pages.length} pages`);
  for (const [index, url] of pages.entries()) {
    await visit(url);
    const found = await page(() => {
      const svg = document.querySelector('main svg');
      return { beyond: document.documentElement.scrollWidth - innerWidth, title: document.querySelector('h1')?.textContent, drawn: !svg || svg.getBoundingClientRect().width > 200 };
    });
    if (found.beyond > 0 || !found.title || !found.drawn) throw new Error(`${url}: ${JSON.stringify(found)}`);
    if (index === 12) {
      for (const [kind, width, colours] of [['phone', 390, 'light'], ['phone-dark', 390, 'dark'], ['light', 1200, 'light'], ['dark', 1200, 'dark']]) {
        await size(width, 800);
        await scheme(colours);
        await shot(`book-${kind}`);
      }
      const [ink, ground] = await page(() => [getComputedStyle(document.querySelector('main svg')).color, getComputedStyle(document.body).backgroundColor]);
      check(ink !== ground, `pictures take the colour of the page: ${ink} on ${ground}`);
      await size(390, 800);
      await scheme('light');
    }
  }
  check(true, 'every page fits a phone and has its picture');
  await size(1200, 800);
  await visit(`${origin}/`);
  await page(() => document.querySelector('a[rel=next]').focus());
  await press('Enter', 13);
  await until('the next chapter', () => location.pathname === '/numbers/bytes.html');
  check(await page(() => document.querySelector('.side a[aria-current=page]')?.textContent === 'Bytes and numbers'), 'chapters are turned by keyboard, and the contents show where one is');
}
