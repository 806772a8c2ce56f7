// The package in Chromium: on a page and in a worker.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Case, Forced, Sentence } from "../support/cases.js";
import { checks } from "../support/checks.js";
import { type Browser, launch, TestPage } from "../support/chromium.js";
import { browserConstrainedChecks, constrainedChecks } from "../support/constrained_checks.js";
import { browserGenerateChecks, generateChecks } from "../support/generate_checks.js";
import { cases, isFull, makeServer, root } from "../support/places.js";

const read = <T>(...path: string[]): T => JSON.parse(readFileSync(join(...path), "utf8")) as T;
const server = makeServer();
let base: string;
let browser: Browser;
let page: TestPage;
before(async () => {
  base = await server.start();
  browser = await launch();
  page = await TestPage.open(browser.context, base);
});
after(async () => {
  await browser?.close();
  server.stop();
});

// Node has the same Dawn and makes all checks, so every day one in four is made on the page, and another in a worker.
const some = <T>(all: T[], every: number, first = 0): T[] => (isFull ? all : all.filter((_, i) => i % every === first));
const names = Object.keys(checks);

describe("on a page", () => {
  const generating = isFull
    ? Object.keys({ ...generateChecks, ...constrainedChecks })
    : [...browserGenerateChecks, ...browserConstrainedChecks];
  for (const name of [...some(names, 4), ...generating]) test(name, () => page.call("check", name));
});

describe("in a worker", () => {
  let worker: TestPage;
  before(async () => {
    worker = await TestPage.open(browser.context, base, true);
  });
  for (const name of some(names, 4, 2)) test(name, () => worker.call("check", name));
});

describe("conformance", () => {
  const all = read<Case[]>(cases, "index.json");
  // For the same reason.
  for (const one of some(all, 16)) {
    test(one.name, () => page.call("case", one));
    const shards = { maxShardBytes: one.shardBytes };
    if (one.shardBytes > 0) test(`${one.name}, in shards`, () => page.call("case", one, shards));
  }
  const byName = new Map(all.map((one) => [one.name, one]));
  for (const { name, variants } of isFull ? read<Forced[]>(cases, "variants.json") : []) {
    const [[choice, variant]] = Object.entries(variants) as [[string, string]];
    test(`${name} with ${choice}=${variant}`, () => page.call("case", byName.get(name)!, { variants }));
  }
  for (const one of read<Sentence[]>(root, "tests", "conformance", "sentences.json")) {
    test(`${one.name} says the desktop's sentence`, () => page.call("sentence", one));
  }
});

test("kernels_of_all_plans_compile", { skip: !isFull }, async () => {
  const compiled = await page.call("kernels");
  console.log(`${compiled} kernels compiled`);
  assert.ok(compiled > 0);
});

test("insecure_page_is_told_why_it_has_no_webgpu", async () => {
  const insecure = await launch(`--host-resolver-rules=MAP insecure.test 127.0.0.1`);
  try {
    const tab = await insecure.context.newPage();
    await tab.goto(`${base.replace("localhost", "insecure.test")}/files/pages/page.html`);
    const told = await tab.evaluate(async () => {
      const address = "/files/dist/nibble.js";
      const { open } = (await import(address)) as { open(): Promise<unknown> };
      return open().then(
        () => "opened",
        (error: { code: string; message: string }) => `${error.code}: ${error.message}`,
      );
    });
    assert.match(told, /^no_webgpu: .*https or from localhost/);
  } finally {
    await insecure.close();
  }
});
