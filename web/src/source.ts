// Sources that give the bytes of a program file by position.

import { RangeCache } from "./cache.js";
import { failure, invalid, messageOf, NibbleError, textOf } from "./errors.js";
import { HttpSource } from "./http_source.js";
import { isSize } from "./options.js";
import type { ProgramSource, Source } from "./types.js";

export type { ProgramSource, Source };

/** How many bytes a source gives at a time. */
const PIECE = 1 << 20;

/** `cacheName`: the cache in which to look for a file whose server cannot be reached. */
export async function openSource(from: ProgramSource, signal: AbortSignal, cacheName?: string): Promise<Source> {
  if (typeof from === "string" || from instanceof URL) {
    const url = resolve(from);
    if (url === undefined || url.protocol === "file:") return openFile(url ?? String(from));
    const kept = cacheName === undefined ? undefined : (error: unknown) => RangeCache.find(cacheName, url, error);
    return HttpSource.open(url, signal, kept);
  }
  if (from instanceof Blob) return new BlobSource(from);
  if (from instanceof ArrayBuffer || ArrayBuffer.isView(from)) return new BytesSource(bytesOf(from));
  if (typeof (from as Source | undefined)?.read === "function") return checkSource(from);
  throw invalid("a program is loaded from an address, a Blob, bytes or a Source");
}

function bytesOf(from: ArrayBuffer | ArrayBufferView): Uint8Array {
  try {
    return ArrayBuffer.isView(from)
      ? new Uint8Array(from.buffer, from.byteOffset, from.byteLength)
      : new Uint8Array(from);
  } catch (error) {
    throw invalid(`the bytes of the program cannot be read: ${messageOf(error)}`);
  }
}

function checkSource(source: Source): Source {
  const { size, parallel } = source;
  if (size !== undefined && !isSize(size))
    throw invalid(`the size of a Source is a number of bytes, not ${textOf(size)}`);
  // Without a single read, weights would stay zeros.
  if (!isSize(parallel) || parallel === 0) {
    throw invalid(`how many reads of a Source may run at the same time is a number from 1 on, not ${textOf(parallel)}`);
  }
  return source;
}

/** Undefined for a file path, which only Node accepts. */
function resolve(address: string | URL): URL | undefined {
  const base = (globalThis as { location?: { href: string } }).location?.href;
  try {
    return new URL(address, base);
  } catch {
    if (base === undefined) return undefined;
    throw invalid(`${String(address)} is not an address`);
  }
}

/** Exactly `count` bytes, or an error. */
export async function readAll(source: Source, offset: number, count: number, signal: AbortSignal): Promise<Uint8Array> {
  const bytes = await readAtMost(source, offset, count, signal);
  if (bytes.length < count) throw truncated(source, offset + bytes.length, offset + count);
  return bytes;
}

/** `count` bytes, or fewer at the end of the file. */
export async function readAtMost(
  source: Source,
  offset: number,
  count: number,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const bytes = makeBytes(count, source);
  let at = 0;
  for await (const piece of checked(source, offset, count, signal)) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes.subarray(0, at);
}

/** A source's pieces. A caller's own source may give what it should not. */
export async function* checked(
  source: Source,
  offset: number,
  count: number,
  signal: AbortSignal,
): AsyncIterable<Uint8Array> {
  let at = 0;
  for await (const piece of source.read(offset, count, signal)) {
    if (!(piece instanceof Uint8Array)) throw invalid(`${source.name} gave a piece that is no Uint8Array`);
    at += piece.length;
    if (at > count) throw invalid(`${source.name} gave ${at} bytes, but was asked for ${count}`);
    yield piece;
  }
}

/** A file may say that it needs more memory than there is. */
function makeBytes(count: number, source: Source): Uint8Array<ArrayBuffer> {
  try {
    return new Uint8Array(count);
  } catch (error) {
    throw failure("out_of_memory", `there is no memory for ${count} bytes of ${source.name}`, error);
  }
}

export function truncated(source: Source, end: number, wanted: number): NibbleError {
  return new NibbleError(
    "io",
    `${source.name} ended after ${end} bytes, but ${wanted} are needed: the file is truncated, or was not sent in full`,
  );
}

class BytesSource implements Source {
  readonly name = "the program";
  readonly parallel = 1;

  constructor(private readonly bytes: Uint8Array) {}

  get size(): number {
    return this.bytes.length;
  }

  async *read(offset: number, count: number): AsyncIterable<Uint8Array> {
    const end = Math.min(offset + count, this.bytes.length);
    for (let at = offset; at < end; at += PIECE) yield this.bytes.subarray(at, Math.min(at + PIECE, end));
  }
}

class BlobSource implements Source {
  readonly name: string;
  readonly parallel = 2;

  constructor(private readonly blob: Blob) {
    this.name = (blob as Partial<File>).name ?? "the program";
  }

  get size(): number {
    return this.blob.size;
  }

  async *read(offset: number, count: number): AsyncIterable<Uint8Array> {
    const end = Math.min(offset + count, this.blob.size);
    for (let at = offset; at < end; at += PIECE) {
      try {
        yield new Uint8Array(await this.blob.slice(at, Math.min(at + PIECE, end)).arrayBuffer());
      } catch (error) {
        throw failure("io", `reading ${this.name} failed`, error);
      }
    }
  }
}

/** A file in Node. */
async function openFile(path: string | URL): Promise<Source> {
  const name = String(path);
  const fail = (error: unknown): NibbleError => failure("io", `${name} cannot be read`, error);
  try {
    const { open } = await import(/* @vite-ignore */ /* webpackIgnore: true */ "node:fs/promises");
    const file = await open(path);
    const stat = () => file.stat({ bigint: true });
    const begun = await stat().catch(async (error: unknown) => {
      await file.close();
      throw error;
    });
    const size = Number(begun.size);
    return {
      name,
      size,
      parallel: 2,
      async *read(offset, count) {
        const end = Math.min(offset + count, size);
        for (let at = offset; at < end;) {
          const buffer = new Uint8Array(Math.min(PIECE, end - at));
          const { bytesRead } = await file.read(buffer, 0, buffer.length, at).catch((error: unknown) => {
            throw fail(error);
          });
          const now = await stat().catch((error: unknown) => {
            throw fail(error);
          });
          if (now.size !== begun.size || now.mtimeNs !== begun.mtimeNs) {
            throw new NibbleError("io", `${name} changed while it was read`);
          }
          if (bytesRead === 0) return;
          at += bytesRead;
          yield buffer.subarray(0, bytesRead);
        }
      },
      close: () => void file.close(),
    };
  } catch (error) {
    throw fail(error);
  }
}
