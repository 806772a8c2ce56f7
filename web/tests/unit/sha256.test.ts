import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";
import { Sha256 } from "../../src/sha256.js";

function digest(...parts: Uint8Array[]): string {
  const hash = new Sha256();
  for (const part of parts) hash.update(part);
  return hash.digest();
}

test("digests_of_all_lengths_are_those_of_openssl", () => {
  const bytes = randomBytes(300);
  for (let length = 0; length <= bytes.length; ++length) {
    const part = bytes.subarray(0, length);
    assert.equal(digest(part), createHash("sha256").update(part).digest("hex"), `${length} bytes`);
  }
});

test("pieces_of_any_size_give_the_same_digest", () => {
  const bytes = randomBytes(100_000);
  const wanted = createHash("sha256").update(bytes).digest("hex");
  for (const size of [1, 3, 63, 64, 65, 127, 4096, 65_537]) {
    const parts: Uint8Array[] = [];
    for (let at = 0; at < bytes.length; at += size) parts.push(bytes.subarray(at, at + size));
    assert.equal(digest(...parts), wanted, `pieces of ${size}`);
  }
});

test("empty_pieces_change_nothing", () => {
  const none = new Uint8Array(0);
  const some = new TextEncoder().encode("nibble");
  assert.equal(digest(none, some, none), createHash("sha256").update(some).digest("hex"));
});
