// What LaTeX's commands for symbols stand for.

const table = (text) => Object.fromEntries(text.trim().split(/\s+/).map((pair) => {
  const at = pair.indexOf('=');
  return [pair.slice(0, at), pair.slice(at + 1)];
}));

/** Letters: identifiers. */
export const LETTERS = table(`
  alpha=α beta=β gamma=γ delta=δ epsilon=ϵ varepsilon=ε zeta=ζ eta=η theta=θ vartheta=ϑ iota=ι kappa=κ lambda=λ mu=μ nu=ν xi=ξ omicron=ο
  pi=π varpi=ϖ rho=ρ varrho=ϱ sigma=σ varsigma=ς tau=τ upsilon=υ phi=ϕ varphi=φ chi=χ psi=ψ omega=ω
  Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Upsilon=Υ Phi=Φ Psi=Ψ Omega=Ω
  infty=∞ partial=∂ nabla=∇ ell=ℓ hbar=ℏ Re=ℜ Im=ℑ aleph=ℵ emptyset=∅ varnothing=∅ imath=ı jmath=ȷ wp=℘ top=⊤ bot=⊥ angle=∠ degree=°
  ldots=… dots=… cdots=⋯ vdots=⋮ ddots=⋱ dotsc=… dotsb=⋯ prime=′ checkmark=✓ square=□ blacksquare=■ triangle=△ star=⋆ dagger=† ddagger=‡
`);

/** Operators and relations. */
export const OPERATORS = table(`
  pm=± mp=∓ times=× div=÷ cdot=⋅ ast=∗ star=⋆ circ=∘ bullet=∙ oplus=⊕ ominus=⊖ otimes=⊗ odot=⊙ wedge=∧ land=∧ vee=∨ lor=∨ cap=∩ cup=∪ setminus=∖ sqcup=⊔ sqcap=⊓ uplus=⊎ amalg=⨿
  leq=≤ le=≤ geq=≥ ge=≥ neq=≠ ne=≠ ll=≪ gg=≫ approx=≈ equiv=≡ cong=≅ sim=∼ simeq=≃ propto=∝ asymp=≍ doteq=≐ prec=≺ succ=≻ preceq=⪯ succeq=⪰ leqslant=⩽ geqslant=⩾ lesssim=≲ gtrsim=≳ triangleq=≜ coloneqq=≔
  in=∈ notin=∉ ni=∋ subset=⊂ supset=⊃ subseteq=⊆ supseteq=⊇ nsubseteq=⊈ subsetneq=⊊ supsetneq=⊋ mid=∣ nmid=∤ parallel=∥ perp=⊥ vdash=⊢ dashv=⊣ models=⊨ forall=∀ exists=∃ nexists=∄ neg=¬ lnot=¬ therefore=∴ because=∵
  to=→ rightarrow=→ leftarrow=← gets=← leftrightarrow=↔ Rightarrow=⇒ Leftarrow=⇐ Leftrightarrow=⇔ implies=⟹ impliedby=⟸ iff=⟺ mapsto=↦ longrightarrow=⟶ longleftarrow=⟵ longmapsto=⟼ uparrow=↑ downarrow=↓ updownarrow=↕ hookrightarrow=↪ rightharpoonup=⇀ rightleftharpoons=⇌ leadsto=⇝ nearrow=↗ searrow=↘
  colon=: vert=| Vert=‖ backslash=\\ lbrace={ rbrace=} langle=⟨ rangle=⟩ lfloor=⌊ rfloor=⌋ lceil=⌈ rceil=⌉ lvert=| rvert=| lVert=‖ rVert=‖ lbrack=[ rbrack=] llbracket=⟦ rrbracket=⟧
`);

/** Operators whose limits stand above and below them in displays. */
export const LARGE = table(`
  sum=∑ prod=∏ coprod=∐ int=∫ iint=∬ iiint=∭ oint=∮ bigcup=⋃ bigcap=⋂ bigvee=⋁ bigwedge=⋀ bigoplus=⨁ bigotimes=⨂ bigodot=⨀ bigsqcup=⨆
`);

/** Functions with upright names. */
export const FUNCTIONS = new Set('sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth log ln lg exp det dim ker hom deg arg gcd lim limsup liminf max min sup inf Pr argmax argmin'.split(' '));

/** Functions with limits below them in displays. */
export const LIMITS = new Set('lim limsup liminf max min sup inf det gcd Pr argmax argmin'.split(' '));

export const ACCENTS = table('hat=^ widehat=^ bar=‾ overline=‾ vec=→ overrightarrow=→ overleftarrow=← dot=˙ ddot=¨ tilde=~ widetilde=~ check=ˇ breve=˘ acute=´ grave=` overbrace=⏞ underline=_ underbrace=⏟');

/** Widths in em. */
export const SPACES = { ',': 0.167, ':': 0.222, '>': 0.222, ';': 0.278, '!': -0.167, ' ': 0.25, quad: 1, qquad: 2, enspace: 0.5, thinspace: 0.167, medspace: 0.222, thickspace: 0.278, '~': 0.25 };

// Alphabets of Unicode's mathematical letters: where A, a and 0 are, and letters that have older places.
const ALPHABETS = {
  mathbf: [0x1d400, 0x1d41a, 0x1d7ce], bm: [0x1d468, 0x1d482, 0x1d7ce], boldsymbol: [0x1d468, 0x1d482, 0x1d7ce],
  mathbb: [0x1d538, 0x1d552, 0x1d7d8, 'Cℂ Hℍ Nℕ Pℙ Qℚ Rℝ Zℤ'],
  mathcal: [0x1d49c, 0x1d4b6, null, 'Bℬ Eℰ Fℱ Hℋ Iℐ Lℒ Mℳ Rℛ eℯ gℊ oℴ'], mathscr: [0x1d49c, 0x1d4b6, null, 'Bℬ Eℰ Fℱ Hℋ Iℐ Lℒ Mℳ Rℛ eℯ gℊ oℴ'],
  mathfrak: [0x1d504, 0x1d51e, null, 'Cℭ Hℌ Iℑ Rℜ Zℨ'], mathsf: [0x1d5a0, 0x1d5ba, 0x1d7e2], mathtt: [0x1d670, 0x1d68a, 0x1d7f6],
};

export const isAlphabet = (name) => Object.hasOwn(ALPHABETS, name);

/** A letter or digit in an alphabet. */
export function styled(character, name) {
  const [upper, lower, digit, older = ''] = ALPHABETS[name];
  const known = older.split(' ').find((pair) => pair[0] === character);
  if (known) return known.slice(1);
  const code = character.charCodeAt(0);
  if (character >= 'A' && character <= 'Z') return String.fromCodePoint(upper + code - 65);
  if (character >= 'a' && character <= 'z') return String.fromCodePoint(lower + code - 97);
  if (digit && character >= '0' && character <= '9') return String.fromCodePoint(digit + code - 48);
  return character;
}
