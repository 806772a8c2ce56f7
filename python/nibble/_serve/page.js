// A chat with the server that this page comes from, by the same interface that other programs use. It is the chat of
// web/demo, but for where the answers are computed.

const $ = (id) => document.getElementById(id);
let messages = [];
let answering = null; // { stop: AbortController, done: Promise } of an answer that is being written

$("address").textContent = new URL("v1", location.href).href;

function headers() {
  const key = $("key").value.trim();
  return { "Content-Type": "application/json", ...(key && { Authorization: `Bearer ${key}` }) };
}

async function ask(path, request = {}) {
  const response = await fetch(path, { headers: headers(), ...request });
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  if (response.status === 401) $("settings").open = true;
  throw new Error(body?.error?.message ?? `the server answered ${response.status}`);
}

function showProblem(sentence) {
  $("problem").hidden = sentence === "";
  $("problem").textContent = sentence;
}

async function listModels() {
  try {
    const { data } = await (await ask("v1/models")).json();
    const names = data.filter((model) => model.context_length).map((model) => new Option(model.id));
    $("model").replaceChildren(...names);
    showProblem(names.length ? "" : "The server has no language model.");
  } catch (error) {
    showProblem(`The models cannot be listed: ${error.message}.`);
  }
  showTurn();
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

/** A message on the page. An answer is announced when it is whole, not each piece of it. */
function show(who, kind, text) {
  const message = document.createElement("article");
  message.className = kind;
  message.setAttribute("aria-live", "off");
  const [title, body] = [document.createElement("h2"), document.createElement("p")];
  title.textContent = who;
  body.className = "text";
  body.textContent = text;
  message.append(title, body);
  $("log").append(message);
  $("composer").scrollIntoView({ block: "end" });
  return { message, text: body.appendChild(new Text()) };
}

/** Puts a new element in its place, which is announced; `note` says how it ended, if that is not plain. */
function finish({ message }, note) {
  const finished = message.cloneNode(true);
  finished.removeAttribute("aria-live");
  if (note !== "") {
    const line = document.createElement("p");
    line.className = "note";
    line.textContent = note;
    finished.append(line);
  }
  message.replaceWith(finished);
}

/** Whose turn it is: one sends, or stops. The button that goes away hands its focus to the one in its place. */
function showTurn() {
  const [shown, gone] = answering ? [$("stop"), $("send")] : [$("send"), $("stop")];
  const hadFocus = document.activeElement === gone;
  $("send").disabled = $("model").options.length === 0;
  gone.hidden = true;
  shown.hidden = false;
  if (hadFocus) shown.focus();
}

function showUsage(usage) {
  const cached = usage.prompt_tokens_details.cached_tokens;
  $("figures").textContent =
    `${usage.completion_tokens} tokens; ${usage.prompt_tokens} before them, of which ${cached} were known`;
}

function noteOf(reason, signal, text) {
  if (signal.aborted) return "Stopped.";
  if (reason === "length") return "The answer is as long as it may be.";
  return text === "" ? "The model has nothing to say." : "";
}

/** Takes a message, and keeps it together with the answer, or neither. */
async function answer(text, signal) {
  const own = show("You", "own", text);
  const writing = show("Model", "answer", "");
  const asked = [...messages, { role: "user", content: text }];
  const system = $("system").value.trim();
  const body = {
    model: $("model").value,
    messages: system === "" ? asked : [{ role: "system", content: system }, ...asked],
    temperature: Number($("temperature").value),
    stream: true,
    stream_options: { include_usage: true },
  };
  $("status").textContent = "Writing an answer.";
  let problem = null;
  let reason = null;
  try {
    const request = { method: "POST", body: JSON.stringify(body), signal };
    for await (const chunk of eventsOf(await ask("v1/chat/completions", request))) {
      if (chunk.error) throw new Error(chunk.error.message);
      writing.text.appendData(chunk.choices[0]?.delta.content ?? "");
      reason = chunk.choices[0]?.finish_reason ?? reason;
      if (chunk.usage) showUsage(chunk.usage);
    }
    if (reason === null) throw new Error("the connection was closed");
  } catch (error) {
    // What was written until it was stopped stays.
    if (!signal.aborted) problem = error;
  }
  $("status").textContent = "";
  const written = writing.text.data;
  if (problem === null && (written !== "" || !signal.aborted)) {
    messages = [...asked, { role: "assistant", content: written }];
    finish(writing, noteOf(reason, signal, written));
    return;
  }
  own.message.remove();
  writing.message.remove();
  if (signal.aborted) $("status").textContent = "Stopped before the answer began.";
  else showProblem(`The answer failed: ${problem.message}.`);
  // To be sent again, or changed.
  $("message").value = $("message").value === "" ? text : `${text}\n${$("message").value}`;
}

function send() {
  const text = $("message").value.trim();
  if (text === "" || answering || $("send").disabled) return;
  $("message").value = "";
  showProblem("");
  const stop = new AbortController();
  answering = { stop, done: answer(text, stop.signal) };
  showTurn();
  answering.done.finally(() => {
    answering = null;
    showTurn();
  });
}

async function beginAnew() {
  answering?.stop.abort();
  await answering?.done;
  messages = [];
  $("log").replaceChildren();
  showProblem("");
  $("figures").textContent = "";
  $("status").textContent = "A new chat.";
  $("message").focus();
}

$("message").addEventListener("keydown", (event) => {
  // While a word is composed from several keys, Enter is part of it.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});
$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") answering?.stop.abort();
});
$("stop").addEventListener("click", () => answering?.stop.abort());
$("new").addEventListener("click", () => void beginAnew());
$("temperature").addEventListener("input", showTemperature);
$("key").addEventListener("change", () => void listModels());

function showTemperature() {
  $("temperature-value").textContent = Number($("temperature").value).toFixed(1);
}

// A reloaded page keeps what was set.
showTemperature();
void listModels();
