// JSON schemas to grammars. Whatever the grammar lets through fits the schema; it does not let through all that would:
// properties come in the order of the schema, and those that it does not name only where it asks for them.

import { merge } from "./merge.js";
import { either, literal, oneOf, others, type Range, times } from "./grammar_text.js";
import { formats } from "./formats.js";
import {
  isSame,
  type Kind,
  kindOf,
  kinds,
  kindsOf,
  keywordsOf,
  overlap,
  ownOf,
  type Plain,
  readKeywords,
  refusal,
  unsupported,
  values,
} from "./keywords.js";
import { type Bound, numbersWithin, PLAIN_INTEGER, PLAIN_NUMBER } from "./numbers.js";
import { searchedPattern } from "./pattern.js";

/** Between two tokens of JSON a small model may write spaces for ever. */
const JSON_RULES = `ws ::= [ \\n\\r\\t]{0,32}
hex ::= [0-9A-Fa-f]
raw ::= [^"\\\\\\x00-\\x1f]
char ::= raw | "\\\\" (["\\\\/bfnrt] | "u" ([0-9A-Ca-cE-Fe-f] hex{3} | [Dd] [0-7] hex{2}))
string ::= "\\"" char* "\\""
integer ::= ${PLAIN_INTEGER}
number ::= ${PLAIN_NUMBER}
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (pair ("," ws pair)*)? "}"
pair ::= string ws ":" ws value ws
array ::= "[" ws (value ws ("," ws value ws)*)? "]"
`;

const MOST_RULES = 10_000;
const MOST_CHOICES = 100;
const MOST_DEPTH = 100;
/** Of characters, items and properties. */
const MOST_COUNT = 100_000;

/** The grammar of texts that fit a schema. */
export function schemaGrammar(schema: unknown): string {
  const writer = new SchemaWriter(schema);
  const root = writer.value(schema, "#");
  return `${JSON_RULES}${writer.text()}root ::= ${root}\n`;
}

/** A character of a JSON text: as it stands, or escaped. */
function writeInJson(ranges: readonly Range[]): string {
  const has = (character: number): boolean => ranges.some(([low, high]) => low <= character && character <= high);
  const found: string[] = [];
  const plain = ranges.flatMap(([low, high]): Range[] =>
    others([
      [0, 0x1f],
      [0x22, 0x22],
      [0x5c, 0x5c],
    ])
      .map(([from, to]): Range => [Math.max(low, from), Math.min(high, to)])
      .filter(([from, to]) => from <= to),
  );
  if (plain.length > 0) found.push(oneOf(plain));
  for (const letter of '"\\\b\f\n\r\t')
    if (has(letter.charCodeAt(0))) found.push(literal(JSON.stringify(letter).slice(1, -1)));
  if (found.length === 0) throw unsupported("a pattern has only characters that JSON has no short form for");
  return `(${found.join(" | ")})`;
}

class SchemaWriter {
  private readonly rules: string[] = [];
  private readonly names = new Map<unknown, string>();
  private depth = 0;

  constructor(private readonly root: unknown) {}

  text(): string {
    return this.rules.map((body, i) => `r${i} ::= ${body}\n`).join("");
  }

  /** The name of the rule for a schema. `chain` has those that it only stands for. */
  value(schema: unknown, at: string, chain: readonly unknown[] = []): string {
    if (schema === true) return "value";
    if (schema === false) throw refusal(`${at} allows nothing`);
    if (chain.includes(schema)) throw refusal(`${at} refers to itself with nothing between`);
    const known = this.names.get(schema);
    if (known !== undefined) return known;
    if (++this.depth > MOST_DEPTH) throw refusal(`${at} nests too deeply`);
    const name = this.add("");
    this.names.set(schema, name);
    this.rules[Number(name.slice(1))] = this.body(schema, at, [...chain, schema]);
    --this.depth;
    return name;
  }

  private add(body: string): string {
    if (this.rules.length >= MOST_RULES) throw refusal("it is too large, or refers to itself without end");
    this.rules.push(body);
    return `r${this.rules.length - 1}`;
  }

  private body(schema: unknown, at: string, chain: readonly unknown[]): string {
    const keywords = readKeywords(schema, at);
    const [only, more] = Object.keys(keywords);
    // A schema that only stands for others is their rules: one that refers to itself would have no end otherwise.
    if (more === undefined && only === "$ref") {
      const place = keywords.$ref as string;
      return this.value(this.resolve(place, at), place, chain);
    }
    if (more === undefined && (only === "anyOf" || only === "oneOf")) {
      if (only === "oneOf") this.checkApart(values(keywords.oneOf), at);
      const choices = values(keywords[only]).filter((choice) => choice !== false);
      if (choices.length > 0)
        return either(choices.map((choice, i) => this.value(choice, `${at}/${only}/${i}`, chain)));
    }
    const found = this.alternatives(schema, at);
    if (found.length === 0) throw refusal(`${at} allows nothing`);
    return either(found.map((plain) => this.plain(plain, at)));
  }

  private resolve(place: string, at: string): unknown {
    if (!place.startsWith("#")) throw unsupported(`${at} refers to '${place}', but only # and what is below it can be`);
    let found: unknown = this.root;
    for (const part of place.slice(1).split("/").slice(1)) {
      const key = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
      const isThere = typeof found === "object" && found !== null && Object.hasOwn(found, key);
      if (!isThere) throw refusal(`${at} refers to '${place}', which is not there`);
      found = (found as Plain)[key];
    }
    if (/^#[^/]/.test(place)) throw unsupported(`${at} refers to '${place}', but names of schemas are not known`);
    return found;
  }

  /** Schemas without others in them, of which one must hold. */
  private alternatives(schema: unknown, at: string, depth = 0): Plain[] {
    if (typeof schema === "boolean") return schema ? [{}] : [];
    if (depth > MOST_DEPTH) throw refusal(`${at} refers to itself without end`);
    const { $ref: place, allOf, anyOf, oneOf: apart, ...own } = readKeywords(schema, at);
    let found: Plain[] = [own];
    const join = (more: readonly Plain[]): void => {
      found = found.flatMap((one) => more.map((other) => merge(one, other, at)).filter((both) => both !== undefined));
      if (found.length > MOST_CHOICES) throw unsupported(`${at} has more than ${MOST_CHOICES} alternatives`);
    };
    const of = (each: unknown, name: string): Plain[] => this.alternatives(each, `${at}/${name}`, depth + 1);
    if (place !== undefined) {
      join(this.alternatives(this.resolve(place as string, at), place as string, depth + 1));
    }
    values(allOf ?? []).forEach((each, i) => join(of(each, `allOf/${i}`)));
    if (anyOf !== undefined) join(values(anyOf).flatMap((each, i) => of(each, `anyOf/${i}`)));
    if (apart !== undefined) {
      this.checkApart(values(apart), at);
      join(values(apart).flatMap((each, i) => of(each, `oneOf/${i}`)));
    }
    return found;
  }

  /** Of several schemas that exclude each other, no two may hold at once. */
  private checkApart(schemas: readonly unknown[], at: string): void {
    const found = schemas.map((schema, i) => this.alternatives(schema, `${at}/oneOf/${i}`));
    found.forEach((one, i) =>
      found.slice(i + 1).forEach((other, j) => {
        if (one.every((a) => other.every((b) => this.areApart(a, b, at)))) return;
        throw unsupported(`${at}/oneOf has ${i} and ${i + 1 + j}, which may both hold; anyOf lets them`);
      }),
    );
  }

  private areApart(one: Plain, other: Plain, at: string, depth = 0): boolean {
    const [a, b] = [one, other].map((plain) => kindsOfPlain(plain, at));
    if (!a!.some((kind) => b!.some((each) => overlap(kind, each)))) return true;
    if (one.enum && other.enum) {
      return !values(one.enum).some((value) => values(other.enum).some((each) => isSame(value, each)));
    }
    if (depth > 3 || ![one, other].every(({ type }) => type !== undefined && String(type) === "object")) return false;
    // A property that both must have, and that tells them apart.
    return values(one.required ?? []).some((name) => {
      if (!values(other.required ?? []).includes(name)) return false;
      const [p, q] = [one, other].map(({ properties }) =>
        this.alternatives(ownOf(properties, name as string) ?? true, at, 1),
      );
      return p!.every((x) => q!.every((y) => this.areApart(x, y, at, depth + 1)));
    });
  }

  private plain(plain: Plain, at: string): string {
    if (plain.enum !== undefined) return enumerated(plain, at);
    const found = kindsOfPlain(plain, at).flatMap((kind) => this.ofKind(kind, plain, at) ?? []);
    if (found.length === 0) throw refusal(`${at} allows nothing`);
    return either(found);
  }

  private ofKind(kind: Kind, plain: Plain, at: string): string | undefined {
    const says = keywordsOf[kind].some((keyword) => plain[keyword] !== undefined);
    if (kind === "null") return '"null"';
    if (kind === "boolean") return '("true" | "false")';
    if (!says) return kind;
    if (kind === "object") return this.object(plain, at);
    if (kind === "array") return this.array(plain, at);
    return kind === "string" ? this.string(plain, at) : numbers(plain, kind === "integer", at);
  }

  private string(plain: Plain, at: string): string {
    const { pattern, format, minLength, maxLength } = plain;
    const inside = [];
    if (pattern !== undefined) inside.push(searchedPattern(pattern as string, writeInJson, "char*"));
    if (format !== undefined) {
      const known = ownOf(formats, format as string) as string | undefined;
      if (known === undefined)
        throw unsupported(`${at} has the format '${String(format)}'; there are ${Object.keys(formats).join(", ")}`);
      inside.push(searchedPattern(`^(?:${known})$`, writeInJson, ""));
    }
    if (minLength !== undefined || maxLength !== undefined) {
      const [least, most] = [(minLength ?? 0) as number, maxLength as number | undefined];
      if (most !== undefined && most < least) throw refusal(`minLength at ${at} is above maxLength`);
      inside.push(times("char", checkedCount(least, at)!, checkedCount(most, at)));
    }
    if (inside.length > 1) throw unsupported(`${at} has more than one of pattern, format and a length`);
    return `"\\"" ${inside[0]} "\\""`;
  }

  private array(plain: Plain, at: string): string | undefined {
    const prefix = (plain.prefixItems ?? []) as unknown[];
    const least = (plain.minItems ?? 0) as number;
    let most = plain.maxItems as number | undefined;
    // It ends before the first item that may not be.
    const end = [...prefix, plain.items].indexOf(false);
    if (end >= 0) most = Math.min(most ?? end, end);
    if (most !== undefined && most < least) throw refusal(`minItems at ${at} is above what it may have`);
    if (plain.uniqueItems && (most ?? 2) > 1) throw unsupported(`${at} has uniqueItems`);
    if (most === 0) return '"[" ws "]"';
    const item = (i: number): string =>
      i < prefix.length
        ? this.value(prefix[i], `${at}/prefixItems/${i}`)
        : this.value(plain.items ?? true, `${at}/items`);
    const from = (i: number): string => {
      if (i === most) return '""';
      if (i < prefix.length) {
        const rest = `"," ws ${item(i)} ws ${this.add(from(i + 1))}`;
        return i < least ? rest : `(${rest})?`;
      }
      const [fewest, limit] = [Math.max(0, least - i), most === undefined ? undefined : most - i];
      return times(`("," ws ${item(i)} ws)`, checkedCount(fewest, at)!, checkedCount(limit, at));
    };
    const all = `${item(0)} ws ${from(1)}`;
    return `"[" ws ${least > 0 ? all : `(${all})?`} "]"`;
  }

  private object(plain: Plain, at: string): string {
    const rest = plain.additionalProperties;
    const required = values(plain.required ?? []) as string[];
    const named = new Map(Object.entries((plain.properties ?? {}) as Plain));
    const isOpen = rest === undefined ? named.size === 0 : rest !== false;
    for (const name of required) if (!named.has(name)) named.set(name, rest ?? true);
    const shown = [...named].filter(([, schema]) => schema !== false);
    const missing = required.find((name) => named.get(name) === false);
    if (missing !== undefined) throw refusal(`${at} requires '${missing}', but does not allow it`);
    const { minProperties: least = 0, maxProperties: most } = plain as Record<string, number | undefined>;
    if (least > required.length) throw unsupported(`${at} has minProperties above the number of required ones`);
    const isBound = most !== undefined && (isOpen || most < shown.length);
    if (isBound && shown.length > 0) throw unsupported(`${at} has maxProperties beside properties`);
    const pairs = shown.map(([name, schema]) => ({
      text: `${literal(JSON.stringify(name))} ws ":" ws ${this.value(schema, `${at}/properties/${pointer(name)}`)} ws`,
      isNeeded: required.includes(name),
    }));
    const more = isOpen
      ? `${this.otherName([...named.keys()])} ws ":" ws ${this.value(rest ?? true, `${at}/additionalProperties`)} ws`
      : undefined;
    return `"{" ws ${this.members(pairs, more, checkedCount(most, at))}`;
  }

  /** What is left of an object after each property, where it is the first one and where it is not. */
  private members(
    pairs: readonly { text: string; isNeeded: boolean }[],
    more: string | undefined,
    most?: number,
  ): string {
    const next = more === undefined ? undefined : `("," ws ${more})`;
    let later = next === undefined ? '"}"' : `${times(next, 0)} "}"`;
    let first = next === undefined || most === 0 ? '"}"' : `(${more} ${times(next, 0, most && most - 1)})? "}"`;
    for (const { text, isNeeded } of [...pairs].reverse()) {
      const [rest, begun] = [this.add(later), isNeeded ? "" : ` | ${this.add(first)}`];
      first = `(${text} ${rest}${begun})`;
      later = `("," ws ${text} ${rest}${isNeeded ? "" : ` | ${rest}`})`;
    }
    return first;
  }

  /** A property's name that is none of these. */
  private otherName(names: readonly string[]): string {
    // As raw text there is one way only to write a name.
    const plain = names.filter((name) => JSON.stringify(name) === `"${name}"`);
    if (names.length === 0) return "string";
    const after = (begun: string): string => {
      const next = new Set(
        plain.filter((name) => name.startsWith(begun)).flatMap((name) => Array.from(name.slice(begun.length))[0] ?? []),
      );
      const taken = [...next].map((letter): Range => [letter.codePointAt(0)!, letter.codePointAt(0)!]);
      const free = others([[0, 0x1f], [0x22, 0x22], [0x5c, 0x5c], ...taken]);
      const choices = [
        `${oneOf(free)} raw* "\\""`,
        ...[...next].map((letter) => `${literal(letter)} ${after(begun + letter)}`),
      ];
      if (!plain.includes(begun)) choices.push('"\\""');
      return this.add(choices.join(" | "));
    };
    return `"\\"" ${after("")}`;
  }
}

const pointer = (name: string): string => name.replaceAll("~", "~0").replaceAll("/", "~1");

function checkedCount(count: number | undefined, at: string): number | undefined {
  if (count !== undefined && count > MOST_COUNT) throw unsupported(`${at} has a length above ${MOST_COUNT}`);
  return count;
}

/** Those that it says; or else those that its keywords are about, or all. */
function kindsOfPlain(plain: Plain, at: string): Kind[] {
  if (plain.type !== undefined) return kindsOf(plain.type, at);
  if (plain.enum !== undefined) return values(plain.enum).map(kindOf);
  const meant = kinds.filter((kind) => kind !== "integer" && keywordsOf[kind].some((keyword) => keyword in plain));
  return meant.length > 0 ? meant : kinds.filter((kind) => kind !== "integer");
}

function enumerated(plain: Plain, at: string): string {
  const allowed = plain.type === undefined ? kinds : kindsOf(plain.type, at);
  const found = values(plain.enum).filter((value) => {
    const kind = kindOf(value);
    return allowed.includes(kind) || (kind === "integer" && allowed.includes("number"));
  });
  if (found.length === 0) throw refusal(`${at} allows nothing`);
  for (const keyword of found.flatMap((value) => keywordsOf[kindOf(value)])) {
    if (keyword in plain) throw unsupported(`${at} has ${keyword} beside enum or const`);
  }
  return either(found.map((value) => literal(JSON.stringify(value))));
}

function numbers(plain: Plain, isInteger: boolean, at: string): string {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = plain as Record<
    string,
    number | undefined
  >;
  const step = multipleOf ?? 1;
  if (step !== 1) throw unsupported(`${at} has multipleOf`);
  const low = tighter(minimum, exclusiveMinimum, (a, b) => a > b);
  const high = tighter(maximum, exclusiveMaximum, (a, b) => a < b);
  const isWhole = isInteger || multipleOf === 1;
  if (!low && !high) return isWhole ? "integer" : "number";
  for (const bound of [low, high]) {
    const isFine = bound?.isOut && String(bound.value).replace(/e.*|\D/g, "").length > 15;
    if (isFine) throw unsupported(`${at} has a bound of more than 15 digits that is out of bounds itself`);
  }
  const text = numbersWithin(low, high, isWhole);
  if (text === undefined) throw refusal(`${at} allows no number`);
  return text;
}

function tighter(
  bound: number | undefined,
  beyond: number | undefined,
  isTighter: (one: number, other: number) => boolean,
): Bound | undefined {
  if (bound === undefined && beyond === undefined) return undefined;
  const isOut = beyond !== undefined && (bound === undefined || !isTighter(bound, beyond));
  return { value: isOut ? beyond : bound!, isOut };
}
