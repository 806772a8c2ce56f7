// The files of a language model: addresses, in Node also paths.

import { type ErrorCode, NibbleError } from "#nibble";

/** A failure whose cause was caught, in one line. */
export function failed(code: ErrorCode, what: string, cause: unknown): NibbleError {
  const why = cause instanceof Error ? cause.message || cause.name : String(cause);
  return new NibbleError(code, `${what}: ${why.replace(/\s+/g, " ").trim()}`, { cause });
}

/** The file `name` beside others in a folder. */
export function inFolder(folder: string | URL, name: string): string {
  return `${String(folder).replace(/\/$/, "")}/${name}`;
}

export async function readBytes(from: string | URL, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  try {
    const url = resolve(from);
    if (url === undefined || url.protocol === "file:") {
      const { readFile } = await import(/* @vite-ignore */ /* webpackIgnore: true */ "node:fs/promises");
      return new Uint8Array(await readFile(url ?? String(from)));
    }
    const response = await fetch(url, signal ? { signal } : {});
    if (!response.ok) throw new Error(`the server answered ${response.status} ${response.statusText}`.trimEnd());
    return new Uint8Array(await response.arrayBuffer());
  } catch (error) {
    signal?.throwIfAborted();
    throw failed("io", `${String(from)} cannot be read`, error);
  }
}

/** Undefined for a file path, which only Node accepts. */
function resolve(address: string | URL): URL | undefined {
  const base = (globalThis as { location?: { href: string } }).location?.href;
  try {
    return new URL(address, base);
  } catch (error) {
    if (base === undefined) return undefined;
    throw error;
  }
}

/** A JSON object: one that is given, or that of a file. */
export async function readJson(
  from: string | URL | object,
  signal: AbortSignal | undefined,
): Promise<Record<string, unknown>> {
  if (typeof from === "object" && !(from instanceof URL)) return from as Record<string, unknown>;
  const bytes = await readBytes(from, signal);
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder().decode(bytes));
  } catch (error) {
    throw failed("invalid_program", `${String(from)} is no JSON`, error);
  }
  if (typeof json === "object" && json !== null) return json as Record<string, unknown>;
  throw new NibbleError("invalid_program", `${String(from)} holds no JSON object`);
}
