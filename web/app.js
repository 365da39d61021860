// The chat page: a conversation with the server that sent it.

import { renderMarkdown } from "./markdown.js";

const byId = (id) => document.getElementById(id);
const kNumbers = ["temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_tokens", "seed"];
const kStored = ["system", ...kNumbers];
const kStorageKey = "octavo-settings";

const conversation = [];  // {role, content}, without the system prompt
let running = null;       // the AbortController of the answer that comes in

// --- settings

function loadSettings() {
  let stored = {};
  try {
    stored = JSON.parse(localStorage.getItem(kStorageKey)) ?? {};
  } catch {
    // Storage may be forbidden, or hold something else.
  }
  for (const id of kStored) byId(id).value = stored[id] ?? "";
}

function saveSettings() {
  const values = Object.fromEntries(kStored.map((id) => [id, byId(id).value]));
  try {
    localStorage.setItem(kStorageKey, JSON.stringify(values));
  } catch {
    // They hold as long as the page is open.
  }
}

function sampling() {
  const fields = {};
  for (const id of kNumbers) {
    const value = byId(id).value.trim();
    if (value !== "") fields[id] = Number(value);
  }
  return fields;
}

function headers() {
  const key = byId("api_key").value;
  return { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

// --- the server

async function failure(response) {
  try {
    const { error } = await response.json();
    if (response.status === 401) return "This server wants an API key: see Settings.";
    return error.message ?? String(error);
  } catch {
    return `The server answers ${response.status} ${response.statusText}`;
  }
}

// The objects of a stream of server-sent events.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const data = part.replace(/^data: /, "");
      if (data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.error) throw new Error(event.error.message ?? "the answer failed");
      yield event;
    }
  }
}

async function showModel() {
  try {
    const response = await fetch("v1/models", { headers: headers() });
    if (!response.ok) {
      byId("model").textContent = await failure(response);
      return;
    }
    byId("model").textContent = (await response.json()).data[0].id;
  } catch {
    byId("model").textContent = "the server does not answer";
  }
}

// --- messages

function addMessage(role, title) {
  const node = document.createElement("article");
  node.className = `message ${role}`;
  const heading = document.createElement("h2");
  heading.textContent = title;
  const content = document.createElement("div");
  content.className = "content";
  node.append(heading, content);
  byId("messages").append(node);
  byId("empty").hidden = true;
  return { node, content };
}

function addLine(node, className, text) {
  const line = document.createElement("p");
  line.className = className;
  line.textContent = text;
  node.append(line);
}

// Follows the answer unless the reader has scrolled away from the end.
function keepingEnd(change) {
  const scroller = byId("scroller");
  const atEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 80;
  change();
  if (atEnd) scroller.scrollTop = scroller.scrollHeight;
}

function figures(times, usage, reason) {
  if (!times.first) return "";
  const parts = [`first token after ${((times.first - times.start) / 1000).toFixed(2)} s`];
  const tokens = usage?.completion_tokens ?? 0;
  const seconds = (times.last - times.first) / 1000;
  if (tokens > 1 && seconds > 0) parts.unshift(`${((tokens - 1) / seconds).toFixed(1)} tokens/s`);
  if (tokens > 0) parts.push(`${usage.prompt_tokens} + ${tokens} tokens`);
  if (reason === "length") parts.push("cut at the token limit");
  if (reason === "stopped") parts.push("stopped");
  return parts.join(" · ");
}

class Answer {
  constructor() {
    Object.assign(this, addMessage("assistant", "Answer"));
    this.text = "";
    this.times = { start: performance.now(), first: 0, last: 0 };
    this.reason = null;
    this.content.classList.add("waiting");
    this.node.setAttribute("aria-busy", "true");
  }

  take(event) {
    if (event.usage) this.usage = event.usage;
    const choice = event.choices[0];
    if (!choice) return;
    if (choice.finish_reason) this.reason = choice.finish_reason;
    const delta = choice.delta.content;
    if (!delta) return;
    this.times.last = performance.now();
    this.times.first ||= this.times.last;
    this.text += delta;
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  draw() {
    keepingEnd(() => {
      this.content.classList.toggle("waiting", this.text === "");
      this.content.replaceChildren(...renderMarkdown(this.text));
    });
  }

  end(error) {
    if (this.frame) cancelAnimationFrame(this.frame);
    this.draw();
    keepingEnd(() => {
      this.content.classList.remove("waiting");
      this.node.removeAttribute("aria-busy");
      const line = figures(this.times, this.usage, this.reason);
      if (line) addLine(this.node, "figures", line);
      if (error) addLine(this.node, "error", error);
    });
  }
}

// --- sending

function setRunning(controller) {
  running = controller;
  byId("send").hidden = controller !== null;
  byId("stop").hidden = controller === null;
}

function showSendable() {
  byId("send").disabled = byId("input").value.trim() === "";
}

async function stream(answer, signal) {
  const system = byId("system").value.trim();
  const messages = system ? [{ role: "system", content: system }, ...conversation] : conversation;
  const response = await fetch("v1/chat/completions", {
    method: "POST",
    headers: headers(),
    signal,
    body: JSON.stringify({
      messages, stream: true, stream_options: { include_usage: true, continuous_usage_stats: true },
      ...sampling(),
    }),
  });
  if (!response.ok) throw new Error(await failure(response));
  for await (const event of events(response.body)) answer.take(event);
}

async function send(text) {
  conversation.push({ role: "user", content: text });
  addMessage("user", "You").content.textContent = text;
  const controller = new AbortController();
  setRunning(controller);
  const answer = new Answer();
  byId("scroller").scrollTop = byId("scroller").scrollHeight;
  let error = "";
  try {
    await stream(answer, controller.signal);
  } catch (cause) {
    if (controller.signal.aborted) answer.reason = "stopped";
    else error = cause.message;
  }
  answer.end(error);
  if (running !== controller) return;  // the conversation was forgotten meanwhile
  if (answer.text) conversation.push({ role: "assistant", content: answer.text });
  else conversation.pop();
  setRunning(null);
}

function submit() {
  const input = byId("input");
  const text = input.value.trim();
  if (text === "" || running) return;
  input.value = "";
  fitInput();
  send(text);
}

function fitInput() {
  const input = byId("input");
  input.style.height = "auto";
  input.style.height = `${input.scrollHeight + 2}px`;
  showSendable();
}

function newChat() {
  running?.abort();
  setRunning(null);
  conversation.length = 0;
  byId("messages").replaceChildren();
  byId("empty").hidden = false;
  byId("input").focus();
}

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
byId("input").addEventListener("input", fitInput);
byId("input").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});
byId("stop").addEventListener("click", () => running?.abort());
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !byId("settings").open) running?.abort();
});
byId("new-chat").addEventListener("click", newChat);
byId("open-settings").addEventListener("click", () => byId("settings").showModal());
byId("settings").addEventListener("close", () => {
  saveSettings();
  showModel();
  byId("input").focus();
});
byId("reset-settings").addEventListener("click", () => {
  for (const id of [...kStored, "api_key"]) byId(id).value = "";
});

loadSettings();
showSendable();
showModel();
