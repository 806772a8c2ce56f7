// How long a constraint takes of each token in JavaScript: node bench/web/mask.mjs [FOLDER]. FOLDER is what `nibble import`
// made, by default build/smollm2; scripts/build_web.py makes what it measures. The text is random, of tokens that may come.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const root = join(import.meta.dirname, "..", "..");
const { build } = createRequire(join(root, "web", "package.json"))("esbuild");
const folder = process.argv[2] ?? join(root, "build", "smollm2");
const bundle = join(root, "build", "web", "mask.mjs");
await build({
  stdin: {
    contents: `export { Constraints } from "./generate/constraint_module.js";
      export { grammarOf } from "./generate/constraint/grammar_of.js";
      export { ModelTokenizer } from "./generate/tokenizer.js";`,
    resolveDir: join(root, "web", "src"),
  },
  bundle: true,
  format: "esm",
  platform: "node",
  outfile: bundle,
  logLevel: "error",
});
const { Constraints, grammarOf, ModelTokenizer } = await import(pathToFileURL(bundle));

const read = (name) => JSON.parse(readFileSync(join(folder, name), "utf8"));
const facts = read("generation.json");
const tokens = new ModelTokenizer(read("tokenizer.json"), "tokenizer.json").allBytes(facts.vocabulary);
const wasm = readFileSync(join(root, "web", "dist", "constraint.wasm"));
const constraints = await Constraints.load(wasm, tokens, facts.stop_ids);
// As in bench/generate.py.
const jsonSchema = {
  type: "object",
  properties: {
    name: { type: "string", maxLength: 30 },
    age: { type: "integer", minimum: 0, maximum: 150 },
    tags: { type: "array", items: { enum: ["red", "green", "blue"] }, minItems: 1, maxItems: 5 },
  },
  required: ["name", "age", "tags"],
  additionalProperties: false,
};

let seed = 1;
const random = (below) => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) % below;
const each = [];
const first = [];
for (let text = 0; text < 20; ++text) {
  let start = performance.now();
  const constraint = constraints.make(grammarOf({ jsonSchema }));
  let mask = constraint.allowed();
  first.push(performance.now() - start);
  for (let count = 0; count < 80 && !constraint.isDone; ++count) {
    const may = [...tokens.keys()].filter((id) => (mask[id >> 5] >>> (id & 31)) & 1);
    start = performance.now();
    constraint.take(may[random(may.length)]);
    if (!constraint.isDone) mask = constraint.allowed();
    each.push(performance.now() - start);
  }
  constraint.free();
}
const mean = each.reduce((sum, one) => sum + one, 0) / each.length;
const most = Math.max(...each);
console.log(
  `${tokens.length} tokens, ${each.length} steps: ${mean.toFixed(2)} ms per token, ${most.toFixed(2)} at most`,
);
console.log(`to read the schema, with the first mask: ${first.sort((a, b) => a - b)[10].toFixed(2)} ms`);
