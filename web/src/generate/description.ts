// What generation.json says of a model. Files come from anywhere, so each member is checked.

import { NibbleError } from "#nibble";

const FORMAT = 1;

export interface Description {
  name: string;
  /** A file beside this one. */
  program: string;
  stopIds: readonly number[];
  bosId: number | undefined;
  eosId: number | undefined;
  addsBos: boolean;
  chatTemplate: string | undefined;
}

/** `place` is what errors call it; `program` what the caller names, if that is a program. */
export function describe(json: Record<string, unknown>, place: string, program?: string): Description {
  const refuse = (why: string): NibbleError => new NibbleError("invalid_program", `${place} cannot be used: ${why}`);
  /** null is as if it were not there. */
  const get = <T>(key: string, kind: string, isKind: (value: unknown) => boolean): T | undefined => {
    const value = Object.hasOwn(json, key) ? json[key] : undefined;
    if (value === undefined || value === null) return undefined;
    if (!isKind(value)) throw refuse(`its ${key} is ${shortened(value)}, which is no ${kind}`);
    return value as T;
  };
  const text = (key: string): string | undefined => get<string>(key, "text", (value) => typeof value === "string");
  const token = (key: string): number | undefined => get<number>(key, "token", isToken);
  const format = get<number>("format", "number", Number.isSafeInteger) ?? FORMAT;
  if (format !== FORMAT) throw refuse(`its format is ${format}, but only ${FORMAT} is known`);
  const own = text("program") ?? program ?? "model.pte";
  // A file that came with a model shall not reach others.
  if (!/^[\p{L}\p{M}\p{N}_.+ -]+$/u.test(own) || /^\.+$/.test(own)) {
    throw refuse(`its program is ${shortened(own)}, which is no file's name`);
  }
  if (program !== undefined && own !== program) throw refuse(`it belongs to '${own}' and not to '${program}'`);
  const stopIds = get<number[]>("stop_ids", "list", Array.isArray);
  if (!stopIds?.every(isToken)) throw refuse("it must list stop_ids, numbers of tokens");
  const bosId = token("bos_id");
  return {
    name: text("name") || "a language model",
    program: own,
    stopIds,
    bosId,
    // Who wrote no eos_id means the first.
    eosId: token("eos_id") ?? stopIds[0],
    addsBos: (get<boolean>("add_bos", "truth", (value) => typeof value === "boolean") ?? false) && bosId !== undefined,
    chatTemplate: text("chat_template") || undefined,
  };
}

function isToken(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 31;
}

function shortened(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}
