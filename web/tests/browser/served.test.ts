// The page of `nibble serve`, with a tiny model whose answers are nonsense that ends only where its context does.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, afterEach, before, test } from "node:test";
import type { Locator, Page } from "playwright-core";
import { type Browser, launch } from "../support/chromium.js";
import { checkReadable, screenshots, shoot, textOf } from "../support/demo_pages.js";
import { root } from "../support/places.js";

const LONG = 120_000;
const KEY = "sesame";

let server: ChildProcess;
let base: string;
let browser: Browser;
let page: Page;
const complaints: string[] = [];

before(async () => {
  const command = [join(root, ".venv", "bin", "nibble"), "serve", join(root, "build", "web", "tiny"), "--port", "0"];
  server = spawn(command[0]!, command.slice(1), {
    env: { ...process.env, NIBBLE_API_KEY: KEY },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [line] = (await once(createInterface(server.stdout!), "line")) as [string];
  base = /chat at (http:\S+)/.exec(line)![1]!;
  mkdirSync(screenshots, { recursive: true });
  browser = await launch();
  page = await browser.context.newPage();
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    if (!/^data:/.test(request.url()) && !request.url().startsWith(base)) complaints.push(`asked ${request.url()}`);
  });
  await page.goto(base);
});
after(async () => {
  await browser?.close();
  server?.kill();
});
afterEach(() => assert.deepEqual(complaints, []));

const field = (): Locator => page.getByRole("textbox", { name: "Message", exact: true });
const button = (name: string): Locator => page.getByRole("button", { name });
const texts = (): Promise<string[]> => page.getByRole("log", { name: "Messages" }).locator(".text").allTextContents();
const problem = (): Locator => page.locator("#problem:visible");
const focused = (): Promise<string> => page.evaluate(() => document.activeElement?.id ?? "");

/** Sends a message, and waits for what comes of it. */
async function exchange(text: string): Promise<void> {
  const before = (await texts()).length;
  await field().fill(text);
  await field().press("Enter");
  await page.waitForFunction(
    (count) =>
      !document.querySelector<HTMLElement>("#problem")!.hidden ||
      document.querySelectorAll("#log article:not([aria-live]), #log .own").length === count,
    before + 2,
    { timeout: LONG },
  );
}

test("key_that_is_missing_is_asked_for", async () => {
  await problem().waitFor();
  assert.match((await problem().textContent())!, /^The models cannot be listed: there is no API key.*\.$/);
  assert.ok(await button("Send").isDisabled());
  await page.getByLabel("API key").fill(KEY);
  await page.getByLabel("API key").blur();
  await page.locator("#send:enabled").waitFor();
  assert.equal(await page.getByLabel("Model", { exact: true }).inputValue(), "tiny");
  assert.ok(await page.locator("#problem").isHidden());
  assert.equal(await textOf(page, "#address"), `${base}v1`);
});

test("answers_are_those_of_the_server", async () => {
  await page.getByRole("slider", { name: "Temperature" }).fill("0");
  await exchange("Hello");
  const response = await fetch(`${base}v1/chat/completions`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${KEY}` },
    body: JSON.stringify({ model: "tiny", messages: [{ role: "user", content: "Hello" }], temperature: 0 }),
  });
  const wanted = (await response.json()) as { choices: { message: { content: string } }[] };
  assert.deepEqual(await texts(), ["Hello", wanted.choices[0]!.message.content]);
  assert.match(await textOf(page, "#log article:last-child .note"), /as long as it may be/);
  assert.match(await textOf(page, "#figures"), /^\d+ tokens; \d+ before them, of which \d+ were known$/);
  assert.equal(await focused(), "message");
});

test("message_that_fails_can_be_sent_again", async () => {
  // The first answer filled the context.
  await exchange("And then?");
  assert.match((await problem().textContent())!, /^The answer failed: messages has \d+ tokens, but .* 256 tokens.*\.$/);
  assert.equal(await field().inputValue(), "And then?");
  assert.equal((await texts()).length, 2);
  await shoot(page, "served-too-long");
});

test("new_chat_forgets", async () => {
  await button("New chat").click();
  assert.deepEqual(await texts(), []);
  assert.equal(await focused(), "message");
  await exchange("Hello");
  assert.equal((await texts()).length, 2);
  assert.ok(await page.locator("#problem").isHidden());
});

test("answer_that_does_not_come_can_be_stopped", async () => {
  await button("New chat").click();
  await page.route("**/v1/chat/completions", () => {});
  await field().fill("Hello");
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "send");
  await page.keyboard.press("Enter");
  assert.equal(await focused(), "stop");
  await page.keyboard.press("Escape");
  await page.getByText("Stopped before the answer began.").waitFor();
  assert.equal(await focused(), "send");
  assert.equal(await field().inputValue(), "Hello");
  assert.deepEqual(await texts(), []);
  await page.unroute("**/v1/chat/completions");
});

test("page_is_readable_at_any_width_in_light_and_dark", async () => {
  await exchange("Averyveryverylongwordthatdoesnotfitintoanarrowwindowatall");
  for (const width of [1100, 320]) {
    for (const colorScheme of ["light", "dark"] as const) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme });
      await checkReadable(page, "#message");
      await shoot(page, `served-${width}-${colorScheme}`);
    }
  }
  const nameless = await page.evaluate(() =>
    Array.from(document.querySelectorAll<HTMLInputElement>("input, textarea, select"))
      .filter(({ labels }) => !labels?.length)
      .map(({ id }) => id),
  );
  assert.deepEqual(nameless, []);
});

test("server_that_is_gone_is_told", async () => {
  await button("New chat").click();
  server.kill("SIGKILL");
  await once(server, "exit");
  await exchange("Hello");
  assert.match((await problem().textContent())!, /^The answer failed: .*\.$/);
  assert.equal(await field().inputValue(), "Hello");
});
