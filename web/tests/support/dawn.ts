// Nibble in Node: Dawn, from the npm package `webgpu`.

import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { create } from "webgpu";
import type * as Generate from "../../src/generate.js";
import type * as Nibble from "../../src/index.js";
import type { Environment } from "./cases.js";
import { root } from "./places.js";

// While a promise of Dawn's is open, the package asks for events in every turn of the event loop, by the global
// setImmediate. That keeps a core busy, which compiles kernels if there is a millisecond between two questions.
Object.assign(globalThis, { setImmediate: (ask: () => void) => setTimeout(ask, 1) });

export const gpu = create([]);

/** As it is published, not as it is written. */
export async function nodeEnvironment(base: string): Promise<Environment> {
  const dist = (name: string): string => pathToFileURL(join(root, "web", "dist", name)).href;
  const nibble = (await import(dist("nibble.js"))) as typeof Nibble;
  const generate = (await import(dist("generate.js"))) as typeof Generate;
  return { nibble, generate, options: { gpu }, base };
}
