// Pieces of grammars, as src/constraint/grammar.hpp describes them.

/** Characters from one to another, by their numbers. */
export type Range = readonly [low: number, high: number];

export const LAST_CHARACTER = 0x10ffff;

const escaped = (character: number): string =>
  character > 0x20 && character < 0x7f && /[A-Za-z0-9]/.test(String.fromCharCode(character))
    ? String.fromCharCode(character)
    : `\\U${character.toString(16).padStart(8, "0")}`;

/** A text as it stands. */
export function literal(text: string): string {
  return `"${Array.from(text, (letter) => (/[ !#-[\]-~]/.test(letter) ? letter : escaped(letter.codePointAt(0)!))).join("")}"`;
}

/** One of these characters. */
export function oneOf(ranges: readonly Range[]): string {
  return `[${ranges.map(([low, high]) => (low === high ? escaped(low) : `${escaped(low)}-${escaped(high)}`)).join("")}]`;
}

/** In their order, those that touch each other as one, and without surrogates, which are no characters. */
export function inOrder(ranges: readonly Range[]): Range[] {
  const whole = ranges.flatMap(([low, high]): Range[] => [
    [low, Math.min(high, 0xd7ff)],
    [Math.max(low, 0xe000), high],
  ]);
  const joined: [number, number][] = [];
  for (const [low, high] of whole.filter(([low, high]) => low <= high).sort((a, b) => a[0] - b[0])) {
    const last = joined.at(-1);
    if (last && low <= last[1] + 1) last[1] = Math.max(last[1], high);
    else joined.push([low, high]);
  }
  return joined;
}

/** All characters but these. */
export function others(ranges: readonly Range[]): Range[] {
  const found: Range[] = [];
  let next = 0;
  for (const [low, high] of inOrder(ranges)) {
    if (low > next) found.push([next, low - 1]);
    next = high + 1;
  }
  if (next <= LAST_CHARACTER) found.push([next, LAST_CHARACTER]);
  return inOrder(found);
}

/** How often something comes; without a most, as often as it likes. */
export function times(what: string, least: number, most?: number): string {
  return least === 0 && most === undefined ? `${what}*` : `${what}{${least},${most ?? ""}}`;
}

export const either = (choices: readonly string[]): string =>
  choices.length === 1 ? choices[0]! : `(${choices.join(" | ")})`;
