// Regular expressions, as JavaScript has them, to grammars. What cannot be said there is refused: nothing is ignored.

import { NibbleError } from "#nibble";
import { either, inOrder, LAST_CHARACTER, oneOf, others, type Range, times } from "./grammar_text.js";

/** Writes one of some characters. */
export type Write = (ranges: readonly Range[]) => string;

const lineEnds: Range[] = [
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
];
const digits: Range[] = [[0x30, 0x39]];
const letters: Range[] = [[0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a], ...digits];
const spaces: Range[] = [
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
];
const classes: Record<string, Range[]> = {
  d: digits,
  D: others(digits),
  w: letters,
  W: others(letters),
  s: spaces,
  S: others(spaces),
};
const controls: Record<string, number> = { t: 0x09, n: 0x0a, v: 0x0b, f: 0x0c, r: 0x0d, "0": 0x00 };

/** What a group may begin with, if it is one: such as (?:…) and (?<name>…). */
const groupKinds = /^\(\?(?::|<[A-Za-z_$][\w$]*>)/;

/** The most copies of a part, and the most groups in groups. */
const MOST = 10_000;
const MOST_DEPTH = 100;

/** A regular expression of which the whole text is a match. */
export function wholePattern(pattern: string): string {
  return new Pattern(pattern, oneOf).read((inside) => inside);
}

/** What has a match of a pattern somewhere, unless the pattern says where; `any` stands for what may be around it. */
export function searchedPattern(pattern: string, write: Write, any: string): string {
  return new Pattern(pattern, write).read((inside, isBegun, isEnded) =>
    [isBegun ? "" : any, inside, isEnded ? "" : any].join(" "),
  );
}

const shortened = (pattern: string): string => (pattern.length > 60 ? `${pattern.slice(0, 60)}…` : pattern);

class Pattern {
  private at = 0;
  private depth = 0;
  private readonly text: string[];

  constructor(
    private readonly whole: string,
    private readonly write: Write,
  ) {
    try {
      new RegExp(whole, "u");
    } catch (error) {
      const why = error instanceof Error ? error.message.replaceAll(whole, "…") : String(error);
      throw new NibbleError("invalid_argument", `the pattern '${shortened(whole)}' cannot be used: ${why}`);
    }
    this.text = Array.from(whole);
  }

  /** `around` gets each alternative, and whether it says that it begins or ends the text. */
  read(around: (inside: string, isBegun: boolean, isEnded: boolean) => string): string {
    const found: string[] = [];
    do {
      const isBegun = this.take("^");
      const inside = this.sequence();
      const isEnded = this.take("$");
      if (this.at < this.text.length && this.text[this.at] !== "|") throw this.refusal("$ before more");
      found.push(around(inside, isBegun, isEnded));
    } while (this.take("|"));
    return either(found);
  }

  private alternatives(): string {
    const found: string[] = [];
    do found.push(this.sequence());
    while (this.take("|"));
    return `(${found.join(" | ")})`;
  }

  private sequence(): string {
    const parts: string[] = [];
    while (this.at < this.text.length && !["|", ")", "$"].includes(this.text[this.at]!)) parts.push(this.repeated());
    return parts.length > 0 ? parts.join(" ") : '""';
  }

  private repeated(): string {
    const part = this.part();
    const counted = /^(?:[*+?]|\{(\d+)(,?)(\d*)\})/.exec(this.rest());
    if (!counted) return part;
    this.at += counted[0].length;
    this.take("?"); // as few as possible: the texts are the same
    if (counted[0] === "*") return times(part, 0);
    if (counted[0] === "+") return times(part, 1);
    if (counted[0] === "?") return times(part, 0, 1);
    const least = Number(counted[1]);
    const most = counted[2] === "" ? least : counted[3] === "" ? undefined : Number(counted[3]);
    if (least > MOST || (most ?? 0) > MOST) throw this.refusal(`more than ${MOST} repetitions`);
    return times(part, least, most);
  }

  private part(): string {
    const letter = this.text[this.at]!;
    if (letter === "(") return this.group();
    if (letter === "^") throw this.refusal("^ after the beginning");
    ++this.at;
    if (letter === "[") return this.writeClass(this.classOf());
    if (letter === ".") return this.writeClass(others(lineEnds));
    if (letter === "\\") return this.writeClass(this.escape());
    const character = letter.codePointAt(0)!;
    return this.writeClass([[character, character]]);
  }

  private group(): string {
    const kind = groupKinds.exec(this.rest())?.[0];
    if (!kind && this.text[this.at + 1] === "?") throw this.refusal(`${this.rest().slice(0, 4)}…`);
    this.at += kind?.length ?? 1;
    if (++this.depth > MOST_DEPTH) throw this.refusal("groups that nest too deeply");
    const inside = this.alternatives();
    --this.depth;
    if (!this.take(")")) throw this.refusal("$ before more");
    return inside;
  }

  /** After the bracket. */
  private classOf(): Range[] {
    const isNegated = this.take("^");
    const found: Range[] = [];
    while (!this.take("]")) {
      const low = this.member();
      const isRange = this.text[this.at] === "-" && this.text[this.at + 1] !== "]";
      if (!isRange || low.length !== 1) {
        found.push(...low);
        continue;
      }
      ++this.at;
      found.push([low[0]![0], this.member()[0]![1]]);
    }
    return isNegated ? others(found) : inOrder(found);
  }

  private member(): Range[] {
    const letter = this.text[this.at++]!;
    if (letter === "\\") return this.take("b") ? [[8, 8]] : this.escape();
    const character = letter.codePointAt(0)!;
    return [[character, character]];
  }

  /** After the backslash. */
  private escape(): Range[] {
    const letter = this.text[this.at++]!;
    const one = (character: number): Range[] => [[character, character]];
    if (classes[letter]) return classes[letter];
    if (letter in controls) return one(controls[letter]!);
    if (letter === "c") return one(this.text[this.at++]!.codePointAt(0)! % 32);
    const hex = { x: /^[0-9a-f]{2}/i, u: /^(?:[0-9a-f]{4}|\{[0-9a-f]+\})/i }[letter]?.exec(this.rest())?.[0];
    if (hex !== undefined) {
      this.at += hex.length;
      return one(parseInt(hex.replace(/[{}]/g, ""), 16));
    }
    if (/[\p{L}\p{N}]/u.test(letter)) throw this.refusal(`\\${letter}`);
    return one(letter.codePointAt(0)!);
  }

  private writeClass(ranges: readonly Range[]): string {
    const whole = inOrder(ranges.map(([low, high]): Range => [low, Math.min(high, LAST_CHARACTER)]));
    if (whole.length === 0) throw this.refusal("a class of no characters");
    return this.write(whole);
  }

  private take(letter: string): boolean {
    const isNext = this.text[this.at] === letter;
    if (isNext) ++this.at;
    return isNext;
  }

  private rest(): string {
    return this.text.slice(this.at, this.at + 40).join("");
  }

  private refusal(what: string): NibbleError {
    return new NibbleError(
      "unsupported",
      `the pattern '${shortened(this.whole)}' has ${what}, which a grammar cannot say`,
    );
  }
}
