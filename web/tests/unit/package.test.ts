// What is true of the package as a whole.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import * as wire from "#wire";
import { root } from "../support/places.js";

const web = join(root, "web");
const names = (folder: string): string[] => readdirSync(folder, { recursive: true }).map(String);

test("sources_know_no_operator_and_no_shader", () => {
  const files = names(join(web, "src")).filter((file) => file.endsWith(".ts"));
  assert.ok(files.length > 5);
  // Operators as the planner registers them, without their namespace and overload.
  const registered = names(join(root, "src", "ops"))
    .filter((file) => file.endsWith(".cpp"))
    .flatMap((file) => [...readFileSync(join(root, "src", "ops", file), "utf8").matchAll(/"((?:aten|et_vk)\.\w+)/g)]);
  assert.ok(registered.length > 0);
  const banned = [/\baten\b/, /\bet_vk\b/, /@compute/, /@workgroup_size/, /var<(storage|uniform|workgroup)/, /fn main/];
  const operators = new Set(registered.map((match) => match[1]!.split(".")[1]!).filter((name) => name.includes("_")));
  for (const file of files) {
    const text = readFileSync(join(web, "src", file), "utf8");
    for (const pattern of banned) assert.doesNotMatch(text, pattern, file);
    for (const name of operators) assert.ok(!new RegExp(`\\b${name}\\b`).test(text), `${file} names ${name}`);
  }
});

test("package_is_at_most_300_kilobytes_gzipped", () => {
  const sizes = ["nibble.js", "nibble.wasm"].map((file) =>
    gzipSync(readFileSync(join(web, "dist", file)), { level: 9 }),
  );
  const bytes = sizes.reduce((sum, zipped) => sum + zipped.length, 0);
  console.log(`nibble.js ${sizes[0]!.length}, nibble.wasm ${sizes[1]!.length}, together ${bytes} bytes gzipped`);
  assert.ok(bytes <= 300_000, `${bytes} bytes`);
});

test("text_generation_is_at_most_60_kilobytes_gzipped_beside_it", () => {
  const sizes = ["generate.js", "generate.wasm"].map((file) =>
    gzipSync(readFileSync(join(web, "dist", file)), { level: 9 }),
  );
  const bytes = sizes.reduce((sum, zipped) => sum + zipped.length, 0);
  console.log(`generate.js ${sizes[0]!.length}, generate.wasm ${sizes[1]!.length}, together ${bytes} bytes gzipped`);
  assert.ok(bytes <= 60_000, `${bytes} bytes`);
});

test("tuner_is_little_more_than_the_planner_that_it_has_in_it", () => {
  const [js, wasm, planner] = ["tune.js", "tune.wasm", "nibble.wasm"].map(
    (file) => gzipSync(readFileSync(join(web, "dist", file)), { level: 9 }).length,
  );
  console.log(`tune.js ${js}, tune.wasm ${wasm} bytes gzipped`);
  assert.ok(js! <= 6_000, `${js} bytes`);
  assert.ok(wasm! <= 1.12 * planner!, `${wasm} bytes`);
});

test("texts_of_the_planner_have_only_fields_that_the_web_writes", () => {
  // The rooms that are compiled for the web, and what src/web/format.hpp knows.
  const rooms = ["graph", "program", "plan", "ops", "boundary", "web"];
  const files = rooms
    .flatMap((room) => names(join(root, "src", room)).map((file) => join(root, "src", room, file)))
    .filter((file) => /\.[ch]pp$/.test(file) && !file.endsWith(join("plan", "print.cpp")));
  let fields = 0;
  for (const file of files) {
    const code = readFileSync(file, "utf8").replace(/\/\/.*/g, "");
    for (const [text] of code.matchAll(/"(?:[^"\\\n]|\\.)*"/g)) {
      for (const [field, inside] of text.replace(/\{\{|\}\}/g, "").matchAll(/\{([^{}]*)\}/g)) {
        ++fields;
        assert.match(inside!, /^\d?(:(0\d+)?x)?$/, `${file} has ${field} in ${text}`);
      }
    }
  }
  assert.ok(fields > 100, `${fields} fields`);
});

test("package_depends_on_nothing_at_run_time", () => {
  const facts = JSON.parse(readFileSync(join(web, "package.json"), "utf8")) as Record<string, unknown>;
  for (const key of ["dependencies", "peerDependencies", "optionalDependencies"]) assert.equal(facts[key], undefined);
  assert.equal(facts.sideEffects, false);
  for (const [file, pattern] of [
    ["nibble.js", /^(node:|\.\/tune\.js$)/],
    ["tune.js", /^$/],
    ["generate.js", /^(node:|\.\/nibble\.js$)/],
  ] as const) {
    const bundle = readFileSync(join(web, "dist", file), "utf8");
    const imported = [...bundle.matchAll(/(?:from|import\()\s*"([^"]+)"/g)].map((match) => match[1]!);
    for (const name of imported) assert.match(name, pattern, file);
  }
});

test("types_are_part_of_the_package", () => {
  const facts = JSON.parse(readFileSync(join(web, "package.json"), "utf8")) as {
    exports: Record<"." | "./generate", { types: string; default: string }>;
  };
  const of = { ".": ["open", "load", "NibbleError"], "./generate": ["LanguageModel"] } as const;
  for (const entry of [".", "./generate"] as const) {
    const types = readFileSync(join(web, facts.exports[entry].types), "utf8");
    for (const name of of[entry]) assert.match(types, new RegExp(`\\b${name}\\b`));
    // What they name is there, too.
    for (const [, name] of types.matchAll(/from "\.\/(\w+)\.js"/g)) {
      assert.ok(existsSync(join(web, "dist", "types", `${name}.d.ts`)), name);
    }
    assert.ok(existsSync(join(web, facts.exports[entry].default)));
  }
});

test("every_wasm_file_can_be_named_by_a_bundler", () => {
  const facts = JSON.parse(readFileSync(join(web, "package.json"), "utf8")) as { exports: Record<string, unknown> };
  const modules = names(join(web, "dist")).filter((name) => name.endsWith(".wasm"));
  assert.deepEqual(modules.sort(), ["constraint.wasm", "generate.wasm", "nibble.wasm", "tune.wasm"]);
  for (const name of modules) assert.equal(facts.exports[`./${name}`], `./dist/${name}`);
});

test("planner_and_package_speak_the_same_layout", async () => {
  const module = await WebAssembly.compile(readFileSync(join(web, "dist", "nibble.wasm")));
  const imports = Object.fromEntries(WebAssembly.Module.imports(module).map(({ name }) => [name, () => 0]));
  const { exports } = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: imports });
  assert.equal((exports.nibble_wire_version as () => number)(), wire.wireVersion);
});

test("records_survive_the_way_through_memory", () => {
  const view = new DataView(new ArrayBuffer(Math.max(wire.sizeofProfile, wire.sizeofShape) + 8));
  const shape = { rank: 3, dims: [5, 2 ** 40, 0, 0, 0, 0, 0, 0] };
  wire.writeShape(view, 8, shape);
  assert.equal(view.getUint32(8, true), 3);
  assert.equal(view.getBigUint64(8 + wire.atShape.dims, true), 5n);
  assert.equal(view.getBigUint64(8 + wire.atShape.dims + 8, true), 2n ** 40n);
});
