// Tunings that are kept from visit to visit: in the browser's Cache API, or where the caller says.

import type { DeviceTuning, TuningFile, TuningStore } from "../types.js";

/** What is kept for a program. */
export interface Kept {
  file: TuningFile | undefined;
  key: string;
  store: TuningStore | undefined;
}

/** `blob`: the program. Without a store, and without a Cache API of this name, nothing is kept. */
export async function findTunings(
  blob: Uint8Array,
  given: TuningStore | undefined,
  cacheName: string | undefined,
): Promise<Kept> {
  const store = given ?? cacheStore(cacheName);
  let key = "";
  try {
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", blob as Uint8Array<ArrayBuffer>));
    key = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
    const text = await store?.get(key);
    return { file: text ? (JSON.parse(text) as TuningFile) : undefined, key, store };
  } catch {
    return { file: undefined, key, store }; // nothing is kept, or what nobody can read
  }
}

/** Keeps a tuning, in place of one of the same device. A program runs as well where nothing can be kept. */
export async function keepTuning({ file, key, store }: Kept, tuning: DeviceTuning): Promise<void> {
  if (!store || key === "") return;
  const others = Array.isArray(file?.tunings) ? file.tunings : [];
  const isOther = ({ device, driver, engine }: DeviceTuning): boolean =>
    device !== tuning.device || driver !== tuning.driver || engine !== tuning.engine;
  try {
    await store.put(key, JSON.stringify({ tunings: [...others.filter(isOther), tuning] }));
  } catch {
    // It is measured again the next time.
  }
}

function cacheStore(name: string | undefined): TuningStore | undefined {
  if (name === undefined || typeof caches === "undefined") return undefined;
  const address = (key: string): string => `https://nibble.invalid/tuning/${key}`;
  return {
    get: async (key) => (await (await caches.open(name)).match(address(key)))?.text(),
    put: async (key, text) => (await caches.open(name)).put(address(key), new Response(text)),
  };
}
