// The page of web/demo, as examples/build_page.py made it; screenshots are kept in build/web/screenshots.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Page } from "playwright-core";
import { type Browser, launch } from "../support/chromium.js";
import { makeServer, root } from "../support/places.js";

const screenshots = join(root, "build", "web", "screenshots");
const server = makeServer();
let base: string;
let browser: Browser;
before(async () => {
  mkdirSync(screenshots, { recursive: true });
  base = await server.start();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  server.stop();
});

interface PageOptions {
  /** Runs before the page's own script. */
  script?: () => void;
  width?: number;
  scheme?: "light" | "dark";
}

async function onPage(options: PageOptions, use: (page: Page) => Promise<void>): Promise<void> {
  const page = await browser.context.newPage();
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(base) && !url.startsWith("data:")) complaints.push(`a request to ${url}`);
  });
  try {
    await page.setViewportSize({ width: options.width ?? 1100, height: 900 });
    await page.emulateMedia({ colorScheme: options.scheme ?? "light" });
    if (options.script) await page.addInitScript(options.script);
    await page.goto(`${base}/files/demo/index.html`);
    await use(page);
    assert.deepEqual(complaints, []);
  } finally {
    await page.close();
  }
}

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
    assert.match((await page.locator("#device").textContent()) ?? "", /SwiftShader/i);
    assert.match((await page.locator("#facts").textContent()) ?? "", /MB loaded/);
    assert.match((await page.locator("#status").textContent()) ?? "", /closest of \d+, found in \d+\.\d ms/);
    assert.ok(await page.locator("#loading").isHidden());
    assert.ok(await page.locator("#error").isHidden());
    await page.screenshot({ path: join(screenshots, "page.png"), fullPage: true });

    await page
      .locator("#text")
      .fill("Bake the bread for forty minutes.\nThe train leaves at noon.\nMy cat sleeps all day.");
    await page.waitForFunction(() => document.querySelectorAll("#results li").length === 3);
    await finds(page, "railway timetable", "The train leaves at noon.");
    await finds(page, "kitten", "My cat sleeps all day.");
    await finds(page, "oven and flour", "Bake the bread for forty minutes.");
  }));

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
    const visited: string[] = [];
    for (let i = 0; i < 3; ++i) {
      await page.keyboard.press("Tab");
      visited.push(await page.evaluate(() => document.activeElement?.id ?? ""));
    }
    assert.ok(
      visited.indexOf("question") >= 0 && visited.indexOf("text") > visited.indexOf("question"),
      String(visited),
    );
  }));

for (const scheme of ["light", "dark"] as const) {
  test(`page is readable on a phone, ${scheme}`, () =>
    onPage({ width: 360, scheme }, async (page) => {
      await answered(page);
      await page.screenshot({ path: join(screenshots, `phone-${scheme}.png`), fullPage: true });
      const { wide, size, contrast } = await page.evaluate(() => {
        const luminance = (colour: string): number => {
          const channels = (colour.match(/[\d.]+/g) ?? []).slice(0, 3).map((text) => {
            const value = Number(text) / 255;
            return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
          });
          return 0.2126 * channels[0]! + 0.7152 * channels[1]! + 0.0722 * channels[2]!;
        };
        const body = getComputedStyle(document.body);
        const canvas = [body.backgroundColor, getComputedStyle(document.documentElement).backgroundColor].find(
          (colour) => !/, 0\)$|transparent/.test(colour),
        );
        const [text, ground] = [luminance(body.color), canvas === undefined ? NaN : luminance(canvas)];
        return {
          wide: document.documentElement.scrollWidth,
          size: parseFloat(getComputedStyle(document.getElementById("question")!).fontSize),
          contrast: (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05),
        };
      });
      assert.ok(wide <= 360, `the page is ${wide} wide`);
      assert.ok(size >= 16, `text fields of ${size} px make phones zoom`);
      assert.ok(contrast >= 7, `the contrast is ${contrast}`);
    }));
}

test("page_says_what_to_do_without_webgpu", () =>
  onPage({ script: () => Object.defineProperty(Navigator.prototype, "gpu", { value: undefined }) }, async (page) => {
    await page.locator("#error").waitFor();
    assert.match((await page.locator("#error-title").textContent()) ?? "", /no WebGPU/);
    assert.ok((await page.locator("#error-steps li").count()) > 0);
    await page.screenshot({ path: join(screenshots, "no-webgpu.png"), fullPage: true });
  }));

test("page_says_what_to_do_without_an_adapter", () => {
  const script = (): void => {
    GPU.prototype.requestAdapter = async () => null;
  };
  return onPage({ script }, async (page) => {
    await page.locator("#error").waitFor();
    assert.match((await page.locator("#error-title").textContent()) ?? "", /No GPU/);
    assert.ok((await page.locator("#error-steps li").count()) > 0);
  });
});

test("lost_device_can_be_reopened", () => {
  const script = (): void => {
    const request = GPUAdapter.prototype.requestDevice;
    GPUAdapter.prototype.requestDevice = async function (...parameters) {
      const device = await request.apply(this, parameters);
      Object.assign(globalThis, { lastDevice: device });
      return device;
    };
  };
  return onPage({ script }, async (page) => {
    const before = await answered(page);
    await page.evaluate(() => (globalThis as unknown as { lastDevice: GPUDevice }).lastDevice.destroy());
    await page.locator("#error").waitFor();
    assert.equal(await page.locator("#retry").textContent(), "Reopen");
    await page.screenshot({ path: join(screenshots, "lost-device.png"), fullPage: true });
    await page.locator("#retry").click();
    await page.locator("#error").waitFor({ state: "hidden" });
    assert.deepEqual(await answered(page), before);
    assert.match((await page.locator("#facts").textContent()) ?? "", /from this browser's cache/);
  });
});
