// The second visit.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { type Browser, launch, TestPage } from "../support/chromium.js";
import { makeServer } from "../support/places.js";

/** What is read of a file in any case: its head, program and graph. */
const HEAD = 1 << 16;
const SMALL = "files/programs/q4_mean/model.pte";
const LARGE = "files/programs/q4_llama_group_32/model.pte";

const server = makeServer();
let base: string;
let browser: Browser;
before(async () => {
  base = await server.start();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  server.stop();
});
afterEach(async () => {
  await onPage((page) => page.call("forget"));
});

/** Does something on a page of its own: nothing but the cache is left of it. */
async function onPage<T>(use: (page: TestPage) => Promise<T>, inWorker = false): Promise<T> {
  const page = await TestPage.open(browser.context, base, inWorker);
  try {
    return await use(page);
  } finally {
    await page.page.close();
  }
}

for (const inWorker of [false, true]) {
  test(`second visit fetches no weights, ${inWorker ? "in a worker" : "on a page"}`, async () => {
    const first = await onPage((page) => page.call("visit", SMALL), inWorker);
    assert.equal(first.cached, 0);
    const from = server.log.length;
    const second = await onPage((page) => page.call("visit", SMALL), inWorker);
    assert.equal(second.cached, second.total);
    assert.ok(server.bytesOf(SMALL, from) <= HEAD, `${server.bytesOf(SMALL, from)} bytes were fetched`);
    assert.deepEqual(second.row, first.row);
  });
}

test("second_load_needs_no_server", async () => {
  const away = makeServer();
  const address = await away.start();
  const page = await TestPage.open(browser.context, address);
  try {
    const first = await page.call("visit", SMALL);
    away.stop();
    const second = await page.call("visit", SMALL);
    assert.equal(second.cached, second.total);
    assert.deepEqual(second.row, first.row);
    // What was never loaded completely is not there, and nor is what was forgotten.
    await assert.rejects(page.call("visit", LARGE), /reading .*model\.pte failed/);
    await page.call("forget");
    await assert.rejects(page.call("visit", SMALL), /reading .*model\.pte failed/);
  } finally {
    away.stop();
    await page.page.close();
  }
});

test("tampered_entry_is_found_and_fetched_again", async () => {
  const first = await onPage((page) => page.call("visit", SMALL));
  assert.ok((await onPage((page) => page.call("tamper"))) > 0);
  const from = server.log.length;
  const second = await onPage((page) => page.call("visit", SMALL));
  assert.equal(second.cached, 0);
  assert.ok(server.bytesOf(SMALL, from) >= second.total);
  assert.deepEqual(second.row, first.row);
  const third = await onPage((page) => page.call("visit", SMALL));
  assert.equal(third.cached, third.total, "and what replaced it is good");
});

test("load_after_an_abort_goes_on_where_that_stopped", async () => {
  const aborted = await onPage((page) => page.call("visit", LARGE, { stopAt: 60e6 }));
  assert.deepEqual(aborted.row, []);
  const from = server.log.length;
  const second = await onPage((page) => page.call("visit", LARGE));
  assert.ok(second.cached >= 30e6, `${second.cached} bytes came from the cache`);
  assert.ok(server.bytesOf(LARGE, from) <= second.total - second.cached + HEAD);
});

test("lost_device_is_reopened_and_its_program_comes_from_the_cache", async () => {
  const path = SMALL;
  const first = await onPage((page) => page.call("visit", path, { lose: true }));
  const again = await onPage((page) => page.call("visit", path));
  assert.equal(again.cached, again.total);
  assert.deepEqual(again.row, first.row);
});

test("other_version_of_a_file_takes_the_place_of_the_old_one", async () => {
  const path = "changing-2/programs/q4_mean/model.pte";
  assert.equal((await onPage((page) => page.call("visit", path))).cached, 0);
  const old = await onPage((page) => page.call("cached"));
  assert.ok(old.length > 0);
  assert.equal((await onPage((page) => page.call("visit", path))).cached, 0);
  const entries = await onPage((page) => page.call("cached"));
  assert.equal(entries.length, old.length);
  assert.ok(entries.every((entry) => !old.includes(entry)));
});

test("page_lives_while_weights_arrive", async () => {
  const pause = await onPage((page) => page.call("longestPause", LARGE));
  console.log(`the longest pause was ${pause.toFixed(2)} of the load`);
  assert.ok(pause < 0.5, `${pause} of the load`);
});
