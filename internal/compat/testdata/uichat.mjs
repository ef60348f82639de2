// Talks to a server with the Chat of useChat: node uichat.mjs NODE_MODULES URL. It prints what it has put together as JSON.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [, , modules, url] = process.argv;
const require = createRequire(modules + "/");
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } = await load("ai");
const { Chat } = await load("@ai-sdk/react");

const failures = [];
const chat = (messages = [], more = {}) => new Chat({
	id: "chat", messages,
	transport: new DefaultChatTransport({ api: url + "/api/chat", ...more }),
	sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
	onError: (e) => failures.push(e.message),
});
const ready = async (c) => { while (c.status === "submitted" || c.status === "streaming") await new Promise((r) => setTimeout(r, 5)); };
const part = (c) => c.messages.at(-1).parts.find((p) => p.state === "approval-requested");
const seen = (c) => c.messages.at(-1).parts.map(({ type, text, toolName, state, input, output, errorText }) => ({ type, text, toolName, state, input, output, errorText }));
const out = {};

const a = chat();
await a.sendMessage({ text: "change it" });
out.asked = { parts: seen(a), preview: part(a).approval.descriptor.preview };
await a.addToolApprovalResponse({ id: part(a).approval.id, approved: true });
await new Promise((r) => setTimeout(r, 5));
await ready(a);
out.allowed = { parts: seen(a), messages: a.messages.length };

await a.sendMessage({ text: "change it again" });
await a.addToolApprovalResponse({ id: part(a).approval.id, approved: false, reason: "not now" });
await new Promise((r) => setTimeout(r, 5));
await ready(a);
out.denied = seen(a);

// A page is loaded again in the middle of a text: another chat with what was there before.
const before = a.messages;
a.sendMessage({ text: "be slow" });
while (!a.messages.at(-1).parts.some((p) => p.type === "text" && p.text.startsWith("Slow"))) await new Promise((r) => setTimeout(r, 5));
const user = a.messages.at(-2);
await a.stop();
const b = chat([...before, user]);
const resumed = b.resumeStream();
while (!b.messages.at(-1).parts.some((p) => p.type === "text" && p.text.startsWith("Slow"))) await new Promise((r) => setTimeout(r, 5));
await fetch(url + "/gate");
await resumed;
out.whole = seen(b);
const idle = chat(b.messages);
await idle.resumeStream(); // there is nothing to go on with
out.idle = [idle.status, idle.messages.length - b.messages.length];

out.failures = failures.length;
await b.sendMessage({ text: "fail" });
out.failed = failures.at(-1);
await b.regenerate();
out.regenerate = JSON.parse(failures.at(-1)).kind;
console.log(JSON.stringify(out));
