import assert from "node:assert/strict";
import { test } from "node:test";
import { BadElement, fromDevice, halfFromNumber, int32Range, numberFromHalf, toDevice } from "../../src/convert.js";
import type { DType, InputData } from "../../src/types.js";

const memory = (bytes: number): ArrayBuffer => new ArrayBuffer(bytes);

function device(data: InputData, dtype: DType, range = int32Range): Uint8Array {
  const bytes = toDevice(data, dtype, range, memory);
  assert.ok(bytes instanceof Uint8Array);
  assert.equal(bytes.length % 4, 0);
  return bytes;
}

function bad(data: InputData, dtype: DType, range = int32Range): [number, number | bigint, string] {
  const found = toDevice(data, dtype, range, memory);
  assert.ok(found instanceof BadElement);
  return [found.position, found.value, found.kind];
}

const int32s = (bytes: Uint8Array): number[] => [...new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)];

test("all_halves_survive_the_way_there_and_back", () => {
  for (let half = 0; half < 0x10000; ++half) {
    const value = numberFromHalf(half);
    if (Number.isNaN(value)) assert.ok(Number.isNaN(numberFromHalf(halfFromNumber(value))));
    else assert.equal(halfFromNumber(value), half);
  }
});

test("halves_round_to_the_nearest_and_ties_to_even", () => {
  for (let half = 0; half < 0x7c00; ++half) {
    const low = numberFromHalf(half);
    // The largest half's upper neighbour would be 65536, were it not infinity.
    const high = half === 0x7bff ? 65536 : numberFromHalf(half + 1);
    const middle = (low + high) / 2;
    assert.equal(halfFromNumber(middle), half + (half & 1), `the tie after ${low}`);
    assert.equal(halfFromNumber(middle - (high - low) / 1024), half);
    assert.equal(halfFromNumber(middle + (high - low) / 1024), half + 1);
    assert.equal(halfFromNumber(-middle), (half + (half & 1)) | 0x8000);
  }
  assert.equal(halfFromNumber(1e300), 0x7c00);
  assert.equal(halfFromNumber(-Infinity), 0xfc00);
  assert.equal(halfFromNumber(1e-300), 0);
});

test("int64_is_narrowed_and_what_does_not_fit_is_found", () => {
  const good = [0n, 1n, -1n, 2147483647n, -2147483648n];
  assert.deepEqual(int32s(device(BigInt64Array.from(good), "int32")), good.map(Number));
  for (const value of [
    2147483648n,
    -2147483649n,
    4294967296n,
    4294967297n,
    -4294967296n,
    2n ** 63n - 1n,
    -(2n ** 63n),
  ]) {
    assert.deepEqual(bad(BigInt64Array.of(5n, value), "int32"), [1, value, "range"]);
  }
});

test("first_integer_outside_a_table_is_found", () => {
  const range = { lowest: 0, highest: 9 };
  assert.deepEqual(bad(Int32Array.of(0, 9, 10, -1), "int32", range), [2, 10, "range"]);
  assert.deepEqual(bad(BigInt64Array.of(0n, -1n), "int32", range), [1, -1n, "range"]);
  assert.deepEqual(bad([0, 9, 10], "int32", range), [2, 10, "range"]);
  assert.deepEqual(bad([0n, 2n ** 70n], "int32", range), [1, 2n ** 70n, "range"]);
  assert.deepEqual(int32s(device(Int32Array.of(0, 9), "int32", range)), [0, 9]);
});

test("plain_numbers_must_be_what_the_program_takes", () => {
  assert.deepEqual(bad([1, 1.5], "int32"), [1, 1.5, "fraction"]);
  assert.deepEqual(bad([Infinity], "int32"), [0, Infinity, "fraction"]);
  assert.deepEqual(bad([1, 256], "uint8"), [1, 256, "range"]);
  assert.deepEqual(bad([-129], "int8"), [0, -129, "range"]);
  assert.deepEqual([...device([1, 2, 255], "uint8")], [1, 2, 255, 0]);
  assert.deepEqual([...device([true, false, true], "bool")], [1, 0, 1, 0]);
});

test("arrays_of_the_right_type_are_not_copied", () => {
  const whole = new Float32Array([9, 1, 2, 3]);
  const part = whole.subarray(1);
  const bytes = device(part, "float32");
  assert.equal(bytes.buffer, whole.buffer);
  assert.equal(bytes.byteOffset, 4);
  assert.equal(bytes.length, 12);
});

test("what_is_padded_ends_in_zeros", () => {
  const dirty = (bytes: number): ArrayBuffer => new Uint8Array(bytes).fill(0xff).buffer;
  for (const [data, dtype] of [
    [Int8Array.of(1), "int8"],
    [Uint8Array.of(7, 0, 3), "bool"],
    [[0.5, 1, 2], "float16"],
  ] as [InputData, DType][]) {
    const bytes = toDevice(data, dtype, int32Range, dirty);
    assert.ok(bytes instanceof Uint8Array);
    const used = (data as ArrayLike<unknown>).length * (dtype === "float16" ? 2 : 1);
    assert.deepEqual([...bytes.subarray(used)], new Array(bytes.length - used).fill(0), dtype);
  }
});

test("results_are_arrays_of_their_own_and_of_the_callers_type", () => {
  const words = Int32Array.of(-1, 5, -2147483648);
  const bytes = new Uint8Array(words.buffer);
  const longs = fromDevice("int32", bytes, "int64", 3);
  assert.deepEqual(longs, BigInt64Array.of(-1n, 5n, -2147483648n));
  assert.deepEqual(fromDevice("int32", bytes, "int32", 2), Int32Array.of(-1, 5));
  assert.notEqual(fromDevice("int32", bytes, "int32", 3).buffer, words.buffer);
  assert.deepEqual(fromDevice("bool", Uint8Array.of(0, 2, 255, 9), "bool", 3), Uint8Array.of(0, 1, 1));
  const floats = new Uint8Array(Float32Array.of(0.1, NaN).buffer);
  assert.deepEqual(fromDevice("float32", floats, "float64", 2), Float64Array.of(Math.fround(0.1), NaN));
  const halves = new Uint8Array(Uint16Array.of(0x3c00, 0xc000).buffer);
  assert.deepEqual([...fromDevice("float16", halves, "float16", 2)], [1, -2]);
  assert.deepEqual([...fromDevice("float16", halves, "float32", 2)], [1, -2]);
  assert.equal(fromDevice("float32", new Uint8Array(0), "float32", 0).length, 0);
});
