// Runs the pages, prints the table and writes the figures.

import { readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { launch } from "../../web/tests/support/chromium.ts";
import { root } from "../../web/tests/support/places.ts";
import { TestServer } from "../../web/tests/support/server.ts";

const out = join(root, "build", "web", "bench");
const ort = join(root, "bench", "web", "node_modules", "onnxruntime-web", "dist");
const dist = join(root, "web", "dist");
const COUNTS = [1, 128, 1024];
const ROUNDS = 20;
const NAMES = ["nibble", "onnxruntime"];

const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(bytes < 1e6 ? 2 : 1)} MB`;

async function onPage(base, use) {
  const browser = await launch("--enable-precise-memory-info");
  try {
    const page = await browser.context.newPage();
    page.on("console", (message) => message.type() === "error" && console.error(message.text()));
    await page.goto(`${base}/files/pages/page.html`);
    await page.waitForFunction(() => "bench" in globalThis);
    return { ...(await use(page)), version: browser.context.browser()?.version() ?? "" };
  } finally {
    await browser.close();
  }
}

/** The files that the server sent for a runtime, its model excluded, and their sizes gzipped. */
function packageBytes(served) {
  const files = [...new Set(served.map(({ path }) => path))].filter((path) => /\/(dist|ort)\//.test(path));
  return files.reduce((sum, path) => {
    const [folder, name] = path.split("/").slice(2);
    return sum + gzipSync(readFileSync(join(folder === "ort" ? ort : dist, name)), { level: 9 }).length;
  }, 0);
}

const server = new TestServer({ bench: out, pages: join(root, "bench", "web"), dist, ort });
const base = await server.start();
const firsts = {};
for (const name of NAMES) {
  const runs = [];
  for (let i = 0; i < 3; ++i) {
    const from = server.log.length;
    const run = await onPage(base, (page) => page.evaluate((which) => globalThis.bench.first(which), name));
    runs.push({ ...run, bytes: packageBytes(server.log.slice(from)) });
  }
  firsts[name] = {
    milliseconds: median(runs.map((run) => run.milliseconds)),
    js: Math.max(...runs.map((run) => run.js)),
    wasm: Math.max(...runs.map((run) => run.wasm)),
    bytes: runs[0].bytes,
    row: runs[0].row,
  };
}
const compared = await onPage(base, (page) =>
  page.evaluate(([counts, rounds]) => globalThis.bench.compare(counts, rounds), [COUNTS, ROUNDS]),
);
server.stop();

const rows = compared.results.map(({ count, ...times }) => ({
  what: `${count} ${count === 1 ? "id" : "ids"}, median of ${ROUNDS}`,
  values: NAMES.map((name) => median(times[name])),
  text: (value) => `${value.toFixed(2)} ms`,
}));
const more = (what, key, text) => rows.push({ what, values: NAMES.map((name) => firsts[name][key]), text });
more("package, gzipped", "bytes", megabytes);
more("navigation to first result", "milliseconds", (value) => `${value.toFixed(0)} ms`);
more("peak JS heap", "js", megabytes);
more("peak wasm memory", "wasm", megabytes);
rows.push({
  what: "peak JS + wasm",
  values: NAMES.map((name) => firsts[name].js + firsts[name].wasm),
  text: megabytes,
});

const machine = `${cpus().length} × ${cpus()[0].model.trim()}, ${compared.device}, Chromium ${compared.version}`;
console.log(`128256 × 2048, 4 bits, groups of 32, float32 scales; readback included\n${machine}\n`);
console.log("| | Nibble | onnxruntime-web | ratio |\n|---|---:|---:|---:|");
for (const { what, values, text } of rows) {
  const [ours, theirs] = values;
  console.log(`| ${what} | ${text(ours)} | ${text(theirs)} | ${(theirs / ours).toFixed(1)} |`);
}
const at = process.argv.indexOf("--json");
const file = at > 0 ? process.argv[at + 1] : join(out, "results.json");
writeFileSync(file, `${JSON.stringify({ machine, firsts, compared }, null, 1)}\n`);
