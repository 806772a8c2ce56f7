// Where things are, and a server for them.

import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { TestServer } from "./server.js";

/** Tests run from build/web/tests/…, wherever they were bundled from. */
function findRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!folder.endsWith(join("build", "web"))) folder = dirname(folder);
  return resolve(folder, "..", "..");
}

export const root = findRoot();
export const programs = process.env.NIBBLE_PROGRAMS ?? join(root, "build", "programs");
export const cases = process.env.NIBBLE_WEB_CASES ?? join(root, "build", "web", "cases");
/** Whether everything is wanted, and not the selection of every day. */
export const isFull = Boolean(process.env.NIBBLE_TEST_FULL);
export const models = process.env.NIBBLE_MODELS ?? join(root, "build", "models");

/** The pages of web/demo. */
export const pages = join(root, "build", "web", "pages");

export function makeServer(): TestServer {
  return new TestServer({
    programs,
    built: join(cases, "built"),
    cases,
    models,
    conformance: join(root, "tests", "conformance"),
    dist: join(root, "web", "dist"),
    tests: join(root, "build", "web", "tests"),
    pages: join(root, "web", "tests", "browser"),
    demo: pages,
    web: join(root, "build", "web"),
  });
}
