// Keeps ranges of a file in the browser's Cache API, so that a second visit, or one after an abort, need not fetch them
// again. The API stores only whole responses, so each range is a response with an address of its own.
//
// What is read before the weights is kept last. So a file whose beginning is kept was loaded completely, and can be loaded
// again while its server cannot be reached.

import { concat, sizeOf } from "./http_source.js";
import type { Source } from "./types.js";

const TAG = "nibble-tag";
const RANGE = "nibble-range";

export class RangeCache {
  private full = false;
  /** What was read through `remembering()`. */
  private readonly head: { offset: number; bytes: Uint8Array }[] = [];

  private constructor(
    private readonly cache: Cache,
    private readonly url: string,
    private readonly tag: string,
  ) {}

  /** Undefined if there is no cache, or if the source has no version. */
  static async open(name: string, source: Source): Promise<RangeCache | undefined> {
    if (!source.version || !/^https?:/.test(source.version.url) || typeof caches === "undefined") return undefined;
    try {
      return new RangeCache(await caches.open(name), source.version.url, source.version.tag);
    } catch {
      return undefined; // storage is switched off: use the network
    }
  }

  /** A file that was loaded before, which nobody else can give: its server failed with `error`. */
  static async find(name: string, url: URL, error: unknown): Promise<Source | undefined> {
    if (typeof caches === "undefined") return undefined;
    try {
      // Without making one.
      if (!(await caches.has(name))) return undefined;
      const cache = await caches.open(name);
      const plain = plainOf(url);
      for (const request of await cache.keys()) {
        const key = keyOf(request);
        if (key.plain === plain && key.range.startsWith("0-")) {
          return keptSource(new RangeCache(cache, url.href, key.tag), key.tag, url, error);
        }
      }
    } catch {
      // storage is switched off
    }
    return undefined;
  }

  /** The same source. What is read through it is kept by `keepHead()`. */
  remembering(source: Source): Source {
    const { head } = this;
    return {
      name: source.name,
      size: source.size,
      parallel: source.parallel,
      async *read(offset, count, signal) {
        const pieces: Uint8Array[] = [];
        for await (const piece of source.read(offset, count, signal)) {
          pieces.push(piece);
          yield piece;
        }
        head.push({ offset, bytes: concat(pieces) });
      },
    };
  }

  /** Once all weights are there. */
  async keepHead(): Promise<void> {
    for (const { offset, bytes } of this.head.splice(0)) await this.put(offset, bytes);
  }

  /** The range's bytes, if the cache has all of them. */
  async get(offset: number, count: number): Promise<Uint8Array | undefined> {
    try {
      const response = await this.cache.match(this.key(offset, count));
      const bytes = response && new Uint8Array(await response.arrayBuffer());
      return bytes?.length === count ? bytes : undefined;
    } catch {
      return undefined;
    }
  }

  /** Stores a range. Once the cache is full, nothing more is stored. */
  async put(offset: number, bytes: Uint8Array): Promise<void> {
    if (this.full) return;
    const headers = { "content-type": "application/octet-stream", "content-length": String(bytes.length) };
    try {
      await this.cache.put(this.key(offset, bytes.length), new Response(bytes as Uint8Array<ArrayBuffer>, { headers }));
    } catch {
      this.full = true;
    }
  }

  async remove(offset: number, count: number): Promise<void> {
    await this.cache.delete(this.key(offset, count)).catch(() => false);
  }

  /** Removes the entries of other versions of the file. */
  async forgetOthers(): Promise<void> {
    try {
      for (const request of await this.cache.keys()) {
        const { plain, tag } = keyOf(request);
        if (tag !== "" && tag !== this.tag && plain === plainOf(this.url)) await this.cache.delete(request);
      }
    } catch {
      // Leftover entries do no harm.
    }
  }

  private key(offset: number, count: number): string {
    const url = new URL(plainOf(this.url));
    url.searchParams.set(TAG, this.tag);
    url.searchParams.set(RANGE, `${offset}-${offset + count}`);
    return url.href;
  }
}

/** A file's address, as it is part of keys. */
function plainOf(address: string | URL): string {
  const url = new URL(address);
  url.hash = "";
  // Normalizes the query as keyOf() does, so that both compare equal.
  url.searchParams.delete(TAG);
  return url.href;
}

function keyOf(request: Request): { plain: string; tag: string; range: string } {
  const url = new URL(request.url);
  const [tag, range] = [TAG, RANGE].map((name) => {
    const value = url.searchParams.get(name) ?? "";
    url.searchParams.delete(name);
    return value;
  });
  return { plain: url.href, tag: tag!, range: range! };
}

function keptSource(cache: RangeCache, tag: string, url: URL, error: unknown): Source {
  return {
    name: url.href,
    size: sizeOf(tag),
    parallel: 2,
    version: { url: url.href, tag, certain: true },
    async *read(offset, count) {
      const bytes = await cache.get(offset, count);
      if (!bytes) throw error;
      yield bytes;
    },
  };
}
