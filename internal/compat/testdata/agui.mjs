// Talks to a server with the client of AG-UI: node agui.mjs NODE_MODULES URL. It prints what it has put together as JSON.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [, , modules, url] = process.argv;
const require = createRequire(modules + "/");
const { HttpAgent, buildResumeArray } = await import(pathToFileURL(require.resolve("@ag-ui/client")));

const agent = () => new HttpAgent({ url: url + "/api/agui", threadId: "thread" });
const user = (id, content) => ({ id, role: "user", content });
const out = {};

// A run with thoughts, texts, a call that reads, and one that asks; the answer allows it.
const a = agent();
a.addMessage(user("u1", "change it"));
let outcome;
const watch = { onRunFinishedEvent: (p) => { outcome = p.outcome; } };
await a.runAgent({}, watch);
out.asked = { outcome, interrupts: a.pendingInterrupts.map((i) => ({ reason: i.reason, message: i.message, tool: i.toolCallId, preview: i.metadata.aycoder.approval.preview })) };
const resume = buildResumeArray(a.pendingInterrupts, Object.fromEntries(a.pendingInterrupts.map((i) => [i.id, { status: "resolved", payload: { approved: true } }])));
await a.runAgent({ resume }, watch);
out.allowed = { outcome, messages: structuredClone(a.messages) };

// The same answer again changes nothing, and gives the same messages.
const replay = agent();
replay.setMessages(a.messages);
await replay.runAgent({ resume });
out.replayed = replay.messages;

// A run that asks and is not allowed.
a.addMessage(user("u2", "change it again"));
await a.runAgent({}, watch);
await a.runAgent({ resume: [{ interruptId: a.pendingInterrupts[0].id, status: "resolved", payload: { approved: false, reason: "not now" } }] }, watch);
out.denied = a.messages.at(-1).content;

// The connection breaks in the middle of a text. The same request again goes on with the run.
a.addMessage(user("u3", "be slow"));
const broken = new AbortController();
await a.runAgent({ runId: "slow", abortController: broken }, { onTextMessageContentEvent: () => broken.abort() }).catch(() => {});
out.part = a.messages.at(-1).content;
await a.runAgent({ runId: "slow" }, { onTextMessageContentEvent: () => { fetch(url + "/gate"); }, ...watch });
out.whole = a.messages.filter((m) => m.role === "assistant").at(-1).content;
out.answers = a.messages.filter((m) => m.role === "assistant" && m.content?.startsWith("Slow")).length;

// What cannot be carried out is an event.
let error;
await a.runAgent({ resume: [{ interruptId: "none", status: "cancelled" }] }, { onRunErrorEvent: ({ event }) => { error = event.code; } }).catch(() => {});
out.error = error;
a.addMessage(user("u4", "fail"));
await a.runAgent({}, { onRunErrorEvent: ({ event }) => { error = event.code; } }).catch(() => {});
out.failed = error;
console.log(JSON.stringify(out));
