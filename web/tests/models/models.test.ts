// Whole models in Chromium: those of tests/models that are one delegate.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Case } from "../support/cases.js";
import { type Browser, launch, TestPage } from "../support/chromium.js";
import { makeServer, models } from "../support/places.js";

const server = makeServer();
let browser: Browser;
let page: TestPage;
before(async () => {
  const base = await server.start();
  browser = await launch();
  page = await TestPage.open(browser.context, base);
});
after(async () => {
  await browser?.close();
  server.stop();
});

for (const one of JSON.parse(readFileSync(join(models, "index.json"), "utf8")) as Case[]) {
  test(one.name, () => page.call("case", one));
}
