// What the page makes of a model's text: Markdown, code, formulas, directions.

import { check, click, page, size, sleep } from './browser.mjs';

/** Markdown that tries to be more than text. */
export async function markdown() {
  const found = await page(async () => {
    const { show } = await import('/markdown.js');
    const box = document.createElement('div');
    show(box, '# T\n\n**b** _i_ `c` <img src=x onerror=alert(1)>\n\n[x](javascript:alert(1)) [y](https://example.org)\n\n- a\n  - b\n\n```js\n1 < 2\n```\n\n|l|c|r|\n|:-|:-:|-:|\n|1|`a|b`|x \\| y|\n\n> q\n\nمرحبا Rust\n');
    const start = performance.now();
    show(document.createElement('div'), `${'*['.repeat(20000)}${'`'.repeat(20000)}${'> '.repeat(2000)}${'$a '.repeat(9000)}${'\\('.repeat(9000)}\n\n${'|a'.repeat(3000)}|\n${'|-'.repeat(3000)}|\n${'|b'.repeat(3000)}|`);
    const time = performance.now() - start;
    return {
      time,
      tags: [...box.querySelectorAll('*')].map((e) => e.tagName),
      links: [...box.querySelectorAll('a')].map((a) => a.href),
      cells: [...box.querySelectorAll('td')].map((e) => [e.className, e.textContent]),
      undirected: [...box.querySelectorAll('p, h3, li, blockquote, td')].filter((e) => e.dir !== 'auto').length,
    };
  });
  for (const tag of ['H3', 'STRONG', 'EM', 'CODE', 'UL', 'PRE', 'TABLE', 'BLOCKQUOTE']) {
    if (!found.tags.includes(tag)) throw new Error(`markdown has no ${tag}`);
  }
  check(!found.tags.includes('IMG') && found.links.length === 1 && found.links[0] === 'https://example.org/', 'markdown is shown, and stays harmless');
  check(JSON.stringify(found.cells) === '[["to-left","1"],["to-center","a|b"],["to-right","x | y"]]', 'columns are aligned, and bars may be escaped');
  check(found.undirected === 0, 'every block finds its own direction');
  check(found.time < 3000, `text made to be slow takes ${Math.round(found.time)} ms`);
}

export async function code() {
  const found = await page(async () => {
    const { highlight } = await import('/highlight.js');
    const one = (text, language) => {
      const nodes = highlight(text, language);
      const spelt = nodes.map((node) => node.textContent ?? node).join('');
      return { whole: spelt === text, marked: nodes.filter((node) => node.className).map((node) => `${node.className.slice(3)} ${node.textContent}`) };
    };
    const slow = ['"', "'", '/*', '<!--', '\\', '${', '0x', '-', 'a', '&'].map((part) => part.repeat(10000 / part.length));
    const start = performance.now();
    for (const language of ['rust', 'python', 'js', 'html', 'css', 'php', 'sql', 'bash']) for (const text of slow) if (!one(text, language).whole) throw new Error(`${language} changes ${text.slice(0, 4)}`);
    return {
      time: performance.now() - start,
      rust: one('fn f<\'a>(x: &\'a str) -> u8 { /* c */ g!("s\\"", 0x1f) } // <b>', 'rs'),
      python: one('def f(x):\n    """d\n"""\n    return x + 1 # c', 'python'),
      json: one('{"a": [true, "b"]}', 'json'),
      unknown: one('a < b', 'no such language'),
      inherited: one('a', 'constructor'),
    };
  });
  const has = ({ whole, marked }, ...wanted) => whole && wanted.every((one) => marked.includes(one));
  check(has(found.rust, 'k fn', "t 'a", 't str', 'c /* c */', 'f g!', 's "s\\""', 'n 0x1f', 'c // <b>'), 'Rust is highlighted');
  check(has(found.python, 'k def', 'f f', 's """d\n"""', 'n 1', 'c # c') && has(found.json, 'p "a"', 'k true', 's "b"'), 'so are Python and JSON');
  check(found.unknown.whole && found.unknown.marked.length === 0 && found.inherited.whole, 'languages that are not known stay plain');
  check(found.time < 8000, `code made to be slow takes ${Math.round(found.time)} ms`);
}

export async function formulas() {
  const found = await page(async () => {
    const { show } = await import('/markdown.js');
    const draw = (text) => {
      const box = document.createElement('div');
      show(box, text);
      return box;
    };
    const tags = (text) => [...draw(text).querySelectorAll('math *')].map((e) => e.tagName);
    const plain = ['It costs $5 and $6.', '$x', 'a $ b $ c', '`$x$`', 'US$3 to 4$'].filter((text) => draw(text).querySelector('math'));
    const known = [
      '\\frac{a}{b}', '\\sqrt[3]{x^2_1}', '\\sum_{i=0}^n i', '\\left(\\frac12\\right]', '\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}', '\\begin{cases}a&b\\\\c&d\\end{cases}',
      '\\mathbb{R}^n \\to \\mathcal{L}', '\\text{if } x \\ge 0', '\\hat{y}, \\vec v, \\overline{AB}', "f''(x)", '\\lim_{x\\to0}\\frac{\\sin x}{x}', '\\begin{aligned}a&=b\\\\&=c\\end{aligned}', '\\binom nk', '\\int_0^\\infty e^{-x}\\,dx', '\\operatorname{arg\\,max}_\\theta', '\\big( x \\big)', 'a \\not= b', 'x \\pmod{n}',
    ].filter((tex) => !draw(`\\(${tex}\\)`).querySelector('math'));
    const odd = ['\\nosuch', '\\frac{a', '{', '\\left( x', '\\begin{x}', '\\begin{pmatrix}1', '{'.repeat(5000), '\\frac'.repeat(3000), 'x_'.repeat(3000), '\\href{javascript:alert(1)}{x}'];
    const shown = odd.map((tex) => draw(`\\(${tex}\\)`).textContent);
    const start = performance.now();
    draw(`$$${'\\frac{1}{'.repeat(500)}$$ ${'$x_{'.repeat(3000)}`);
    return {
      plain,
      known,
      raw: shown.filter((text, at) => text !== `\\(${odd[at]}\\)`),
      inline: tags('the $x^2$ here'),
      block: draw('$$\n\\frac{1}{2}\n$$').querySelector('math').getAttribute('display'),
      source: draw('\\[ a_1 \\]').querySelector('math').getAttribute('data-source'),
      time: performance.now() - start,
    };
  });
  check(found.plain.length === 0, 'money is no formula');
  check(found.known.length === 0 && found.inline.includes('msup') && found.block === 'block', `formulas become MathML ${found.known}`);
  check(found.raw.length === 0, `what is none is shown as it was written ${found.raw.map((text) => text.slice(0, 30))}`);
  check(found.source === '\\[ a_1 \\]' && found.time < 2000, 'and keeps its source');
}

/** What is copied is what was written; words stay whole on a phone. */
export async function copies() {
  const written = '**bold** and $x^2$\n\n```py\nif a:\n\tb()  \n```\n\n| Parameterisierung | Zusammenhang |\n|---|---|\n| Geschwindigkeitsbegrenzung | Wahrscheinlichkeit |\n';
  await page(async (content) => {
    const store = await import('/conversations.js');
    store.begin();
    const asked = store.append(null, { role: 'user', content: 'x' });
    store.append(asked.id, { role: 'assistant', content });
    store.save();
    (await import('/chat.js')).redraw();
    window.copied = [];
    navigator.clipboard.writeText = async (text) => { window.copied.push(text); };
  }, written);
  await click('article.assistant [data-act=copy]');
  await click('.code figcaption button');
  const copied = await page(() => window.copied);
  check(copied[0] === written && copied[1] === 'if a:\n\tb()  ', 'an answer and its code are copied to the letter');
  const selected = await page(() => {
    const range = document.createRange();
    range.selectNodeContents(document.querySelector('article.assistant .text p'));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    const data = new DataTransfer();
    document.querySelector('article.assistant .text p').dispatchEvent(new ClipboardEvent('copy', { clipboardData: data, bubbles: true, cancelable: true }));
    getSelection().removeAllRanges();
    return data.getData('text/plain');
  });
  check(selected.trim() === 'bold and $x^2$', 'a selection has its formulas as they were written');
  await size(320, 640);
  await sleep(100);
  const split = await page(() => [...document.querySelectorAll('article.assistant td, article.assistant th')].filter((cell) => cell.getClientRects()[0].height > 60).length);
  const beyond = await page(() => document.documentElement.scrollWidth - innerWidth);
  check(split === 0 && beyond <= 0, 'a narrow phone splits no words, and scrolls the table instead');
  await size(1200, 800);
}
