// A chat with the server that this page comes from, by the same interface that other programs use.

const $ = (id) => document.getElementById(id);
let messages = [];
let running = null; // the AbortController of an answer that is being written

$("address").textContent = new URL("v1", location.href).href;

function headers() {
  const key = $("key").value.trim();
  return { "Content-Type": "application/json", ...(key && { Authorization: `Bearer ${key}` }) };
}

async function checked(response) {
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  if (response.status === 401) $("settings").open = true;
  throw new Error(body?.error?.message ?? `the server answered ${response.status}`);
}

function complain(text) {
  $("problem").hidden = !text;
  $("problem").textContent = text;
}

async function listModels() {
  try {
    const response = await checked(await fetch("v1/models", { headers: headers() }));
    const { data } = await response.json();
    const names = data.filter((model) => model.context_length).map((model) => new Option(model.id));
    $("model").replaceChildren(...names);
    complain(names.length ? "" : "The server has no language model.");
  } catch (error) {
    complain(`The models cannot be listed: ${error.message}.`);
  }
}

/** The data of server-sent events, one after the other. */
async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      if (event.startsWith("data: ") && event !== "data: [DONE]") yield JSON.parse(event.slice(6));
    }
  }
}

function show(role, text) {
  const paragraph = document.createElement("p");
  paragraph.className = role;
  paragraph.textContent = text;
  $("log").append(paragraph);
  paragraph.scrollIntoView({ block: "end" });
  return paragraph;
}

async function answer() {
  const own = messages; // New chat replaces them
  running = new AbortController();
  $("send").disabled = true;
  $("stop").hidden = false;
  $("status").textContent = "Writing";
  complain("");
  const system = $("system").value.trim();
  const body = {
    model: $("model").value,
    messages: system ? [{ role: "system", content: system }, ...own] : own,
    temperature: Number($("temperature").value),
    stream: true,
    stream_options: { include_usage: true },
  };
  const paragraph = show("assistant", "");
  let text = "";
  try {
    const response = await checked(
      await fetch("v1/chat/completions", {
        method: "POST",
        headers: headers(),
        body: JSON.stringify(body),
        signal: running.signal,
      }),
    );
    for await (const chunk of eventsOf(response)) {
      if (chunk.error) throw new Error(chunk.error.message);
      text += chunk.choices[0]?.delta.content ?? "";
      paragraph.textContent = text;
      paragraph.scrollIntoView({ block: "end" });
      if (chunk.usage) {
        const cached = chunk.usage.prompt_tokens_details.cached_tokens;
        $("status").textContent =
          `${chunk.usage.prompt_tokens} tokens read, ${cached} of them known; ${chunk.usage.completion_tokens} written`;
      }
    }
  } catch (error) {
    if (error.name === "AbortError") $("status").textContent = "Stopped";
    else complain(`The answer failed: ${error.message}.`);
  }
  if (text) own.push({ role: "assistant", content: text });
  else paragraph.remove();
  if ($("status").textContent === "Writing") $("status").textContent = "";
  running = null;
  $("send").disabled = false;
  $("stop").hidden = true;
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("message").value.trim();
  if (!text || running) return;
  $("message").value = "";
  messages.push({ role: "user", content: text });
  show("user", text);
  answer();
});
$("message").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $("composer").requestSubmit();
});
document.addEventListener("keydown", (event) => event.key === "Escape" && running?.abort());
$("stop").addEventListener("click", () => running?.abort());
$("new").addEventListener("click", () => {
  running?.abort();
  messages = [];
  $("log").replaceChildren();
  $("status").textContent = "";
  $("message").focus();
});
$("temperature").addEventListener("input", () => ($("temperature-value").value = $("temperature").value));
$("key").addEventListener("change", listModels);
listModels();
