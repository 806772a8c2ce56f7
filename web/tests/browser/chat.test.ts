// The page that chats, with a tiny model whose answers are nonsense that ends only where its context of 256 tokens does.
// Loading it takes longer than all else, so that one page serves all tests, in their order.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, before, test } from "node:test";
import type { Locator, Page } from "playwright-core";
import {
  checkReadable,
  DemoPages,
  exposeDevice,
  loseDevice,
  shoot,
  slowDevice,
  textOf,
} from "../support/demo_pages.js";
import { isFull, makeServer, root } from "../support/places.js";

const LONG = 120_000;

const pages = new DemoPages();
let page: Page;
let complaints: string[];
before(async () => {
  const options = { scripts: [exposeDevice, slowDevice] };
  // Slowly, to see the weights arrive.
  ({ page, complaints } = await pages.open("chat.html?model=../../slow/web/tiny", options));
});
afterEach(() => assert.deepEqual(complaints, []));

const field = (): Locator => page.getByRole("textbox", { name: "Message", exact: true });
const button = (name: string): Locator => page.getByRole("button", { name });
const log = (): Locator => page.getByRole("log", { name: "Messages" });
const texts = (): Promise<string[]> => log().locator(".text").allTextContents();
const focused = (): Promise<string> => page.evaluate(() => document.activeElement?.id ?? "");

/** Waits until it is the reader's turn. */
async function loaded(timeout = LONG): Promise<void> {
  await page.locator("#send:enabled:visible, #error:visible").first().waitFor({ timeout });
  assert.equal(await page.locator("#error:visible").allTextContents().then(String), "");
}

/** Waits until an answer has so many characters. */
async function written(characters: number): Promise<void> {
  await page.waitForFunction(
    (count) => (document.querySelector("#log article:last-child .text")?.textContent ?? "").length >= count,
    characters,
    { timeout: LONG },
  );
}

/** Sends a message, and stops the answer as soon as it has four characters. Gives the answer. */
async function exchange(text: string): Promise<string> {
  await field().fill(text);
  await page.evaluate(() => {
    const observer = new MutationObserver(() => {
      const answer = document.querySelector("#log .answer[aria-busy] .text")?.textContent ?? "";
      if (answer.length < 4) return;
      observer.disconnect();
      document.getElementById("stop")!.click();
    });
    observer.observe(document.getElementById("log")!, { subtree: true, childList: true, characterData: true });
  });
  await button("Send").click();
  await loaded();
  return (await texts()).at(-1)!;
}

/** Forgets what other tests did. */
async function beginAnew(): Promise<void> {
  await button("New chat").click();
  await page.waitForFunction(() => document.querySelectorAll("#log article").length === 0);
  await field().fill("");
}

/** Answers are stopped at any time, so that they are equal only as far as both go. */
function assertSameBeginning(one: string, other: string): void {
  const length = Math.min(one.length, other.length);
  assert.equal(one.slice(0, length), other.slice(0, length));
}

test("progress_is_shown_in_bytes", async () => {
  await page.waitForFunction(() => document.querySelector<HTMLProgressElement>("#progress")!.value > 0);
  assert.match(await textOf(page, "#loaded"), /^\d+\.\d MB of \d+\.\d MB/);
  assert.ok(await button("Send").isDisabled());
  assert.equal(await focused(), "message", "one can write while it loads");
  await page.keyboard.type("Hello");
  await page.keyboard.press("Enter");
  assert.equal(await textOf(page, "#status"), "The model is not loaded yet.");
  await shoot(page, "chat-loading");
  await loaded();
  assert.match(await textOf(page, "#device"), /SwiftShader/i);
  assert.match(await textOf(page, "#facts"), /MB loaded/);
});

test("answer_is_streamed_and_told_when_it_is_finished", async () => {
  await beginAnew();
  await field().fill("Hello");
  await button("Send").click();
  await written(4);
  const answer = log().locator("article").last();
  const early = (await texts()).at(-1)!;
  // Not each piece is announced.
  assert.equal(await answer.getAttribute("aria-live"), "off");
  assert.equal(await textOf(page, "#status"), "Writing an answer.");
  await shoot(page, "chat-writing");
  await loaded();
  const [own, whole] = await texts();
  assert.equal(own, "Hello");
  assert.ok(whole!.startsWith(early) && whole!.length > early.length, "it grew");
  assert.equal(await answer.getAttribute("aria-live"), null);
  assert.match((await answer.locator(".note").textContent()) ?? "", /as long as the model can read/);
  assert.match(await textOf(page, "#figures"), /^\d+ tokens at \d+\.\d tokens\/s, the first after \d+\.\d\d s/);
  assert.equal(await field().inputValue(), "");
});

test("stop_keeps_what_was_written_and_the_chat_goes_on", async () => {
  await beginAnew();
  const answer = await exchange("Hello");
  assert.ok(answer.length >= 4);
  assert.equal(await log().locator("article").last().locator(".note").textContent(), "Stopped.");
  await exchange("And then?");
  const all = await texts();
  assert.equal(all.length, 4);
  assert.equal(all[1], answer);
  // The second prompt has the first turn in it, which the session knew.
  const [, before, known] = /; (\d+) tokens before them, of which (\d+) /.exec(await textOf(page, "#figures"))!;
  assert.ok(Number(known) > 10 && Number(before) > Number(known), `${known} of ${before}`);
});

test("new_chat_forgets", async () => {
  await beginAnew();
  const first = await exchange("Hello");
  await exchange("And then?");
  await button("New chat").click();
  assert.equal(await focused(), "message");
  assert.deepEqual(await texts(), []);
  assertSameBeginning(await exchange("Hello"), first);
  assert.equal((await texts()).length, 2);
});

test("message_that_is_too_long_is_refused_in_a_sentence", async () => {
  await beginAnew();
  const long = "0123456789 ".repeat(40).trim();
  await field().fill(long);
  await button("Send").click();
  const problem = page.getByRole("alert").filter({ visible: true });
  await problem.waitFor({ timeout: LONG });
  assert.match((await problem.textContent()) ?? "", /^[A-Z].* \d+ .*256.*\.$/);
  assert.equal(await field().inputValue(), long, "it can be changed and sent again");
  assert.deepEqual(await texts(), []);
  await shoot(page, "chat-too-long");
  await exchange("Hello");
  assert.ok(await page.locator("#problem").isHidden());
});

test("chat_can_be_used_by_keyboard", async () => {
  await beginAnew();
  await page.keyboard.type("One");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("two");
  await page.keyboard.press("Enter");
  await written(4);
  await page.keyboard.press("Escape");
  await loaded();
  assert.equal((await texts())[0], "One\ntwo");
  assert.equal(await focused(), "message");

  // Stop takes the place of Send, and its focus, and gives both back.
  await page.keyboard.type("More");
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "send");
  await page.keyboard.press("Enter");
  assert.equal(await focused(), "stop");
  await written(4);
  await page.keyboard.press("Space");
  await loaded();
  assert.equal(await focused(), "send");
  assert.equal((await texts()).length, 4);

  for (const id of ["new", "forget"]) {
    await page.keyboard.press("Tab");
    assert.equal(await focused(), id);
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement!).outlineStyle);
    assert.notEqual(outline, "none", `${id} shows that it has the focus`);
  }
  await field().focus();
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Enter"); // opens the settings
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "system");
  await page.keyboard.press("Tab");
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.getByRole("slider", { name: "Temperature" }).inputValue(), "0.1");
  assert.equal(await textOf(page, "#temperature-value"), "0.1");
  await page.keyboard.press("Home");
});

test("everything_has_a_role_and_a_name", async () => {
  for (const [role, name] of [
    ["navigation", "Pages"],
    ["log", "Messages"],
    ["textbox", "Message"],
    ["textbox", "System prompt"],
    ["textbox", "JSON schema"],
    ["slider", "Temperature"],
    ["button", "Send"],
    ["button", "New chat"],
    ["heading", "Chat"],
  ] as const) {
    assert.equal(await page.getByRole(role, { name, exact: true }).count(), 1, `${role} ${name}`);
  }
  const nameless = await page.evaluate(() =>
    Array.from(document.querySelectorAll<HTMLInputElement>("input, textarea, select"))
      .filter(({ labels }) => !labels?.length)
      .map(({ id }) => id),
  );
  assert.deepEqual(nameless, []);
  assert.equal(await log().getAttribute("aria-live"), "polite");
  assert.equal(await page.locator("nav [aria-current=page]").textContent(), "Chat");
});

test("system_prompt_and_temperature_count", async () => {
  await beginAnew();
  const plain = await exchange("Hello");
  await beginAnew();
  await page.getByLabel("System prompt").fill("Speak like a pirate.");
  assert.notEqual((await exchange("Hello")).slice(0, 4), plain.slice(0, 4));
  await page.getByLabel("System prompt").fill("");
  await page.getByRole("slider", { name: "Temperature" }).fill("1.5");
  const drawn = new Set<string>();
  for (let i = 0; i < 4; ++i) {
    await beginAnew();
    drawn.add((await exchange("Hello")).slice(0, 4));
  }
  assert.ok(drawn.size > 1, "each is drawn anew");
  await page.getByRole("slider", { name: "Temperature" }).fill("0");
});

test("answer_fits_its_schema_and_is_never_markup", async () => {
  await beginAnew();
  const schema = page.getByLabel("JSON schema");
  const markup = "<img src=x onerror=alert(1)><script>alert(2)</script>&lt;";
  await schema.fill(JSON.stringify({ const: { "<b>": markup } }));
  await field().fill(`Hello ${markup}`);
  await button("Send").click();
  await loaded();
  const [own, answer] = await texts();
  assert.equal(own, `Hello ${markup}`);
  assert.deepEqual(JSON.parse(answer!), { "<b>": markup });
  assert.equal(await page.locator("#log :is(img, script, b)").count(), 0);
  await shoot(page, "chat-schema");

  await schema.fill('{"type": "strin"}');
  await field().fill("Hello");
  await button("Send").click();
  const problem = page.getByRole("alert").filter({ visible: true });
  await problem.waitFor();
  assert.match((await problem.textContent()) ?? "", /^The JSON schema cannot be used: type at # is "strin", but .*\.$/);
  assert.equal(await field().inputValue(), "Hello");
  await schema.fill("");
});

test("chat_is_readable_at_any_width_in_light_and_dark", async () => {
  await beginAnew();
  await exchange("What is the capital of France, and for how long has it been so?");
  await exchange("Averyveryverylongwordthatdoesnotfitintoanarrowwindowatall");
  for (const width of [1100, 320]) {
    for (const colorScheme of ["light", "dark"] as const) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme });
      await checkReadable(page, "#message");
      await shoot(page, `chat-${width}-${colorScheme}`);
    }
  }
  await page.setViewportSize({ width: 1100, height: 900 });
});

test("chat_opens_without_its_server_after_a_visit", async () => {
  await beginAnew();
  const before = await exchange("Hello");
  await button("Delete it").waitFor();
  assert.match(await textOf(page, "#stored"), /stores \d+\.\d MB of these pages and their models/);
  pages.server.stop();
  await page.reload();
  await loaded();
  assert.match(await textOf(page, "#facts"), /from this browser's cache/);
  assertSameBeginning(await exchange("Hello"), before);
});

// Every day, the page that searches does this.
test("lost_device_can_be_reopened_and_the_conversation_stays", { skip: !isFull }, async () => {
  const [, answer] = await texts();
  await loseDevice(page);
  await button("Reopen").click();
  await loaded();
  await exchange("And then?");
  assert.equal((await texts())[1], answer);
  assert.match(await textOf(page, "#figures"), /of which 0 were known/);
});

test("what_is_stored_can_be_deleted", async () => {
  await button("Delete it").click();
  await page.getByText("This browser stores nothing of these pages.").waitFor();
  assert.equal(await focused(), "stored");
  assert.deepEqual(await page.evaluate(() => caches.keys()), []);
});

const isReal = isFull && existsSync(join(root, "build", "smollm2", "generation.json"));
test("real_model_knows_the_capital_of_france", { skip: !isReal && "only ./test full has the model" }, async () => {
  const patience = 30 * LONG;
  const ask = async (): Promise<void> => {
    await loaded(patience);
    await field().fill("What is the capital of France?");
    await field().press("Enter");
    await button("Stop").waitFor();
    await loaded(patience);
    assert.match((await texts()).at(-1)!, /Paris/);
    console.log(await textOf(page, "#figures"));
  };
  const server = makeServer();
  try {
    ({ page, complaints } = await pages.open("chat.html", { base: await server.start() }));
    await ask();
    assert.match(await textOf(page, "#name"), /smollm2/i);
    await button("Delete it").waitFor();
    await shoot(page, "chat-smollm2");
    server.stop();
    await page.reload();
    await ask();
    assert.match(await textOf(page, "#facts"), /from this browser's cache/);
  } finally {
    server.stop();
  }
});
