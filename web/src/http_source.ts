// A file on a server. It is read by ranges, or in one pass from the beginning if the server has no ranges.

import { failure, NibbleError } from "./errors.js";
import type { Source } from "./types.js";

/** The size of the first request. Most programs without their weights fit. */
const FIRST_BYTES = 1 << 16;

/** Finds the file among those that an earlier visit kept. */
type FindKept = (error: unknown) => Promise<Source | undefined>;

export class HttpSource implements Source {
  readonly name: string;
  readonly parallel: number;
  readonly version: { url: string; tag: string; certain: boolean };
  /** The response that is read in one pass; undefined if the server has ranges. */
  private pass: Pass | undefined;

  private constructor(
    private readonly url: URL,
    readonly size: number | undefined,
    /** The file's first bytes, which are fetched only once. */
    private readonly first: Uint8Array,
    private readonly tag: string,
    pass: Pass | undefined,
  ) {
    this.name = url.href;
    this.pass = pass;
    this.parallel = pass ? 1 : 4;
    this.version = { url: url.href, tag: withSize(tag, size), certain: tag !== "" };
  }

  /** `kept` is asked for the file if its server cannot be reached. */
  static async open(url: URL, signal: AbortSignal, kept?: FindKept): Promise<Source> {
    let response: Response;
    try {
      response = await ask(url, signal, 0, FIRST_BYTES);
    } catch (error) {
      const source = signal.aborted ? undefined : await kept?.(error);
      if (source) return source;
      throw error;
    }
    checkRange(url, response, 0);
    if (response.status === 416) return new HttpSource(url, 0, new Uint8Array(0), tagOf(response), undefined);
    const hasRanges = response.status === 206;
    if (!response.ok) throw refused(url, statusOf(response));
    const pass = new Pass(response, url);
    const pieces: Uint8Array[] = [];
    for await (const piece of pass.take(0, FIRST_BYTES, signal)) pieces.push(piece);
    const size = hasRanges ? (totalOf(response) ?? (await askSize(url, signal))) : lengthOf(response);
    return new HttpSource(url, size, concat(pieces), tagOf(response), hasRanges ? undefined : pass);
  }

  async *read(offset: number, count: number, signal: AbortSignal): AsyncIterable<Uint8Array> {
    const known = this.first.subarray(offset, offset + count);
    if (known.length > 0) yield known;
    offset += known.length;
    count -= known.length;
    if (count <= 0) return;
    if (this.pass) {
      if (offset < this.pass.position) this.pass = await this.restart(signal);
      yield* this.pass.take(offset, count, signal);
      return;
    }
    // Servers answer a range past the end with an error.
    if (this.size !== undefined) count = Math.min(count, this.size - offset);
    if (count <= 0) return;
    const response = await request(this.url, signal, offset, count);
    this.checkVersion(response);
    if (response.status !== 206) throw response.ok ? this.changed() : refused(this.url, statusOf(response));
    yield* new Pass(response, this.url, offset).take(offset, count, signal);
  }

  close(): void {
    this.pass?.cancel();
  }

  private async restart(signal: AbortSignal): Promise<Pass> {
    this.pass?.cancel();
    const response = await request(this.url, signal);
    if (!response.ok || response.status === 206) throw refused(this.url, statusOf(response));
    this.checkVersion(response);
    return new Pass(response, this.url);
  }

  private checkVersion(response: Response): void {
    const total = response.status === 206 ? totalOf(response) : response.ok ? lengthOf(response) : undefined;
    const resized = total !== undefined && this.size !== undefined && total !== this.size;
    if (response.status === 416 || resized || (response.ok && tagOf(response) !== this.tag)) throw this.changed();
  }

  private changed(): NibbleError {
    return new NibbleError("io", `${this.name} changed while it was being read: load it again`);
  }
}

/** Reads a response's body from start to end. */
class Pass {
  private readonly reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  private held: Uint8Array = new Uint8Array(0);

  constructor(
    response: Response,
    private readonly url: URL,
    public position = 0,
  ) {
    this.reader = response.body?.getReader();
  }

  /** `count` bytes from `offset` on; `offset` must not be before `position`. */
  async *take(offset: number, count: number, signal: AbortSignal): AsyncIterable<Uint8Array> {
    const end = offset + count;
    while (this.position < end) {
      const piece = this.held.length > 0 ? this.held : await this.next(signal);
      if (piece === undefined) return;
      const from = Math.min(Math.max(offset - this.position, 0), piece.length);
      const to = Math.min(end - this.position, piece.length);
      this.held = piece.subarray(to);
      this.position += to;
      if (from < to) yield piece.subarray(from, to);
    }
  }

  cancel(): void {
    this.reader?.cancel().catch(() => undefined);
  }

  private async next(signal: AbortSignal): Promise<Uint8Array | undefined> {
    try {
      const { value } = (await this.reader?.read()) ?? {};
      return value;
    } catch (error) {
      throw failed(this.url, signal, error);
    }
  }
}

async function request(url: URL, signal: AbortSignal, offset = 0, count = 0): Promise<Response> {
  const response = await ask(url, signal, offset, count);
  checkRange(url, response, offset);
  return response;
}

/** Bypasses the browser's own cache, which does not help with ranges of a large file; `load()` has its own. */
async function ask(url: URL, signal: AbortSignal, offset: number, count: number): Promise<Response> {
  try {
    const headers: HeadersInit = count ? { Range: `bytes=${offset}-${offset + count - 1}` } : {};
    return await fetch(url, { signal, cache: "no-store", headers });
  } catch (error) {
    throw failed(url, signal, error);
  }
}

/** A server of another origin may hide which range it gives. */
function checkRange(url: URL, response: Response, offset: number): void {
  const range = response.headers.get("content-range");
  if (response.status === 206 && range !== null && !range.toLowerCase().startsWith(`bytes ${offset}-`)) {
    throw refused(url, `with ${range} when asked for bytes from ${offset} on`);
  }
}

function failed(url: URL, signal: AbortSignal, error: unknown): unknown {
  if (signal.aborted) return signal.reason;
  return failure("io", `reading ${url.href} failed`, error);
}

function refused(url: URL, answer: string): NibbleError {
  return new NibbleError("io", `${url.href} cannot be read: the server answered ${answer}`);
}

function statusOf(response: Response): string {
  return `${response.status} ${response.statusText}`.trimEnd();
}

export function concat(pieces: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

/** Identifies the version of the file; empty if the server does not say. */
function tagOf(response: Response): string {
  return response.headers.get("etag") ?? response.headers.get("last-modified") ?? "";
}

/** Identifies the version together with the size, which `sizeOf()` tells again. */
function withSize(tag: string, size: number | undefined): string {
  return `${tag}/${size ?? ""}`;
}

export function sizeOf(version: string): number | undefined {
  const size = version.slice(version.lastIndexOf("/") + 1);
  return size === "" ? undefined : Number(size);
}

/** `bytes 0-99/1234` has 1234 bytes. */
function totalOf(response: Response): number | undefined {
  const total = /\/(\d+)$/.exec(response.headers.get("content-range") ?? "")?.[1];
  return total === undefined ? undefined : Number(total);
}

/** The length of the file. Unknown if the transfer is compressed, because the header then has another length. */
function lengthOf(response: Response): number | undefined {
  const length = response.headers.get("content-length");
  return length === null || response.headers.has("content-encoding") ? undefined : Number(length);
}

/** Asks for the file's size. A server of another origin may hide it in answers to range requests. */
async function askSize(url: URL, signal: AbortSignal): Promise<number | undefined> {
  try {
    const response = await fetch(url, { method: "HEAD", signal, cache: "no-store" });
    return response.ok ? lengthOf(response) : undefined;
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    return undefined;
  }
}
