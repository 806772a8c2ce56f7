// Streams a program: its description into the planner, its weights from the source into GPU buffers, in bounded chunks.
// No weight enters the planner's memory, and JavaScript holds no more than a few chunks at a time.

import type { Constant, Layout, Options, Profile, Upload } from "#wire";
import type { RangeCache } from "./cache.js";
import { halfFromNumber } from "./convert.js";
import type { GpuDevice } from "./device.js";
import { NibbleError } from "./errors.js";
import type { Planner } from "./planner.js";
import { Sha256 } from "./sha256.js";
import { checked, readAll, readAtMost, truncated } from "./source.js";
import { now } from "./timer.js";
import type { Source } from "./types.js";

/** Enough for most programs without their weights. */
const HEAD_BYTES = 1 << 16;
/** One upload, and one entry of the cache. */
const CHUNK = 4 << 20;
/** Constants that lie closer than this are read together. */
const GAP = 1 << 16;
/** How many bytes may wait for the GPU. */
const PENDING = 16 << 20;
/** How many bytes are hashed without a pause. */
const HASH_WINDOW = 1 << 18;
/** Stands for the size of a file whose size is unknown. */
const UNKNOWN_SIZE = 2 ** 48;

/** A program without its weights. */
interface ProgramParts {
  head: Uint8Array;
  size: number;
  program: Uint8Array;
  blob: Uint8Array;
}

export interface Planned {
  planner: Planner;
  parts: ProgramParts;
  layout: Layout;
  /** Of the blob, which names most weights by their own hashes and holds the others. */
  fingerprint: string;
}

/** Reads everything but the weights, and plans. */
export async function planProgram(
  source: Source,
  planner: Planner,
  device: Pick<GpuDevice, "profile" | "phase">,
  options: Options,
  signal: AbortSignal,
): Promise<Planned> {
  const start = now();
  const size = source.size ?? UNKNOWN_SIZE;
  const head = await readAtMost(source, 0, Math.min(HEAD_BYTES, size), signal);
  const programBytes = planner.head(head, size);
  if (programBytes === UNKNOWN_SIZE) {
    throw new NibbleError("io", `the server of ${source.name} does not tell its size, which this kind of file needs`);
  }
  // Mostly the head has all of it.
  const program =
    programBytes <= head.length ? head.subarray(0, programBytes) : await readAll(source, 0, programBytes, signal);
  const { offset, size: blobBytes } = planner.container(program, options.method);
  const blob = await readAll(source, offset, blobBytes, signal);
  const read = device.phase("read", start);
  const layout = planner.plan(blob, device.profile(), options);
  device.phase("plan", read);
  // Only what has a state can be saved.
  const fingerprint = layout.states.length === 0 ? "" : new Sha256().update(blob).digest();
  return { planner, parts: { head, size, program, blob }, layout, fingerprint };
}

/** Plans the same program with other options. */
export function planAgain(planner: Planner, before: Planned, profile: Profile, options: Options): Planned {
  const { head, size, program, blob } = before.parts;
  planner.head(head, size);
  planner.container(program, options.method);
  return { ...before, planner, layout: planner.plan(blob, profile, options) };
}

/** A range of the file that is read at once: a large constant, or several small ones. */
interface Span {
  offset: number;
  end: number;
  constants: Constant[];
  /** Its constants have sha256 keys to check them with. */
  isKeyed: boolean;
}

export interface UploadOptions {
  cache: RangeCache | undefined;
  /** Check bytes from the source against the constants' keys. Bytes from the cache are always checked. */
  verify: boolean;
  onProgress: (loaded: number, total: number, cached: number) => void;
}

/** Uploads a plan's constants. */
export class Loader {
  private loaded = 0;
  private cached = 0;
  private readonly total: number;
  private readonly spans: Span[];
  private readonly uploads = new Map<Constant, Upload[]>();
  /** Buffers that got something other than zeros. */
  readonly notZero = new Set<number>();
  private pending = 0;
  private draining: Promise<void> | undefined;
  private lastBreath = performance.now();

  constructor(
    private readonly device: GpuDevice,
    private readonly source: Source,
    layout: Layout,
    private readonly buffers: readonly GPUBuffer[],
    private readonly options: UploadOptions,
    private readonly signal: AbortSignal,
  ) {
    // Constants with the same place in the file are read once.
    const places = new Map<string, Constant>();
    for (const upload of layout.uploads) {
      if (upload.bytes === 0) continue;
      const constant = layout.constants[upload.constant]!;
      const place = `${constant.offset} ${constant.bytes}`;
      const same = places.get(place) ?? constant;
      places.set(place, same);
      const uploads = this.uploads.get(same);
      if (uploads) uploads.push(upload);
      else this.uploads.set(same, [upload]);
    }
    this.spans = makeSpans([...this.uploads.keys()]);
    this.total = this.spans.reduce((sum, { offset, end }) => sum + end - offset, 0);
  }

  async run(): Promise<void> {
    this.report(0, false);
    const waiting = [...this.spans];
    const worker = async (): Promise<void> => {
      for (let span = waiting.shift(); span; span = waiting.shift()) await this.load(span);
    };
    await Promise.all(Array.from({ length: Math.min(this.source.parallel, this.spans.length) }, worker));
    await this.drain();
    if (this.options.cache && this.cached < this.total) await this.options.cache.forgetOthers();
  }

  private async load(span: Span): Promise<void> {
    const cache = span.isKeyed ? this.options.cache : undefined;
    const first = await this.tryLoad(span, cache);
    if (first.isGood) return;
    if (first.fromCache > 0 && cache) {
      // A damaged cache entry is not an error: fetch it again.
      this.report(-first.bytes, false);
      this.report(-first.fromCache, true);
      for (let at = span.offset; at < span.end; at += CHUNK) await cache.remove(at, Math.min(CHUNK, span.end - at));
      if ((await this.tryLoad(span, cache)).isGood) return;
    }
    throw new NibbleError(
      "invalid_program",
      `bytes ${span.offset} to ${span.end} of ${this.source.name} are not those that the program was made with ` +
        "(their sha256 is another): the file is damaged, or changed while it was being read",
    );
  }

  /** Reads a span from the cache as far as possible, and the rest from the source. */
  private async tryLoad(
    span: Span,
    cache: RangeCache | undefined,
  ): Promise<{ isGood: boolean; bytes: number; fromCache: number }> {
    const target = new Target(this.device, span, this.uploads, this.buffers, this.notZero);
    let at = span.offset;
    let fromCache = 0;
    while (cache && at < span.end) {
      const chunk = await cache.get(at, Math.min(CHUNK, span.end - at));
      if (!chunk) break;
      await this.hash(target, chunk, at);
      await this.take(target, chunk, at);
      this.report(chunk.length, true);
      fromCache += chunk.length;
      at += chunk.length;
    }
    const bytes = span.end - at;
    if (bytes > 0) await this.stream(span, at, target, cache, this.options.verify || fromCache > 0);
    return { isGood: target.isGood(), bytes, fromCache };
  }

  private async stream(
    span: Span,
    start: number,
    target: Target,
    cache: RangeCache | undefined,
    verify: boolean,
  ): Promise<void> {
    const chunk = new Uint8Array(Math.min(CHUNK, span.end - start));
    let chunkStart = start;
    let held = 0;
    const flush = async (): Promise<void> => {
      const full = chunk.subarray(0, held);
      const storing = cache?.put(chunkStart, full);
      await this.take(target, full, chunkStart);
      await storing;
      chunkStart += held;
      held = 0;
    };
    for await (const piece of checked(this.source, start, span.end - start, this.signal)) {
      if (verify) await this.hash(target, piece, chunkStart + held);
      for (let at = 0; at < piece.length;) {
        const part = piece.subarray(at, at + chunk.length - held);
        chunk.set(part, held);
        held += part.length;
        at += part.length;
        if (held === chunk.length) await flush();
      }
      this.report(piece.length, false);
    }
    if (held > 0) await flush();
    if (chunkStart < span.end) throw truncated(this.source, chunkStart, span.end);
  }

  /** Hashes in small windows, with pauses, so that the page stays responsive. */
  private async hash(target: Target, bytes: Uint8Array, at: number): Promise<void> {
    for (let begin = 0; begin < bytes.length; begin += HASH_WINDOW) {
      target.hash(bytes.subarray(begin, begin + HASH_WINDOW), at + begin);
      await this.breathe();
    }
  }

  /** Writes a chunk to the GPU, and waits if too much is pending. */
  private async take(target: Target, chunk: Uint8Array, at: number): Promise<void> {
    this.signal.throwIfAborted();
    await this.device.guard("uploading a constant", () => target.write(chunk, at));
    this.pending += chunk.length;
    if (this.pending > PENDING) await this.drain();
    await this.breathe();
  }

  private drain(): Promise<void> {
    this.draining ??= (async () => {
      this.pending = 0;
      const { queue } = this.device.handle;
      await this.device.guard("uploading constants", () => {
        queue.submit([]);
        return queue.onSubmittedWorkDone();
      });
      this.draining = undefined;
    })();
    return this.draining;
  }

  private report(bytes: number, isCached: boolean): void {
    this.loaded += bytes;
    if (isCached) this.cached += bytes;
    this.options.onProgress(this.loaded, this.total, this.cached);
  }

  /** Gives the page time to respond, if data comes faster than it can be processed. */
  private async breathe(): Promise<void> {
    if (performance.now() - this.lastBreath < 8) return;
    await new Promise<void>((resolve) => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => {
        port1.close();
        resolve();
      };
      port2.postMessage(null);
    });
    this.signal.throwIfAborted();
    this.lastBreath = performance.now();
  }
}

function makeSpans(constants: Constant[]): Span[] {
  const spans: Span[] = [];
  for (const constant of constants.sort((a, b) => a.offset - b.offset)) {
    const end = constant.offset + constant.bytes;
    const isKeyed = constant.key !== "";
    const last = spans.at(-1);
    const gap = last ? constant.offset - last.end : -1;
    if (last && gap >= 0 && gap <= GAP && end - last.offset <= CHUNK && last.isKeyed === isKeyed) {
      last.end = end;
      last.constants.push(constant);
    } else {
      spans.push({ offset: constant.offset, end, constants: [constant], isKeyed });
    }
  }
  return spans;
}

/** Float32 as float16. */
function narrowed(bytes: Uint8Array): Uint16Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Uint16Array.from({ length: bytes.length / 4 }, (_, i) => halfFromNumber(view.getFloat32(4 * i, true)));
}

/** Takes a span's bytes, in order, and passes them to hashes and buffers. */
class Target {
  private readonly sinks: { constant: Constant; hash: Sha256; hashed: number; writers: Writer[] }[];

  constructor(
    device: GpuDevice,
    span: Span,
    uploads: ReadonlyMap<Constant, Upload[]>,
    buffers: readonly GPUBuffer[],
    notZero: Set<number>,
  ) {
    this.sinks = span.constants.map((constant) => ({
      constant,
      hash: new Sha256(),
      hashed: 0,
      writers: uploads
        .get(constant)!
        .map((upload) => new Writer(device.handle.queue, buffers[upload.buffer]!, upload, notZero)),
    }));
  }

  hash(bytes: Uint8Array, at: number): void {
    for (const sink of this.sinks) {
      const part = cut(bytes, at, sink.constant.offset, sink.constant.bytes);
      if (part.length === 0) continue;
      sink.hash.update(part);
      sink.hashed += part.length;
    }
  }

  write(bytes: Uint8Array, at: number): void {
    for (const { writers } of this.sinks) for (const writer of writers) writer.write(bytes, at);
  }

  /** Whether all constants that were hashed completely have the right hash. */
  isGood(): boolean {
    return this.sinks.every(
      ({ constant, hash, hashed }) => constant.key === "" || hashed < constant.bytes || hash.digest() === constant.key,
    );
  }
}

/**
 * Writes one upload. A queue accepts only multiples of 4 bytes, so a remainder is held until more bytes come. If
 * float32 becomes float16, the unit is 8 bytes, which become 4.
 */
class Writer {
  private at: number;
  private done = 0;
  private held = 0;
  private readonly tail: Uint8Array;

  constructor(
    private readonly queue: GPUQueue,
    private readonly buffer: GPUBuffer,
    private readonly upload: Upload,
    private readonly notZero: Set<number>,
  ) {
    this.at = upload.bufferOffset;
    this.tail = new Uint8Array(upload.narrow ? 8 : 4);
  }

  /** `bytes` begin at `at` in the file. Only those that belong to the upload are used. */
  write(bytes: Uint8Array, at: number): void {
    const part = cut(bytes, at, this.upload.fileOffset, this.upload.bytes);
    const { buffer } = this.upload;
    if (!this.notZero.has(buffer) && part.some((byte) => byte !== 0)) this.notZero.add(buffer);
    let start = 0;
    const unit = this.tail.length;
    while (this.held > 0 && this.held < unit && start < part.length) this.tail[this.held++] = part[start++]!;
    if (this.held === unit) this.flush();
    const whole = Math.floor((part.length - start) / unit) * unit;
    if (whole > 0) this.send(part.subarray(start, start + whole));
    for (let i = start + whole; i < part.length; ++i) this.tail[this.held++] = part[i]!;
    this.done += part.length;
    if (this.done === this.upload.bytes && this.held > 0) this.flush();
  }

  private flush(): void {
    this.tail.fill(0, this.held);
    this.send(this.tail);
    this.held = 0;
  }

  private send(bytes: Uint8Array): void {
    const out = this.upload.narrow ? narrowed(bytes) : bytes;
    this.queue.writeBuffer(this.buffer, this.at, out.buffer as ArrayBuffer, out.byteOffset, out.byteLength);
    this.at += out.byteLength;
  }
}

/** `bytes` begin at `at` in the file. Gives those that lie in the `count` bytes from `offset` on. */
function cut(bytes: Uint8Array, at: number, offset: number, count: number): Uint8Array {
  const from = Math.min(Math.max(offset - at, 0), bytes.length);
  const to = Math.min(Math.max(offset + count - at, from), bytes.length);
  return bytes.subarray(from, to);
}
