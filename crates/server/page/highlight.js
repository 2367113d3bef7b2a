// Code highlighting: one small scanner, and a table of what languages call their keywords and comments.

import { h } from './dom.js';

/** Longer code is shown plain, so that streaming stays fast. */
const LONGEST = 50_000;

const C_WORDS = 'break case const continue default do else enum extern for goto if inline register return sizeof static struct switch typedef union volatile while';
const C_TYPES = 'auto bool char double float int long short signed size_t unsigned void int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t';
const JS_WORDS = 'as async await break case catch class const continue debugger default delete do else export extends false finally for from function get if import in instanceof let new null of return set static super switch this throw true try typeof undefined var void while with yield';

/** Languages by name. `comment` is what begins a line comment, `block` a pair around a longer one. */
const LANGUAGES = {
  bash: { comment: '#', words: 'alias break case cd continue do done echo elif else esac eval exec exit export fi for function if in local read readonly return set shift source test then trap unset until while', variables: true },
  c: { comment: '//', block: ['/*', '*/'], words: C_WORDS, types: C_TYPES, directive: true },
  cpp: { comment: '//', block: ['/*', '*/'], words: `${C_WORDS} alignas alignof and catch class concept consteval constexpr co_await co_return co_yield decltype delete explicit export false final friend mutable namespace new noexcept not nullptr operator or override private protected public requires static_assert static_cast template this throw true try typeid typename using virtual`, types: `${C_TYPES} string vector`, directive: true },
  csharp: { comment: '//', block: ['/*', '*/'], words: 'abstract as async await base break case catch checked class const continue default delegate do else enum event explicit extern false finally fixed for foreach get if implicit in init interface internal is lock namespace new null operator out override params partial private protected public readonly record ref return sealed set sizeof static struct switch this throw true try typeof unchecked unsafe using var virtual void volatile when where while yield', types: 'bool byte char decimal double float int long object sbyte short string uint ulong ushort' },
  css: { block: ['/*', '*/'], words: 'important media supports keyframes import font-face layer container', types: 'auto none inherit initial unset flex grid block inline absolute relative fixed sticky', property: true },
  diff: { lines: true },
  go: { comment: '//', block: ['/*', '*/'], words: 'break case chan const continue default defer else fallthrough false for func go goto if import interface iota map nil package range return select struct switch true type var', types: 'any bool byte complex128 error float32 float64 int int8 int16 int32 int64 rune string uint uint8 uint16 uint32 uint64 uintptr', quotes: '"\'`' },
  haskell: { comment: '--', block: ['{-', '-}'], words: 'case class data deriving do else forall if import in infix infixl infixr instance let module newtype of qualified then type where' },
  html: { markup: true },
  ini: { comment: '#', comment2: ';', property: true, words: 'true false yes no on off' },
  java: { comment: '//', block: ['/*', '*/'], words: 'abstract assert break case catch class const continue default do else enum extends false final finally for goto if implements import instanceof interface native new null package permits private protected public record return sealed static strictfp super switch synchronized this throw throws transient true try var void volatile while yield', types: 'boolean byte char double float int long short String Integer Object' },
  javascript: { comment: '//', block: ['/*', '*/'], words: JS_WORDS, quotes: '"\'`', types: 'Array Boolean Date Error JSON Map Math Number Object Promise RegExp Set String Symbol' },
  json: { comment: '//', words: 'true false null', property: true },
  kotlin: { comment: '//', block: ['/*', '*/'], words: 'abstract as break by catch class companion const continue data do else enum false final finally for fun if import in init inline interface internal is lateinit null object open operator override package private protected public return sealed super suspend this throw true try typealias val var when where while', types: 'Any Boolean Byte Char Double Float Int List Long Map Short String Unit' },
  lua: { comment: '--', block: ['--[[', ']]'], words: 'and break do else elseif end false for function goto if in local nil not or repeat return then true until while' },
  makefile: { comment: '#', words: 'define else endef endif export ifdef ifeq ifndef ifneq include override', variables: true },
  php: { comment: '//', comment2: '#', block: ['/*', '*/'], words: 'abstract and array as break callable case catch class clone const continue declare default do echo else elseif enum extends false final finally fn for foreach function global if implements include instanceof interface isset match namespace new null or print private protected public readonly require return static switch throw trait true try unset use var while yield', variables: true },
  python: { comment: '#', block: ['"""', '"""', 's'], words: 'False None True and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield', types: 'bool bytes dict float int list object set str tuple self cls' },
  ruby: { comment: '#', words: 'alias and begin break case class def do else elsif end ensure false for if in module next nil not or puts raise redo require rescue retry return self super then true undef unless until when while yield', variables: true },
  rust: { comment: '//', block: ['/*', '*/'], words: 'as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self static struct super trait true type unsafe use where while', types: 'Self Box Option Result Some None Ok Err String Vec bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64 u128 usize', lifetimes: true },
  sql: { comment: '--', block: ['/*', '*/'], anyCase: true, words: 'add all alter and as asc between by case check column commit constraint create cross default delete desc distinct drop else end except exists foreign from full group having if in index inner insert intersect into is join key left like limit not null offset on or order outer primary references returning right rollback select set table then union unique update using values view when where with', types: 'bigint blob boolean char date decimal float int integer json numeric real serial smallint text timestamp varchar' },
  swift: { comment: '//', block: ['/*', '*/'], words: 'as associatedtype async await break case catch class continue default defer deinit do else enum extension fallthrough false fileprivate for func guard if import in init inout internal is let nil open operator private protocol public repeat rethrows return self static struct subscript super switch throw throws true try typealias var where while', types: 'Any Array Bool Character Dictionary Double Float Int Optional Set String Void' },
  toml: { comment: '#', words: 'true false', property: true },
  typescript: { comment: '//', block: ['/*', '*/'], words: `${JS_WORDS} abstract declare enum implements interface is keyof namespace private protected public readonly satisfies type`, quotes: '"\'`', types: 'any bigint boolean never number object string symbol unknown Array Map Promise Record Set' },
  yaml: { comment: '#', words: 'true false null yes no on off', property: true },
  zig: { comment: '//', words: 'and anytype break catch comptime const continue defer else enum errdefer error export extern false fn for if inline null or orelse packed pub return struct switch test true try undefined union unreachable usingnamespace var volatile while', types: 'bool f32 f64 i8 i16 i32 i64 isize type u8 u16 u32 u64 usize void' },
};

const ALIASES = {
  sh: 'bash', shell: 'bash', zsh: 'bash', console: 'bash', dockerfile: 'bash', 'c++': 'cpp', cc: 'cpp', hpp: 'cpp', cuda: 'cpp', h: 'c', cs: 'csharp', 'c#': 'csharp',
  golang: 'go', hs: 'haskell', xml: 'html', svg: 'html', vue: 'html', js: 'javascript', jsx: 'javascript', mjs: 'javascript', jsonc: 'json', json5: 'json', kt: 'kotlin',
  make: 'makefile', patch: 'diff', py: 'python', python3: 'python', rb: 'ruby', rs: 'rust', ts: 'typescript', tsx: 'typescript', yml: 'yaml', postgresql: 'sql', sqlite: 'sql', scss: 'css', less: 'css', conf: 'ini',
};

const escape = (text) => text.replace(/[.*+?^${}()|[\]\\/-]/g, '\\$&');

/** One expression for a language, with a group for each kind of token. Every alternative is linear. */
function expression(of) {
  const found = [];
  const [start, end, kind] = of.block ?? [];
  const block = start && `${escape(start)}[^]*?(?:${escape(end)}|$)`;
  if (of.markup) {
    return /(?<c><!--[^]*?(?:-->|$))|(?<k><\/?[\w:-]+|\/?>)|(?<p>[\w:@-]{1,99}(?==))|(?<s>"[^"]*"?|'[^'\n]*')|(?<n>&#?\w{1,30};)|(?<x>\w+)/y;
  }
  if (of.lines) return /(?<k>@@[^\n]*|(?:diff|index|---|\+\+\+) [^\n]*)|(?<a>\+[^\n]*)|(?<d>-[^\n]*)|(?<x>[^\n]+)/y;
  const comments = [of.comment, of.comment2].filter(Boolean).map((mark) => `${escape(mark)}[^\\n]*`);
  if (block && kind !== 's') comments.unshift(block);
  if (comments.length) found.push(`(?<c>${comments.join('|')})`);
  if (of.directive) found.push('(?<d>#\\s*\\w+)');
  if (of.property) found.push('(?<p>[\\w-]{1,99}(?=\\s{0,9}[:=](?!:))|"(?:[^"\\\\\\n]|\\\\.)*"(?=\\s{0,9}:))');
  const strings = [...(of.quotes ?? '"\'')].map((quote) => `${quote}(?:[^${quote}\\\\${quote === '`' ? '' : '\\n'}]|\\\\[^])*${quote}?`);
  if (kind === 's') strings.unshift(block);
  // A lifetime is no character.
  found.push(`(?<s>${of.lifetimes ? `'(?:[^'\\\\\\n]|\\\\[^']+)'|${strings[0]}` : strings.join('|')})`);
  if (of.lifetimes) found.push('(?<t>\'\\w+)');
  if (of.variables) found.push('(?<p>\\$\\w+|\\$\\{[^}\\n]{0,99}\\}|\\$[@#?*!$])');
  found.push('(?<n>\\b(?:0[xX][\\da-fA-F_]+|0[bB][01_]+|\\d[\\d_]*(?:\\.\\d[\\d_]*)?(?:[eE][+-]?\\d+)?)\\w*)');
  found.push('(?<w>[A-Za-z_]\\w*(?:!(?=\\())?)');
  return new RegExp(found.join('|'), 'y');
}

const compiled = new Map();

function language(name) {
  const known = ALIASES[name] ?? name;
  if (!Object.hasOwn(LANGUAGES, known)) return null;
  if (!compiled.has(known)) {
    const of = LANGUAGES[known];
    const set = (list) => new Set((list ?? '').split(' ').filter(Boolean));
    compiled.set(known, { pattern: expression(of), words: set(of.words), types: set(of.types), anyCase: of.anyCase });
  }
  return compiled.get(known);
}

/** The nodes of some code: text, and spans of classes `hl-…`. Their text together is the code. */
export function highlight(code, name) {
  const found = code.length > LONGEST ? null : language(name.toLowerCase());
  if (!found) return [code];
  const { pattern, words, types, anyCase } = found;
  const nodes = [];
  let plain = '';
  let at = 0;
  const flush = () => {
    if (plain) nodes.push(plain);
    plain = '';
  };
  while (at < code.length) {
    pattern.lastIndex = at;
    const match = pattern.exec(code);
    if (!match || match[0] === '') {
      plain += code[at];
      at += 1;
      continue;
    }
    const { groups } = match;
    let kind = Object.keys(groups).find((one) => groups[one] !== undefined);
    if (kind === 'w') {
      const word = anyCase ? groups.w.toLowerCase() : groups.w;
      kind = words.has(word) ? 'k' : types.has(word) ? 't' : code[at + word.length] === '(' ? 'f' : 'x';
    }
    if (kind === 'x') plain += match[0];
    else {
      flush();
      nodes.push(h('span', { class: `hl-${kind}` }, match[0]));
    }
    at += match[0].length;
  }
  flush();
  return nodes;
}
