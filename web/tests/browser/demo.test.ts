// The page that searches: what it finds, what it says when something is missing, and that it works without its server.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Page } from "playwright-core";
import {
  checkReadable,
  DemoPages,
  exposeDevice,
  loseDevice,
  type PageOptions,
  shoot,
  textOf,
} from "../support/demo_pages.js";
import { makeServer, root } from "../support/places.js";

const pages = new DemoPages();
const onPage = (options: PageOptions, use: (page: Page) => Promise<void>): Promise<void> =>
  pages.on("index.html", options, use);

const results = (page: Page): Promise<string[]> => page.locator("#results li span:last-child").allTextContents();

async function answered(page: Page): Promise<string[]> {
  await page.locator("#results li").first().waitFor({ timeout: 60_000 });
  await page.waitForFunction(() => /^\d+ passages?\.$/.test(document.getElementById("text-note")!.textContent ?? ""));
  return results(page);
}

/** Asks, and waits until this passage is the closest. */
async function finds(page: Page, question: string, passage: string): Promise<void> {
  await page.locator("#question").fill(question);
  await page.locator("#results li").first().filter({ hasText: passage }).waitFor({ timeout: 10_000 });
}

test("page_finds_passages_by_meaning", () =>
  onPage({}, async (page) => {
    const first = await answered(page);
    assert.equal(first.length, 10);
    assert.match(await textOf(page, "#device"), /SwiftShader/i);
    assert.match(await textOf(page, "#facts"), /MB loaded/);
    assert.match(await textOf(page, "#status"), /closest of \d+, found in \d+\.\d ms/);
    assert.ok(await page.locator("#loading").isHidden());
    assert.ok(await page.locator("#error").isHidden());
    await shoot(page, "page");

    await page
      .locator("#text")
      .fill("Bake the bread for forty minutes.\nThe train leaves at noon.\nMy cat sleeps all day.");
    await page.waitForFunction(() => document.querySelectorAll("#results li").length === 3);
    await finds(page, "railway timetable", "The train leaves at noon.");
    await finds(page, "kitten", "My cat sleeps all day.");
    await finds(page, "oven and flour", "Bake the bread for forty minutes.");
  }));

/** What nibble.Encoder finds: by model and question, lines with their scores. tests/web/export_page.py made it. */
const found = JSON.parse(readFileSync(join(root, "build", "web", "search.json"), "utf8")) as Record<
  string,
  Record<string, [string, number][]>
>;

for (const [model, questions] of Object.entries(found)) {
  test(`scores of ${model} are those of Python`, () =>
    pages.on(`index.html?model=${model}`, {}, async (page) => {
      await answered(page);
      assert.equal(await page.getByLabel("Model").inputValue(), model);
      for (const [question, wanted] of Object.entries(questions)) {
        await finds(page, question, wanted[0]![0]);
        const shown = await page.locator("#results .score").allTextContents();
        assert.equal(shown.length, wanted.length);
        for (const [i, [line, score]] of wanted.entries()) {
          assert.ok(Math.abs(Number(shown[i]) - score) <= 1e-3, `"${line}" has ${shown[i]}, but ${score} in Python`);
        }
      }
      await shoot(page, `search-${model}`);
    }));
}

test("model_can_be_changed", { skip: !("minilm" in found) && "the page has one model" }, () =>
  onPage({}, async (page) => {
    await answered(page);
    const [question, lines] = Object.entries(found.minilm!)[0]!;
    await page.getByLabel("Model").selectOption("minilm");
    await finds(page, question, lines[0]![0]);
    const score = Number(await page.locator("#results .score").first().textContent());
    assert.ok(Math.abs(score - lines[0]![1]) <= 1e-3, `${score} is not that of MiniLM`);
    assert.match(page.url(), /\?model=minilm$/);
  }),
);

for (const model of Object.keys(found)) {
  test(`page opens with ${model} without its server after a visit`, async () => {
    const away = makeServer();
    try {
      await pages.on(`index.html?model=${model}`, { base: await away.start() }, async (page) => {
        const before = await answered(page);
        await page.getByRole("button", { name: "Delete it" }).waitFor();
        assert.match(await textOf(page, "#stored"), /stores \d+\.\d MB of these pages and their models/);
        away.stop();
        await page.reload();
        assert.deepEqual(await answered(page), before);
        assert.match(await textOf(page, "#facts"), /from this browser's cache/);

        await page.getByRole("button", { name: "Delete it" }).click();
        await page.getByText("This browser stores nothing of these pages.").waitFor();
        await assert.rejects(page.reload(), /ERR_CONNECTION_REFUSED/);
      });
    } finally {
      away.stop();
    }
  });
}

test("newest_question_wins", () =>
  onPage({}, async (page) => {
    await answered(page);
    const question = "a journey by rail";
    await finds(page, question, "train");
    const wanted = await results(page);
    await page.locator("#question").fill("");
    await page.locator("#question").pressSequentially(question, { delay: 80 });
    await page.waitForTimeout(1000);
    assert.deepEqual(await results(page), wanted);
  }));

test("page_can_be_used_by_keyboard", () =>
  onPage({}, async (page) => {
    await answered(page);
    await page.getByLabel("Model").focus();
    await page.keyboard.press("Shift+Tab"); // to the links, or to the page
    for (const id of ["model", "question", "text", "forget"]) {
      await page.keyboard.press("Tab");
      assert.equal(await page.evaluate(() => document.activeElement?.id), id);
    }
  }));

for (const scheme of ["light", "dark"] as const) {
  test(`page is readable on a phone, ${scheme}`, () =>
    onPage({ width: 360, scheme }, async (page) => {
      await answered(page);
      await shoot(page, `phone-${scheme}`);
      await checkReadable(page, "#question");
    }));
}

test("page_says_what_to_do_without_webgpu", () =>
  onPage({ scripts: [() => Object.defineProperty(Navigator.prototype, "gpu", { value: undefined })] }, async (page) => {
    await page.locator("#error").waitFor();
    assert.match(await textOf(page, "#error-title"), /no WebGPU/);
    assert.ok((await page.locator("#error-steps li").count()) > 0);
    await shoot(page, "no-webgpu");
  }));

test("page_says_what_to_do_without_an_adapter", () => {
  const script = (): void => {
    GPU.prototype.requestAdapter = async () => null;
  };
  return onPage({ scripts: [script] }, async (page) => {
    await page.locator("#error").waitFor();
    assert.match(await textOf(page, "#error-title"), /No GPU/);
    assert.ok((await page.locator("#error-steps li").count()) > 0);
  });
});

test("lost_device_can_be_reopened", () =>
  onPage({ scripts: [exposeDevice] }, async (page) => {
    const before = await answered(page);
    await loseDevice(page);
    await page.locator("#error").waitFor();
    assert.equal(await page.locator("#retry").textContent(), "Reopen");
    await shoot(page, "lost-device");
    await page.locator("#retry").click();
    await page.locator("#error").waitFor({ state: "hidden" });
    assert.deepEqual(await answered(page), before);
    assert.match(await textOf(page, "#facts"), /from this browser's cache/);
  }));
