// Keeps ranges of a file in the browser's Cache API, so that a second visit, or one after an abort, need not fetch them
// again. The API stores only whole responses, so each range is a response with an address of its own.

import type { Source } from "./types.js";

const TAG = "nibble-tag";
const RANGE = "nibble-range";

export class RangeCache {
  private full = false;

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
        const key = new URL(request.url);
        const tag = key.searchParams.get(TAG);
        key.searchParams.delete(TAG);
        key.searchParams.delete(RANGE);
        if (tag !== null && tag !== this.tag && key.href === this.plain()) await this.cache.delete(request);
      }
    } catch {
      // Leftover entries do no harm.
    }
  }

  private plain(): string {
    const url = new URL(this.url);
    url.hash = "";
    // Normalizes the query as forgetOthers() does, so that both compare equal.
    url.searchParams.delete(TAG);
    return url.href;
  }

  private key(offset: number, count: number): string {
    const url = new URL(this.plain());
    url.searchParams.set(TAG, this.tag);
    url.searchParams.set(RANGE, `${offset}-${offset + count}`);
    return url.href;
  }
}
