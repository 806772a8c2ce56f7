// What the pages keep for visits without a network: when storage fails, and when the server has other files.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { DemoPages } from "../support/demo_pages.js";
import { pages as folder } from "../support/places.js";

const pages = new DemoPages();

/** For `PageOptions.scripts`: browsers where nothing can be stored, as in some private windows. */
const failures = {
  missing: (): void => {
    Object.defineProperty(globalThis, "caches", { value: undefined });
    Object.defineProperty(Navigator.prototype, "serviceWorker", { value: undefined });
  },
  forbidden: (): void => {
    const refuse = (): Promise<never> => Promise.reject(new DOMException("no", "SecurityError"));
    CacheStorage.prototype.open = refuse;
    CacheStorage.prototype.has = refuse;
    ServiceWorkerContainer.prototype.register = refuse;
  },
  full: (): void => {
    Cache.prototype.put = () => Promise.reject(new DOMException("no room", "QuotaExceededError"));
  },
};

for (const [name, script] of Object.entries(failures)) {
  test(`page_works_where_storage_is_${name}`, () =>
    pages.on("index.html", { scripts: [script] }, async (page) => {
      await page.locator("#results li").first().waitFor({ timeout: 60_000 });
      await page.getByText("This browser stores nothing of these pages.").waitFor();
      assert.ok(await page.locator("#forget").isHidden());
      assert.ok(await page.locator("#error").isHidden());
    }));
}

test("page_says_that_storage_was_too_small_for_all_of_it", () => {
  const script = (): void => {
    const put = Cache.prototype.put;
    Cache.prototype.put = function (request, response) {
      const isWeight = String(request).includes("nibble-range");
      return isWeight
        ? Promise.reject(new DOMException("no room", "QuotaExceededError"))
        : put.call(this, request, response);
    };
  };
  return pages.on("index.html", { scripts: [script] }, async (page) => {
    await page
      .getByText(/stores .*, but not all of it: without a network they do not open\.$/)
      .waitFor({ timeout: 60_000 });
    await page.locator("#forget").click();
    await page.getByText("This browser stores nothing of these pages.").waitFor();
  });
});

test("kept_file_is_renewed_by_its_server_but_not_by_a_page_to_log_in", async () => {
  let answer = { type: "text/plain", text: "second" };
  const server = createServer((request, response) => {
    const isWorker = request.url === "/offline.js";
    const type = isWorker ? "text/javascript" : request.url === "/" ? "text/html" : answer.type;
    const text = isWorker ? readFileSync(join(folder, "offline.js")) : request.url === "/" ? "" : answer.text;
    response.writeHead(200, { "content-type": type, "cache-control": "no-store" }).end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const base = `http://localhost:${(server.address() as AddressInfo).port}`;
  try {
    const page = await pages.blank(base);
    await page.evaluate(async (address) => {
      const kept = await caches.open("nibble-pages");
      await kept.put(address, new Response("first", { headers: { "content-type": "text/plain" } }));
      const taken = new Promise((resolve) => navigator.serviceWorker.addEventListener("controllerchange", resolve));
      await navigator.serviceWorker.register("offline.js");
      await taken;
    }, `${base}/file`);
    const fetched = (): Promise<string> => page.evaluate(async () => (await fetch("/file")).text());
    const isKept = (text: string): Promise<unknown> =>
      page.waitForFunction(
        async ([address, wanted]) => (await (await caches.match(address!))?.text()) === wanted,
        [`${base}/file`, text],
      );
    assert.equal(await fetched(), "second");
    await isKept("second");
    answer = { type: "text/html", text: "log in" };
    assert.equal(await fetched(), "log in");
    answer = { type: "text/plain", text: "third" };
    assert.equal(await fetched(), "third");
    await isKept("third"); // so the answers before it were dealt with
    answer = { type: "text/html", text: "log in" };
    assert.equal(await fetched(), "log in");
    server.closeAllConnections();
    server.close();
    assert.equal(await fetched(), "third");
    await page.close();
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
