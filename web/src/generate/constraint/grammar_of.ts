// What a text must look like, as a grammar.

import type { GenerateOptions } from "../../generate_types.js";
import { invalid, refusal } from "./keywords.js";
import { wholePattern } from "./pattern.js";
import { schemaGrammar } from "./schema.js";

export const constraintNames = ["jsonSchema", "jsonObject", "regex", "grammar"] as const;

/** Undefined where nothing is asked for. At most one of them may be. */
export function grammarOf(options: GenerateOptions): string | undefined {
  const { jsonSchema, jsonObject, regex, grammar } = options;
  const given = { ...options, jsonObject: jsonObject || undefined };
  const wanted = constraintNames.filter((name) => given[name] !== undefined && given[name] !== null);
  if (wanted.length > 1) throw invalid(`only one of ${wanted.join(" and ")} can be given`);
  try {
    if (wanted[0] === "jsonSchema") return schemaGrammar(asJson(jsonSchema));
    if (wanted[0] === "jsonObject") return schemaGrammar({ type: "object" });
    if (wanted[0] === "regex") return `root ::= ${wholePattern(asText("regex", regex))}`;
    return wanted[0] === "grammar" ? asText("grammar", grammar) : undefined;
  } catch (error) {
    if (error instanceof RangeError) throw invalid(`${wanted[0]} nests too deeply`); // the stack is full
    throw error;
  }
}

function asText(name: string, value: unknown): string {
  if (typeof value !== "string") throw invalid(`${name} must be text`);
  return value;
}

/** As it would be written, so that nothing but JSON is in it. */
function asJson(schema: unknown): unknown {
  try {
    const text = typeof schema === "string" ? schema : JSON.stringify(schema);
    if (text !== undefined) return JSON.parse(text) as unknown;
  } catch (error) {
    if (error instanceof RangeError) throw error;
    throw refusal(`it is no JSON: ${error instanceof Error ? error.message.replace(/\s+/g, " ") : String(error)}`);
  }
  throw refusal(`it is no JSON: it is a ${typeof schema}`);
}
