// What JavaScript values are, in the planner's words.

import assert from "node:assert/strict";
import { test } from "node:test";
import { describeInputs, type Given } from "../../src/inputs.js";
import type { Input, Inputs } from "../../src/index.js";

function one(input: unknown): Omit<Given, "data"> {
  const [{ data: _, ...rest }] = describeInputs([input as Input], ["ids"], ["input ids"]) as [Given];
  return rest;
}

const tensor = { kind: "tensor", word: "", shape: undefined, integer: undefined };

test("typed_arrays_are_tensors", () => {
  assert.deepEqual(one(new Float32Array(3)), { ...tensor, dtype: "float32", count: 3 });
  assert.deepEqual(one(new Uint8ClampedArray(2)), { ...tensor, dtype: "uint8", count: 2 });
  assert.deepEqual(one({ data: new Int8Array(4), shape: [2, 2] }), {
    ...tensor,
    dtype: "int8",
    count: 4,
    shape: [2, 2],
  });
  assert.equal(one(new BigInt64Array(2)).dtype, "int64");
});

test("types_that_no_program_has_are_told_by_name", () => {
  assert.equal(one(new Uint32Array(2)).word, "uint32");
  assert.equal(one(new BigUint64Array(2)).word, "uint64");
  assert.deepEqual(
    [one(new DataView(new ArrayBuffer(4))).word, one(new DataView(new ArrayBuffer(4))).count],
    ["dataview", 0],
  );
});

test("only_element_is_told_as_an_integer", () => {
  assert.equal(one(new BigInt64Array([-5n])).integer, -5n);
  assert.equal(one(new Int32Array([7])).integer, 7n);
  assert.equal(one(new Int32Array([7, 8])).integer, undefined);
  assert.equal(one([2 ** 60]).integer, 2n ** 60n);
  assert.deepEqual([one([1.5]).kind, one([1.5]).word, one([1.5]).integer], ["numbers", "1.5", undefined]);
});

test("numbers_are_integers_of_64_bits_or_text", () => {
  assert.deepEqual(one(3), { kind: "number", dtype: "int64", shape: undefined, count: 1, word: "", integer: 3n });
  assert.equal(one(-(2n ** 63n)).integer, -(2n ** 63n));
  assert.equal(one(2n ** 63n).word, "9223372036854775808");
  assert.equal(one(2 ** 63).word, "9223372036854775808");
  assert.equal(one(NaN).word, "NaN");
});

test("what_is_no_value_is_told", () => {
  for (const input of [null, undefined, "1", {}, { data: [1] }, { data: 1, shape: [1] }, { data: [1], shape: 1 }]) {
    assert.throws(() => one(input), { message: /^input ids is neither a typed array, nor a list of numbers, nor/ });
  }
  assert.throws(() => one({ data: [1], shape: [0.5] }), {
    message: "input ids has shape [0.5], but sizes are whole numbers",
  });
});

test("names_bring_inputs_into_order", () => {
  const describe = (inputs: unknown): number[] =>
    describeInputs(inputs as Inputs, ["a", "b"], ["input a", "input b"]).map(({ count }) => count);
  assert.deepEqual(describe({ b: [1, 2], a: [1] }), [1, 2]);
  assert.deepEqual(describe([[1], [1, 2]]), [1, 2]);
  assert.equal(describe([[1], [1, 2], [1, 2, 3]]).length, 3, "how many there may be is not decided here");
  assert.throws(() => describe({ a: [1] }), { message: "the input b is not given; the program takes a, b" });
  assert.throws(() => describe({ a: [1], b: [1], c: [1] }), { message: "there is no input c; the program takes a, b" });
  for (const inputs of [null, 3, new Float32Array(2)]) {
    assert.throws(() => describe(inputs), { message: /must be given by name/ });
  }
});
