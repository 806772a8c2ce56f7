// Files by HTTP, without a GPU.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { openSource, readAll, type Source } from "../../src/source.js";
import { TestServer } from "../support/server.js";

const folder = mkdtempSync(join(tmpdir(), "nibble-"));
const bytes = Uint8Array.from({ length: 300_000 }, (_, i) => (i * 7 + (i >> 8)) & 0xff);
const server = new TestServer({ here: folder });
const { signal } = new AbortController();
let base: string;

before(async () => {
  writeFileSync(join(folder, "file"), bytes);
  writeFileSync(join(folder, "empty"), "");
  base = await server.start();
});
after(() => {
  server.stop();
  rmSync(folder, { recursive: true });
});

const open = (behaviour: string, name = "file"): Promise<Source> =>
  openSource(`${base}/${behaviour}/here/${name}`, signal);

async function check(source: Source, offset: number, count: number): Promise<void> {
  assert.deepEqual(await readAll(source, offset, count, signal), bytes.slice(offset, offset + count));
}

for (const behaviour of ["files", "untold", "hidden", "whole", "unsized"]) {
  test(`any range can be read, in any order, from a server that is "${behaviour}"`, async () => {
    const source = await open(behaviour);
    assert.equal(source.size, behaviour === "unsized" ? undefined : bytes.length);
    assert.equal(source.version?.certain, behaviour !== "untold");
    for (const [offset, count] of [
      [0, 10],
      [65_530, 20],
      [250_000, 50_000],
      [70_000, 1],
      [5, 0],
      [0, 300_000],
    ] as const) {
      await check(source, offset, count);
    }
    source.close?.();
  });
}

test("file_that_ends_early_is_told", async () => {
  const source = await open("short-100000");
  assert.equal(source.size, 100_000);
  await assert.rejects(readAll(source, 90_000, 20_000, signal), { code: "io", message: /ended after 100000 bytes/ });
  await assert.rejects(readAll(source, 150_000, 1, signal), { code: "io" });
});

test("empty_file_is_a_file", async () => {
  assert.equal((await open("files", "empty")).size, 0);
  assert.equal((await open("whole", "empty")).size, 0);
});

test("changed_file_is_told", async () => {
  const source = await open("changing-1");
  await check(source, 0, 100);
  await assert.rejects(readAll(source, 100_000, 10, signal), { code: "io", message: /changed while/ });
});

test("server_that_refuses_is_told", async () => {
  await assert.rejects(open("files", "none"), { code: "io", message: /404/ });
});

test("range_that_nobody_asked_for_is_told", async () => {
  const told = {
    code: "io",
    message: /file cannot be read: the server answered with bytes 1-65535\/300000 when asked/,
  };
  await assert.rejects(open("shifted-0"), told);
  await assert.rejects(open("paged"), {
    code: "io",
    message: /with pages 0-65535\/300000 when asked for bytes from 0 on/,
  });
  const source = await open("shifted-1");
  await check(source, 0, 100);
  const message = /with bytes 100001-100009\/300000 when asked for bytes from 100000 on/;
  await assert.rejects(readAll(source, 100_000, 10, signal), { code: "io", message });
});

test("part_that_nobody_asked_for_is_not_the_whole", async () => {
  const source = await open("partial-1");
  await check(source, 100_000, 10);
  await assert.rejects(readAll(source, 70_000, 10, signal), { code: "io", message: /answered 206/ });
});

test("only_what_is_asked_for_is_fetched", async () => {
  const source = await open("files");
  const from = server.log.length;
  await check(source, 0, 1000);
  assert.equal(server.log.length, from);
  await check(source, 200_000, 1000);
  assert.equal(server.bytesOf("file", from), 1000);
});

test("abort_ends_a_read_with_its_reason", async () => {
  const stop = new AbortController();
  const source = await openSource(`${base}/slow/here/file`, stop.signal);
  const reading = readAll(source, 100_000, 200_000, stop.signal);
  const reason = new Error("enough");
  setTimeout(() => stop.abort(reason), 20);
  await assert.rejects(reading, (error) => error === reason);
});
