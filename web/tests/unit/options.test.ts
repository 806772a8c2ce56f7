// Options on their way to the planner.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import * as wire from "#wire";
import { NibbleError } from "../../src/errors.js";
import type { Options } from "../../src/index.js";
import { optionsRecord } from "../../src/options.js";
import { root } from "../support/places.js";

interface Described {
  name: string;
  text: string;
  native?: boolean;
}
const described = (
  JSON.parse(readFileSync(join(root, "src", "options.json"), "utf8")) as { options: Described[] }
).options
  .filter((option) => !option.native)
  .map(({ name, text }) => ({ name: name.replace(/_(\w)/g, (_, c: string) => c.toUpperCase()), text }));

const given: Required<Options> = {
  method: "encode",
  maxShardBytes: 2 ** 40,
  candidates: 2 ** 40,
  f16Cache: true,
  withoutPasses: ["views", "gäte_up"],
  variants: { product: "tile", attention: "row" },
  tuning: {
    choices: [
      { choice: "product", variant: "tile", rows: [5, 64], width: [0, 4096] },
      { choice: "attention", variant: "row" },
    ],
  },
  tune: true,
  tuneMs: 2 ** 40,
  f16Products: true,
  maxDeviceBytes: 2 ** 40,
  maxHostBytes: 2 ** 40,
  maxNodes: 2 ** 40,
  maxDispatches: 2 ** 40,
  maxBatchWork: 2 ** 40,
};

/** Memory that moves whenever some of it is taken, as the planner's may. */
class Moving implements wire.Memory {
  private buffer = new ArrayBuffer(8);

  view(): DataView {
    return new DataView(this.buffer);
  }

  alloc(bytes: number): number {
    const at = this.buffer.byteLength;
    const grown = new Uint8Array(at + Math.ceil(bytes / 8) * 8 + 8);
    grown.set(new Uint8Array(this.buffer));
    this.buffer = grown.buffer;
    return at;
  }
}

function throughMemory(options: Options): wire.Options {
  const memory = new Moving();
  const at = memory.alloc(wire.sizeofOptions);
  wire.writeOptions(memory, at, optionsRecord(options));
  return wire.readOptions(memory.view(), at);
}

test("every_option_of_the_description_reaches_the_planner", () => {
  const defaults = throughMemory({});
  const record = throughMemory(given);
  assert.ok(described.length > 0);
  assert.deepEqual(
    Object.keys(record),
    described.map(({ name }) => name),
  );
  for (const { name } of described) {
    const key = name as keyof Options;
    assert.notDeepEqual(record[key], defaults[key], name);
    assert.deepEqual(throughMemory({ [key]: given[key] }), { ...defaults, [key]: record[key] }, name);
  }
});

test("every_option_of_the_description_is_in_the_types_of_the_package", () => {
  const types = readFileSync(join(root, "web", "dist", "types", "option_types.d.ts"), "utf8");
  for (const { name, text } of described) assert.ok(types.includes(`/** ${text} */\n    ${name}?: `), name);
});

test("options_arrive_as_they_were_given", () => {
  const text = (name: string, value: string): object => ({
    name,
    kind: "text",
    text: value,
    count: 0,
    numbers: [0, 0],
  });
  const range = (name: string, ...numbers: number[]): object => ({
    name,
    kind: "numbers",
    text: "",
    count: 2,
    numbers,
  });
  assert.deepEqual(throughMemory(given), {
    method: "encode",
    maxShardBytes: 2 ** 40,
    candidates: 2 ** 40,
    f16Cache: true,
    withoutPasses: ["views", "gäte_up"],
    variants: [
      { choice: "product", variant: "tile" },
      { choice: "attention", variant: "row" },
    ],
    tuning: {
      isForAny: true,
      tunings: [
        {
          fields: [],
          hasChoices: true,
          choices: [
            {
              isObject: true,
              fields: [
                text("choice", "product"),
                text("variant", "tile"),
                range("rows", 5, 64),
                range("width", 0, 4096),
              ],
            },
            { isObject: true, fields: [text("choice", "attention"), text("variant", "row")] },
          ],
        },
      ],
    },
    tune: true,
    tuneMs: 2 ** 40,
    f16Products: true,
    maxDeviceBytes: 2 ** 40,
    maxHostBytes: 2 ** 40,
    maxNodes: 2 ** 40,
    maxDispatches: 2 ** 40,
    maxBatchWork: 2 ** 40,
  });
});

test("options_of_another_kind_are_refused", () => {
  const refused = (options: object, sentence: string): void =>
    assert.throws(
      () => optionsRecord(options),
      (error: Error) => error instanceof NibbleError && error.code === "invalid_argument" && error.message === sentence,
      sentence,
    );
  const variants = "variants must be names of choices, each with the name of a variant";
  refused({ method: 3 }, "method must be a text, not 3");
  refused({ method: null }, "method must be a text, not null");
  refused({ maxShardBytes: -1 }, "maxShardBytes must be a whole number from 0 on, not -1");
  refused({ maxShardBytes: 1.5 }, "maxShardBytes must be a whole number from 0 on, not 1.5");
  refused({ maxShardBytes: 2 ** 53 }, "maxShardBytes must be a whole number from 0 on, not 9007199254740992");
  refused({ f16Cache: "no" }, "f16Cache must be true or false, not no");
  refused({ withoutPasses: "views" }, "withoutPasses must be a list of names, not views");
  refused({ withoutPasses: ["a", 1n] }, 'withoutPasses must be a list of names, not ["a","1"]');
  refused({ withoutPasses: Array(1) }, "withoutPasses must be a list of names, not [null]");
  refused({ variants: { product: 3 } }, `${variants}, not {"product":3}`);
  refused({ variants: ["product=tile"] }, `${variants}, not ["product=tile"]`);
  const circle: Record<string, unknown> = {};
  circle.itself = circle;
  refused({ method: circle }, "method must be a text, not an object that cannot be written");
  refused({ tuning: "tuning.json" }, "tuning must be an object with a list of choices, not tuning.json");
});
