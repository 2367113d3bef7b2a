// LaTeX's mathematics as MathML: the part of it that models write. What cannot be read is shown as it was written.

import { h, mathml as m } from './dom.js';
import { ACCENTS, FUNCTIONS, LARGE, LETTERS, LIMITS, OPERATORS, SPACES, isAlphabet, styled } from './math_symbols.js';

const DEPTH = 40;
const LONGEST = 10_000;

class NotMath extends Error {}

const row = (nodes) => (nodes.length === 1 ? nodes[0] : m('mrow', {}, ...nodes));

/** A formula as an element, or its source as code. `source` has the delimiters, for copying. */
export function formula(tex, display, source) {
  try {
    if (tex.length > LONGEST) throw new NotMath();
    const parser = new Parser(tex, display);
    const nodes = parser.expression();
    if (parser.at < tex.length) throw new NotMath();
    const math = m('math', { display: display ? 'block' : 'inline', 'data-source': source }, row(nodes));
    return display ? h('span', { class: 'scroll formula' }, math) : math;
  } catch (error) {
    if (!(error instanceof NotMath)) throw error;
    return h('code', { class: 'formula' }, source);
  }
}

class Parser {
  constructor(tex, display) {
    this.tex = tex;
    this.at = 0;
    this.depth = 0;
    this.display = display;
    this.alphabet = null;
  }

  space() {
    while (/\s/.test(this.tex[this.at] ?? '')) this.at += 1;
  }

  /** The name of the command here, with its backslash; '' if there is none. */
  command() {
    return /^\\(?:[A-Za-z]+\*?|[^])/.exec(this.tex.slice(this.at, this.at + 40))?.[0] ?? '';
  }

  take(text) {
    this.space();
    if (!this.tex.startsWith(text, this.at)) return false;
    this.at += text.length;
    return true;
  }

  /** Nodes up to one of some ends, which is not taken; `\over` splits what it stands in. */
  expression(...ends) {
    if ((this.depth += 1) > DEPTH) throw new NotMath();
    const nodes = [];
    for (;;) {
      this.space();
      if (this.at >= this.tex.length) break;
      const command = this.command();
      if (ends.includes(command || this.tex[this.at]) || (!command && this.tex[this.at] === '}')) break;
      if (command === '\\right' || command === '\\end') break;
      const atom = this.atom();
      const thin = () => m('mspace', { width: '.167em' });
      // A function stands a little apart from what is before and after it, unless that is a parenthesis.
      if (atom.name && /^(mi|mn|msub|msup|msubsup)$/.test(nodes.at(-1)?.tagName)) nodes.push(thin());
      nodes.push(this.scripts(atom));
      if (atom.name && /^\s*(\w|\\[a-km-z])/.test(this.tex.slice(this.at, this.at + 20))) nodes.push(thin());
    }
    this.depth -= 1;
    return nodes;
  }

  /** A group in braces, or a single atom. */
  argument() {
    this.space();
    if (this.take('{')) {
      const nodes = this.expression();
      if (!this.take('}')) throw new NotMath();
      return row(nodes);
    }
    if (this.at >= this.tex.length) throw new NotMath();
    // Of several digits one is the argument: \frac12.
    if (/\d/.test(this.tex[this.at])) {
      this.at += 1;
      return m('mn', {}, this.tex[this.at - 1]);
    }
    return this.atom().node;
  }

  /** The text in braces, as it is. */
  raw() {
    if (!this.take('{')) throw new NotMath();
    const from = this.at;
    for (let open = 1; this.at < this.tex.length; this.at += 1) {
      if (this.tex[this.at] === '{') open += 1;
      if (this.tex[this.at] === '}' && (open -= 1) === 0) {
        this.at += 1;
        return this.tex.slice(from, this.at - 1);
      }
    }
    throw new NotMath();
  }

  /** Puts subscripts, superscripts and primes on a node. */
  scripts({ node, limits }) {
    let [below, above] = [null, null];
    for (;;) {
      this.space();
      const c = this.tex[this.at];
      if (c === '_' && !below) {
        this.at += 1;
        below = this.argument();
      } else if (c === '^' && !above) {
        this.at += 1;
        above = this.argument();
      } else if (c === "'") {
        let primes = '';
        while (this.tex[this.at] === "'") {
          primes += '′';
          this.at += 1;
        }
        above = above ? m('mrow', {}, m('mo', {}, primes), above) : m('mo', {}, primes);
      } else if (this.command() === '\\limits' || this.command() === '\\nolimits') {
        limits = this.command() === '\\limits';
        this.at += this.command().length;
      } else break;
    }
    if (!below && !above) return node;
    const tags = limits && (this.display || limits === true) ? ['munder', 'mover', 'munderover'] : ['msub', 'msup', 'msubsup'];
    if (below && above) return m(tags[2], {}, node, below, above);
    return below ? m(tags[0], {}, node, below) : m(tags[1], {}, node, above);
  }

  /** The next atom: {node, limits, name}; a function has a name. */
  atom() {
    this.space();
    const c = this.tex[this.at];
    const command = this.command();
    if (command) {
      this.at += command.length;
      return this.perform(command.slice(1).replace(/(?<=.)\*$/, ''));
    }
    if (c === '{') return { node: this.argument() };
    if (c === '^' || c === '_') return { node: m('mrow') };
    if (c === '&' || c === '#' || c === '$') throw new NotMath();
    const number = /^(?:\d+(?:[.,]\d+)*|\.\d+)/.exec(this.tex.slice(this.at, this.at + 400))?.[0];
    if (number) {
      this.at += number.length;
      return { node: m('mn', {}, this.alphabet ? [...number].map((digit) => styled(digit, this.alphabet)).join('') : number) };
    }
    const whole = String.fromCodePoint(this.tex.codePointAt(this.at));
    this.at += whole.length;
    if (/\p{L}/u.test(whole)) return { node: this.identifier(whole) };
    if (whole === '~') return { node: m('mspace', { width: '.25em' }) };
    const shown = { '-': '−', '*': '∗', '/': '/' }[whole] ?? whole;
    // A bar or a parenthesis keeps its size unless \left asks for more.
    return { node: m('mo', /[()[\]|]/.test(shown) ? { stretchy: 'false' } : {}, shown) };
  }

  identifier(letter) {
    if (this.alphabet === 'upright') return m('mi', { mathvariant: 'normal' }, letter);
    return m('mi', {}, this.alphabet ? styled(letter, this.alphabet) : letter);
  }

  perform(name) {
    if (Object.hasOwn(LETTERS, name)) {
      const letter = LETTERS[name];
      return { node: m('mi', /^[Α-Ω∞…⋯]/u.test(letter) ? { mathvariant: 'normal' } : {}, letter) };
    }
    if (Object.hasOwn(LARGE, name)) return { node: m('mo', { largeop: 'true', movablelimits: 'false' }, LARGE[name]), limits: name.includes('int') ? false : this.display && 'display' };
    if (Object.hasOwn(OPERATORS, name)) return { node: m('mo', /^[|‖[({})\]⟨⟩⌊⌋⌈⌉]$/u.test(OPERATORS[name]) ? { stretchy: 'false' } : {}, OPERATORS[name]) };
    if (FUNCTIONS.has(name)) return { node: m('mi', {}, name.replace(/^(lim)(sup|inf)$/, '$1 $2').replace(/^(arg)(max|min)$/, '$1 $2')), limits: LIMITS.has(name) && this.display && 'display', name };
    if (Object.hasOwn(SPACES, name)) return { node: m('mspace', { width: `${SPACES[name]}em` }) };
    if (Object.hasOwn(ACCENTS, name)) return this.accent(name);
    if (isAlphabet(name)) return this.within(name);
    const make = COMMANDS[name];
    if (!make) throw new NotMath();
    return make.call(this, name);
  }

  accent(name) {
    const base = this.argument();
    const sign = m('mo', { stretchy: String(/^(wide|over|under)/.test(name)) }, ACCENTS[name]);
    const under = name.startsWith('under');
    const node = under ? m('munder', { accentunder: 'true' }, base, sign) : m('mover', { accent: 'true' }, base, sign);
    return { node, limits: name.endsWith('brace') };
  }

  /** An argument in another alphabet. */
  within(alphabet) {
    const before = this.alphabet;
    this.alphabet = alphabet;
    const node = this.argument();
    this.alphabet = before;
    return { node };
  }

  delimiter() {
    this.space();
    const command = this.command();
    const sign = command || this.tex[this.at];
    if (!sign) throw new NotMath();
    this.at += sign.length;
    if (sign === '.') return '';
    if (!command) return sign;
    const name = command.slice(1);
    return { '{': '{', '}': '}', '|': '‖' }[name] ?? OPERATORS[name] ?? (() => { throw new NotMath(); })();
  }

  fence(open, close, node) {
    const sign = (text, form) => (text ? [m('mo', { fence: 'true', stretchy: 'true', form }, text)] : []);
    return m('mrow', {}, ...sign(open, 'prefix'), node, ...sign(close, 'postfix'));
  }

  environment() {
    const name = this.raw().replace('*', '');
    const pair = { matrix: ['', ''], smallmatrix: ['', ''], pmatrix: ['(', ')'], bmatrix: ['[', ']'], Bmatrix: ['{', '}'], vmatrix: ['|', '|'], Vmatrix: ['‖', '‖'], cases: ['{', ''], array: ['', ''] }[name];
    const lined = ['aligned', 'align', 'split', 'gathered', 'gather', 'eqnarray', 'equation'].includes(name);
    if (!pair && !lined) throw new NotMath();
    if (name === 'array') this.raw();
    const rows = [[]];
    for (;;) {
      rows.at(-1).push(row(this.expression('&', '\\\\')));
      if (this.take('\\\\')) {
        if (this.take('[')) this.expression(']'), this.take(']');
        rows.push([]);
      } else if (!this.take('&')) break;
    }
    if (!this.take('\\end') || this.raw().replace('*', '') !== name) throw new NotMath();
    const last = rows.at(-1);
    if (rows.length > 1 && last.length === 1 && last[0].tagName === 'mrow' && last[0].childNodes.length === 0) rows.pop();
    // Columns of aligned equations turn at their relation signs.
    const side = (column) => (lined && name !== 'gathered' && name !== 'gather' ? (column % 2 ? 'left' : 'right') : name === 'cases' ? 'left' : undefined);
    const cells = rows.map((cellsOf) => m('mtr', {}, ...cellsOf.map((cell, column) => m('mtd', { class: side(column) && `math-${side(column)}` }, cell))));
    const table = m('mtable', { displaystyle: lined ? 'true' : undefined }, ...cells);
    return { node: pair ? this.fence(...pair, table) : table };
  }
}

function fraction(name) {
  const parts = [this.argument(), this.argument()];
  if (name === 'binom') return { node: this.fence('(', ')', m('mfrac', { linethickness: '0' }, ...parts)) };
  const node = m('mfrac', {}, ...parts);
  return { node: name === 'dfrac' || name === 'cfrac' ? m('mstyle', { displaystyle: 'true' }, node) : node };
}

function stacked(name) {
  const small = this.argument();
  return { node: m(name === 'underset' ? 'munder' : 'mover', {}, this.argument(), small) };
}

function words() {
  // Spaces count inside \text.
  return { node: m('mtext', {}, this.raw().replace(/\$|\\(?=[#$%&_{}])/g, '').replace(/^ | $/g, '\u00a0')) };
}

const literal = (text) => () => ({ node: m('mo', { stretchy: 'false' }, text) });
const nothing = () => ({ node: m('mrow') });

const COMMANDS = {
  frac: fraction, dfrac: fraction, tfrac: fraction, cfrac: fraction, binom: fraction,
  text: words, textrm: words, textbf: words, textit: words, mbox: words, texttt: words,
  begin() { return this.environment(); },
  mathrm() { return this.within('upright'); },
  mathit() { return this.within(null); },
  operatorname() { return { node: m('mi', { mathvariant: 'normal' }, this.raw().replace(/\\[,; ]/g, ' ')) }; },
  sqrt() {
    if (!this.take('[')) return { node: m('msqrt', {}, this.argument()) };
    const index = row(this.expression(']'));
    if (!this.take(']')) throw new NotMath();
    return { node: m('mroot', {}, this.argument(), index) };
  },
  left() {
    const open = this.delimiter();
    const inner = row(this.expression());
    if (!this.take('\\right')) throw new NotMath();
    return { node: this.fence(open, this.delimiter(), inner) };
  },
  middle() { return { node: m('mo', { stretchy: 'true' }, this.delimiter()) }; },
  not() { return { node: m('mo', {}, `${this.argument().textContent}\u0338`) }; },
  overset: stacked, underset: stacked, stackrel: stacked,
  xrightarrow() { return { node: m('mover', {}, m('mo', { stretchy: 'true' }, '→'), this.argument()) }; },
  boxed() { return { node: m('mrow', { class: 'boxed' }, this.argument()) }; },
  pmod() { return { node: this.fence('(', ')', m('mrow', {}, m('mi', {}, 'mod'), m('mspace', { width: '.3em' }), this.argument())) }; },
  bmod() { return { node: m('mo', {}, 'mod') }; },
  tag() { return { node: m('mrow', {}, m('mspace', { width: '2em' }), m('mtext', {}, `(${this.raw()})`)) }; },
  displaystyle: nothing, textstyle: nothing, scriptstyle: nothing, nonumber: nothing, notag: nothing, hline: nothing,
  label() { return nothing(this.raw()); },
  '{': literal('{'), '}': literal('}'), '|': literal('‖'), '%': literal('%'), '#': literal('#'), '&': literal('&'), $: literal('$'), _: literal('_'),
};
for (const [size, height] of [['big', 1.2], ['Big', 1.8], ['bigg', 2.4], ['Bigg', 3]]) {
  const sized = function sized() {
    return { node: m('mo', { minsize: `${height}em`, maxsize: `${height}em`, stretchy: 'true' }, this.delimiter()) };
  };
  for (const side of ['', 'l', 'r', 'm']) COMMANDS[size + side] = sized;
}
