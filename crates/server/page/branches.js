// The texts that were tried: a tree whose branches share what comes before them.

/** A token is {id, bytes, logprob, top}; one without an id is told to the server as its text. */
export class Tree {
  constructor(prompt) {
    this.prompt = prompt;
    this.branches = [];
    this.current = null;
  }

  /** Adds a branch that leaves `parent` before its token number `at`; without a parent it follows the prompt's first
   *  `at` tokens. */
  grow(parent, at, tokens) {
    const branch = { parent, at, tokens, state: 'runs', number: this.branches.length + 1 };
    this.branches.push(branch);
    this.current = branch;
    return branch;
  }

  /** The branch that leaves the same place with the same token. */
  find(parent, at, token) {
    return this.branches.find((branch) => branch.parent === parent && branch.at === at && same(branch.tokens[0], token));
  }

  children(parent) {
    return this.branches.filter((branch) => branch.parent === parent);
  }

  /** All tokens of the text that ends with a branch, each with where it stands: {token, branch, at}; a null branch is
   *  the prompt. */
  path(branch) {
    if (!branch) return this.prompt.map((token, at) => ({ token, branch: null, at }));
    const before = this.path(branch.parent);
    const first = before.findIndex((place) => place.branch === branch.parent && place.at === branch.at);
    const shared = first < 0 ? before : before.slice(0, first);
    return [...shared, ...branch.tokens.map((token, at) => ({ token, branch, at }))];
  }
}

export const same = (a, b) => a !== undefined && b !== undefined
  && (a.id !== undefined && b.id !== undefined ? a.id === b.id : spelt(a) === spelt(b));

const strict = new TextDecoder('utf-8', { fatal: true });

/** A token's text; pieces of characters as their bytes. */
export function spelt({ bytes }) {
  try {
    return strict.decode(Uint8Array.from(bytes));
  } catch {
    return bytes.map((byte) => `‹${byte.toString(16).padStart(2, '0')}›`).join('');
  }
}

/** The text of tokens together, where pieces of characters join. */
export const text = (tokens) => new TextDecoder().decode(Uint8Array.from(tokens.flatMap(({ bytes }) => bytes)));
