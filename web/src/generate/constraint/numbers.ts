// Numbers within bounds, as grammars that read their digits.

import { either, times } from "./grammar_text.js";

/** A bound, and whether it is out of bounds itself. */
export interface Bound {
  value: number;
  isOut: boolean;
}

/** So many digits tell every two numbers apart. */
const DIGITS = 15;

const digit = (low: number, high: number): string => (low === high ? `"${low}"` : `[${low}-${high}]`);

export const PLAIN_INTEGER = '"-"? ("0" | [1-9] [0-9]{0,15})';
export const PLAIN_NUMBER = `${PLAIN_INTEGER} ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?`;

/** All numbers within the bounds, but for those of very many digits; undefined if there are none. */
export function numbersWithin(low: Bound | undefined, high: Bound | undefined, isInteger: boolean): string | undefined {
  if (isInteger) [low, high] = [roundedUp(low), negated(roundedUp(negated(high)))];
  const isNegative = !low || low.value < 0;
  const isPositive = !high || high.value > 0 || (high.value === 0 && !high.isOut);
  const found: string[] = [];
  if (isPositive) found.push(...above(low && low.value >= 0 ? low : zero, high, isInteger));
  if (isNegative) {
    const nearest = high && high.value <= 0 ? negated(high)! : zero;
    found.push(...above(nearest, negated(low), isInteger).map((digits) => `"-" ${digits}`));
  }
  return found.length > 0 ? either(found) : undefined;
}

const zero: Bound = { value: 0, isOut: false };
const negated = (bound: Bound | undefined): Bound | undefined => bound && { ...bound, value: -bound.value };

function roundedUp(bound: Bound | undefined): Bound | undefined {
  if (!bound) return undefined;
  const whole = Math.ceil(bound.value);
  return { value: bound.isOut && whole === bound.value ? whole + 1 : whole, isOut: false };
}

/** A number's digits before and after the point. */
class Digits {
  readonly whole: string;
  readonly fraction: string;
  readonly isOut: boolean;

  constructor({ value, isOut }: Bound) {
    [this.whole, this.fraction] = decimal(value);
    this.isOut = isOut;
  }
}

/** Without an exponent. */
function decimal(value: number): [whole: string, fraction: string] {
  const [, first = "", more = "", exponent = "0"] = /^(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(value))!;
  const point = first.length + Number(exponent);
  const all = first + more;
  const padded = point < 1 ? "0".repeat(1 - point) + all : all.padEnd(point, "0");
  const at = Math.max(point, 1);
  return [padded.slice(0, at).replace(/^0+(?=\d)/, ""), padded.slice(at).replace(/0+$/, "")];
}

/** The numbers from one that is not below 0 to another, by how many digits they have before the point. */
function above(from: Bound, to: Bound | undefined, isInteger: boolean): string[] {
  if (to && (to.value < from.value || (to.value === from.value && (to.isOut || from.isOut)))) return [];
  const low = new Digits(from);
  const high = to && new Digits(to);
  const longest = high?.whole.length ?? Math.max(DIGITS, low.whole.length + 1);
  const found: string[] = [];
  for (let length = low.whole.length; length <= longest; ++length) {
    const range = new Span(length, isInteger);
    const one = range.digits(
      0,
      length === low.whole.length ? low : undefined,
      length === high?.whole.length ? high : undefined,
    );
    if (one !== undefined) found.push(one);
  }
  return found;
}

/** Numbers with so many digits before the point. */
class Span {
  constructor(
    private readonly length: number,
    private readonly isInteger: boolean,
  ) {}

  /** From one digit on. Bounds are those whose digits all came so far: others no longer count. */
  digits(at: number, low: Digits | undefined, high: Digits | undefined): string | undefined {
    if (at === this.length) return this.fraction(0, low, high);
    const least = low ? Number(low.whole[at]) : at === 0 && this.length > 1 ? 1 : 0;
    const most = high ? Number(high.whole[at]) : 9;
    return this.choices(least, most, low, high, (nextLow, nextHigh) => {
      if (nextLow || nextHigh) return this.digits(at + 1, nextLow, nextHigh);
      const left = this.length - at - 1;
      return `${left > 0 ? `[0-9]{${left}}` : ""} ${this.fraction(0, undefined, undefined)!}`;
    });
  }

  /** The point and what follows, from a digit after it on. */
  private fraction(at: number, low: Digits | undefined, high: Digits | undefined): string | undefined {
    const rest = Math.max(0, DIGITS - this.length - at);
    if (this.isInteger || (!low && !high && rest === 0)) return this.mayEnd(at, low, high) ? '""' : undefined;
    const more = low || high ? this.fractionDigits(at, low, high, rest) : times("[0-9]", 1, rest);
    const point = at === 0 ? '"." ' : "";
    const found = this.mayEnd(at, low, high) ? ['""'] : [];
    if (more !== undefined) found.push(point + more);
    return found.length > 0 ? either(found) : undefined;
  }

  private fractionDigits(
    at: number,
    low: Digits | undefined,
    high: Digits | undefined,
    rest: number,
  ): string | undefined {
    const isPast = at >= (low?.fraction.length ?? 0);
    if (high && at >= high.fraction.length) return undefined; // it is reached, and zeros add nothing
    if (low && !high && isPast) {
      if (rest === 0) return undefined;
      return low.isOut ? `"0"{0,${rest - 1}} [1-9]` : times("[0-9]", 1, rest);
    }
    const least = low && !isPast ? Number(low.fraction[at]) : 0;
    const most = high ? Number(high.fraction[at]) : 9;
    return this.choices(least, most, low, high, (nextLow, nextHigh) => this.fraction(at + 1, nextLow, nextHigh));
  }

  private mayEnd(at: number, low: Digits | undefined, high: Digits | undefined): boolean {
    const isLow = low !== undefined && (low.isOut || low.fraction.length > at);
    const isHigh = high?.isOut && high.fraction.length <= at;
    return !isLow && !isHigh;
  }

  /** The first and the last digit keep their bounds; those between need none. */
  private choices(
    least: number,
    most: number,
    low: Digits | undefined,
    high: Digits | undefined,
    next: (low: Digits | undefined, high: Digits | undefined) => string | undefined,
  ): string | undefined {
    const found: string[] = [];
    const add = (from: number, to: number, nextLow: Digits | undefined, nextHigh: Digits | undefined): void => {
      const rest = from <= to ? next(nextLow, nextHigh) : undefined;
      if (rest !== undefined) found.push(`${digit(from, to)} ${rest}`);
    };
    if (least === most) add(least, most, low, high);
    else {
      if (low) add(least, least, low, undefined);
      add(low ? least + 1 : least, high ? most - 1 : most, undefined, undefined);
      if (high) add(most, most, undefined, high);
    }
    return found.length > 0 ? either(found) : undefined;
  }
}
