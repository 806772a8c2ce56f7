// Schemas that must hold together, as one.

import { isSame, type Kind, kindsOf, ownOf, type Plain, unsupported, values } from "./keywords.js";

/** What fits both; undefined if nothing does. */
export function merge(one: Plain, other: Plain, at: string): Plain | undefined {
  const made: Plain = { ...one, ...other, ...mergeObjects(one, other), ...mergeArrays(one, other) };
  for (const keyword of Object.keys(one).filter((name) => name in other)) {
    const [a, b] = [one[keyword], other[keyword]];
    if (keyword === "type") {
      const both = commonKinds(kindsOf(a, at), kindsOf(b, at));
      if (both.length === 0) return undefined;
      made.type = both;
    } else if (keyword === "enum") {
      const both = values(a).filter((value) => values(b).some((each) => isSame(value, each)));
      if (both.length === 0) return undefined;
      made.enum = both;
    } else if (keyword === "required") {
      made.required = [...new Set([...values(a), ...values(b)])];
    } else if (/^(?:min|exclusiveMin)/.test(keyword)) {
      made[keyword] = Math.max(a as number, b as number);
    } else if (/^(?:max|exclusiveMax)/.test(keyword)) {
      made[keyword] = Math.min(a as number, b as number);
    } else if (keyword === "uniqueItems") {
      made.uniqueItems = a || b;
    } else if (["pattern", "format", "multipleOf"].includes(keyword) && a !== b) {
      throw unsupported(`${at} joins two of ${keyword}`);
    }
  }
  return made;
}

function commonKinds(one: readonly Kind[], other: readonly Kind[]): Kind[] {
  const found = one.filter((kind) => other.includes(kind) || (kind === "integer" && other.includes("number")));
  return other.includes("integer") && one.includes("number") ? [...new Set<Kind>([...found, "integer"])] : found;
}

/** A schema for what two schemas say; undefined says nothing. */
function both(one: unknown, other: unknown): unknown {
  if (one === false || other === false) return false;
  if (one === undefined || one === true || one === other) return other;
  return other === undefined || other === true ? one : { allOf: [one, other] };
}

function mergeObjects(one: Plain, other: Plain): Plain {
  const made: Plain = {};
  const names = [one, other].flatMap(({ properties }) => Object.keys((properties ?? {}) as object));
  if (names.length > 0) {
    made.properties = Object.fromEntries(names.map((name) => [name, property(one, other, name)]));
  }
  const rest = both(one.additionalProperties, other.additionalProperties);
  return rest === undefined ? made : { ...made, additionalProperties: rest };
}

/** What a property is that one schema may name, and the other one not. */
function property(one: Plain, other: Plain, name: string): unknown {
  const of = ({ properties, additionalProperties }: Plain): unknown => ownOf(properties, name) ?? additionalProperties;
  return both(of(one), of(other)) ?? true;
}

function mergeArrays(one: Plain, other: Plain): Plain {
  const made: Plain = {};
  const lists = [one, other].map(({ prefixItems }) => (prefixItems ?? []) as unknown[]);
  const length = Math.max(...lists.map((list) => list.length));
  if (length > 0) {
    made.prefixItems = Array.from({ length }, (_, i) => {
      const [a, b] = [one, other].map(({ items }, which) => lists[which]![i] ?? items);
      return both(a, b) ?? true;
    });
  }
  const rest = both(one.items, other.items);
  return rest === undefined ? made : { ...made, items: rest };
}
