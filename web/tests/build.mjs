// Bundles the tests into build/web/tests: those for Node one by one, and what pages and workers of Chromium load.

import { build } from "esbuild";
import { existsSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const outdir = fileURLToPath(new URL("../../build/web/tests/", import.meta.url));
const common = {
  absWorkingDir: here,
  bundle: true,
  format: "esm",
  target: "es2022",
  outdir,
  outbase: here,
  tsconfig: `${here}tsconfig.json`,
  sourcemap: "inline",
  logLevel: "warning",
};

const tests = readdirSync(here, { recursive: true }).filter((file) => file.endsWith(".test.ts"));
rmSync(outdir, { recursive: true, force: true });
// Bundles find packages where their sources do.
const packages = fileURLToPath(new URL("../../build/web/node_modules", import.meta.url));
if (!existsSync(packages)) symlinkSync(fileURLToPath(new URL("../node_modules", import.meta.url)), packages);
await build({ ...common, platform: "node", packages: "external", entryPoints: tests });
await build({ ...common, platform: "browser", external: ["node:*"], entryPoints: ["browser/page.ts"] });
