// Nibble in Node: Dawn, from the npm package `webgpu`.

import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { create } from "webgpu";
import type * as Nibble from "../../src/index.js";
import type { Environment } from "./cases.js";
import { root } from "./places.js";

export const gpu = create([]);

/** As it is published, not as it is written. */
export async function nodeEnvironment(base: string): Promise<Environment> {
  const nibble = (await import(pathToFileURL(join(root, "web", "dist", "nibble.js")).href)) as typeof Nibble;
  return { nibble, options: { gpu }, base };
}
