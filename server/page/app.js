// The page of the server. Everything that comes from the model is put into the page as text, never as HTML.
"use strict";

const $ = (id) => document.getElementById(id);
const el = (tag, attrs = {}, ...children) => {
	const e = document.createElement(tag);
	for (const [k, v] of Object.entries(attrs)) {
		if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
		else if (v !== false && v != null) e.setAttribute(k, v === true ? "" : v);
	}
	e.append(...children.filter((c) => c != null));
	return e;
};

let session = "";
let run = "";
let following = null; // the AbortController of the stream that is read

async function api(path, body, more = {}) {
	const opts = { headers: { Accept: "application/json", "Aycoder-Page": localStorage.getItem("page") ?? "", ...more.headers }, signal: more.signal };
	if (body !== undefined) {
		opts.method = "POST";
		opts.headers["Content-Type"] = "application/json";
		opts.body = JSON.stringify(body);
	}
	const res = await fetch(path, opts);
	if (res.status === 401) {
		await login();
		return api(path, body, more);
	}
	if (more.stream && res.ok) return res;
	if (res.status === 204) return null;
	const value = await res.json();
	if (!res.ok) throw Object.assign(new Error(value.detail || value.title), { status: res.status, kind: value.kind });
	return value;
}

function say(text) { $("state").textContent = text; }

const report = (f) => (...args) => Promise.resolve(f(...args)).catch((e) => e.name !== "AbortError" && say(e.message));

let logins = null; // several requests wait for one answer

function login() {
	logins ??= new Promise((done) => {
		$("login").showModal();
		$("login-form").onsubmit = async (e) => {
			e.preventDefault();
			const res = await fetch("login", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token: $("token").value }) });
			if (!res.ok) {
				$("login-error").textContent = "The token is not valid.";
				return;
			}
			localStorage.setItem("page", res.headers.get("Aycoder-Page"));
			$("token").value = $("login-error").textContent = "";
			$("login").close();
			logins = null;
			done();
		};
	});
	return logins;
}

// Markdown, as far as answers need it: fences, headings, lists, paragraphs, and marks inside of a line.
function inline(text) {
	const out = [];
	const marks = /`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\((https?:\/\/[^\s)]+)\)/g;
	let at = 0;
	for (const m of text.matchAll(marks)) {
		out.push(text.slice(at, m.index));
		if (m[1]) out.push(el("code", {}, m[1]));
		else if (m[2]) out.push(el("strong", {}, m[2]));
		else out.push(el("a", { href: m[4], rel: "noreferrer noopener", target: "_blank" }, m[3]));
		at = m.index + m[0].length;
	}
	out.push(text.slice(at));
	return out;
}

function markdown(text) {
	const out = [];
	const lines = text.split("\n");
	for (let i = 0; i < lines.length; i++) {
		const fence = lines[i].match(/^\s*(```+|~~~+)/);
		if (fence) {
			const code = [];
			for (i++; i < lines.length && !lines[i].trimStart().startsWith(fence[1]); i++) code.push(lines[i]);
			out.push(el("pre", { tabindex: "0" }, el("code", {}, code.join("\n"))));
			continue;
		}
		const head = lines[i].match(/^(#{1,6})\s+(.*)/);
		if (head) {
			out.push(el("h" + Math.min(6, head[1].length + 2), {}, ...inline(head[2])));
			continue;
		}
		const item = /^\s*([-*+]|\d+[.)])\s+(.*)/;
		if (item.test(lines[i])) {
			const list = el(/^\s*\d/.test(lines[i]) ? "ol" : "ul");
			for (; i < lines.length && item.test(lines[i]); i++) list.append(el("li", {}, ...inline(lines[i].match(item)[2])));
			i--;
			out.push(list);
			continue;
		}
		if (!lines[i].trim()) continue;
		const par = [];
		for (; i < lines.length && lines[i].trim() && !/^\s*(```|~~~|#|[-*+]\s|\d+[.)]\s)/.test(lines[i]); i++) par.push(lines[i]);
		if (par.length) i--;
		else par.push(lines[i]);
		out.push(el("p", {}, ...inline(par.join("\n"))));
	}
	return out;
}

// A diff: the sign at the beginning of a line tells what the color tells.
function diff(text) {
	const kind = (line) => (/^(\+\+\+|---) /.test(line) ? "same" : line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : "same");
	return el("pre", { tabindex: "0", "aria-label": "Change" }, ...text.split("\n").map((line) => el("span", { class: kind(line) }, line)));
}

// The conversation.
const talk = { text: "", box: null, kind: "", turn: [], frame: 0, draw: null };

function put(node) {
	const down = $("talk").scrollHeight - $("talk").scrollTop - $("talk").clientHeight < 80;
	$("talk").append(node);
	talk.turn.push(node);
	if (down) $("talk").scrollTop = $("talk").scrollHeight;
	return node;
}

// drawNow draws what waits for the next frame.
function drawNow() {
	cancelAnimationFrame(talk.frame);
	talk.draw?.();
	talk.draw = null;
}

function endText() {
	drawNow();
	talk.box = null;
	talk.text = "";
}

function text(kind, more) {
	if (!talk.box || talk.kind !== kind) {
		endText();
		talk.kind = kind;
		talk.box = put(el("div", { class: kind }));
	}
	talk.text += more;
	const { box, text: all } = talk;
	cancelAnimationFrame(talk.frame);
	talk.draw = () => {
		const down = $("talk").scrollHeight - $("talk").scrollTop - $("talk").clientHeight < 80;
		box.replaceChildren(...(kind === "thinking" ? [all] : markdown(all)));
		if (down) $("talk").scrollTop = $("talk").scrollHeight;
	};
	if (document.hidden || kind === "thinking") drawNow();
	else talk.frame = requestAnimationFrame(drawNow);
}

const tools = new Map();

function tool(id, name, subject) {
	endText();
	const box = put(el("details", { class: "tool" }, el("summary", {}, name + " " + (subject || "") + " …")));
	tools.set(id, box);
	return box;
}

function toolEnd(ev) {
	const box = tools.get(ev.id) || tool(ev.id, ev.name, ev.subject);
	box.replaceChildren(
		el("summary", {}, (ev.is_error ? "✗ " : "✓ ") + ev.name + " " + (ev.subject || "") + (ev.summary ? " — " + ev.summary : "")),
		/^(diff |---|@@)/.test(ev.output) ? diff(ev.output) : el("pre", { tabindex: "0" }, ev.output),
	);
	$("ask-" + ev.id)?.remove();
}

function ask(q, of) {
	endText();
	$("ask-" + q.id)?.remove();
	const answer = report(async (decision, rule) => {
		const body = { decision, digest: q.digest };
		if (rule) body.rule = rule;
		await api("api/runs/" + of + "/approvals/" + encodeURIComponent(q.id), body);
		box.remove();
		$("prompt").focus();
	});
	const title = "Allow " + q.name + (q.subject ? " " + q.subject : "") + "?";
	const box = el("section", { class: "ask", id: "ask-" + q.id, role: "group", "aria-label": title, tabindex: "-1" },
		el("h2", {}, title),
		q.reasons?.length ? el("p", {}, q.reasons.join("; ")) : null,
		q.preview ? diff(q.preview) : el("pre", { tabindex: "0" }, JSON.stringify(q.args, null, 2)),
		el("button", { type: "button", onclick: () => answer("allow") }, "Allow"), " ",
		...(q.suggested || []).flatMap((rule) => [el("button", { type: "button", onclick: () => answer("allow", rule) }, "Allow " + rule + " in this session"), " "]),
		el("button", { type: "button", onclick: () => answer("deny") }, "Deny"),
	);
	$("asks").append(box);
	box.focus();
}

function usage(u, cost) {
	if (!u) return;
	const n = (x) => (x || 0).toLocaleString("en");
	$("usage").textContent = n((u.input || 0) + (u.cache_read || 0) + (u.cache_write || 0)) + " tokens in, " + n(u.output) + " out" + (cost ? ", $" + cost.toFixed(4) : "");
}

function show(ev, of) {
	switch (ev.type) {
	case "text_delta": return text("answer", ev.text);
	case "thinking_delta": return text("thinking", ev.text);
	case "tool_start": tool(ev.id, ev.name, ev.subject); return;
	case "tool_end": return toolEnd(ev);
	case "approval_request": return ask(ev, of);
	case "child":
		if (ev.event.type === "approval_request" || ev.event.type === "child") show(ev.event, of);
		return;
	case "retry":
		endText();
		if (ev.discarded) talk.turn.splice(0).forEach((e) => e.remove());
		return say("The model is asked again.");
	case "turn_end":
		endText();
		talk.turn = [];
		return;
	case "notice": put(el("p", { class: "notice" }, ev.source + ": " + ev.text)); return;
	case "run_end":
		endText();
		$("asks").replaceChildren();
		return say(ev.error ? ev.error.detail : ev.reason === "done" ? "Done." : "The run has ended: " + ev.reason + ".");
	}
}

// follow reads the events of a run. If the connection breaks, it goes on behind the last event that came.
const follow = report(async (id) => {
	following?.abort();
	const stop = (following = new AbortController());
	run = id;
	let last = "", wait = 500, over = false;
	working(true);
	while (!over && !stop.signal.aborted) {
		try {
			const res = await api("api/runs/" + id + "/events", undefined, { stream: true, signal: stop.signal, headers: { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) } });
			const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
			let rest = "";
			for (;;) {
				const { value, done } = await reader.read();
				if (done) break;
				wait = 500;
				const parts = (rest + value).split("\n\n");
				rest = parts.pop();
				for (const part of parts) {
					const data = [];
					for (const line of part.split("\n")) {
						if (line.startsWith("data: ")) data.push(line.slice(6));
						if (line.startsWith("id: ")) last = line.slice(4);
					}
					if (!data.length) continue;
					const ev = JSON.parse(data.join("\n"));
					show(ev, id);
					if (ev.type === "run_end") { // what is sent from now on begins the next run
						over = true;
						run = "";
						working(false);
					}
				}
			}
		} catch (e) {
			if (stop.signal.aborted) return;
			if (e.status && e.status < 500 && e.status !== 429) throw e;
		}
		if (!over) {
			say("The connection is lost. Trying again …");
			await new Promise((r) => setTimeout(r, wait));
			wait = Math.min(wait * 2, 10_000);
		}
	}
	if (stop.signal.aborted) return;
	list();
	const s = await api("api/sessions/" + session);
	usage(s.usage, s.cost);
	if (!$("tree").hidden) tree();
});

function working(yes) {
	$("stop").hidden = !yes;
	if (yes) say("Working …");
}

// send sends what is in the box, once: what is entered meanwhile stays there.
let sending = false;
const send = report(async () => {
	const words = $("prompt").value.trim();
	if (!words || sending) return;
	sending = true;
	$("prompt").value = "";
	try {
		await deliver(words);
	} catch (e) {
		$("prompt").value = [words, $("prompt").value].filter(Boolean).join("\n");
		throw e;
	} finally {
		sending = false;
	}
});

async function deliver(words) {
	if (run) {
		const late = await api("api/runs/" + run + "/steer", { text: words }).catch((e) => { if (e.kind !== "over") throw e; return e; });
		if (!late) return say("The message goes to the model with its next turn.");
		await open(session); // its end has not come yet
	}
	const key = [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
	const started = await api("api/prompt", session ? { prompt: words, session } : { prompt: words }, { headers: { "Idempotency-Key": key } });
	session = started.session;
	location.hash = session;
	put(el("div", { class: "user" }, words));
	talk.turn = [];
	list();
	follow(started.run);
}

const list = report(async () => {
	const { sessions } = await api("api/sessions");
	$("sessions").replaceChildren(...sessions.map((s) => el("li", {},
		el("button", { type: "button", "aria-current": s.id === session && "true", onclick: () => open(s.id) }, s.title || s.prompt || s.id))));
});

// message shows a message of the past.
function message(n) {
	for (const p of n.message?.parts || []) {
		if (p.type === "text" && n.role === "user") put(el("div", { class: "user" }, p.text));
		else if (p.type === "text") text("answer", p.text), endText();
		else if (p.type === "thinking" && p.text) text("thinking", p.text), endText();
		else if (p.type === "tool_use") tool(p.id, p.name, "");
		else if (p.type === "tool_output") toolEnd({ id: p.id, name: p.name, is_error: p.is_error, output: (p.parts || []).map((x) => x.text || "").join("") });
	}
}

const open = report(async (id) => {
	following?.abort();
	run = "";
	session = id;
	location.hash = id;
	$("talk").replaceChildren();
	$("asks").replaceChildren();
	tools.clear();
	working(false);
	say("");
	if (!id) {
		usage({}, 0);
		$("prompt").focus();
		return list();
	}
	const s = await api("api/sessions/" + id);
	// The stream of a run that works begins with its first event, so what the tree has of it is not shown twice.
	s.nodes.filter((n) => !s.run || n.run !== s.run || n.role === "user" && n.message?.parts.some((p) => p.type === "text")).forEach((n) => message(n));
	talk.turn = [];
	usage(s.usage, s.cost);
	list();
	if (!$("tree").hidden) tree();
	if (s.run) follow(s.run);
	$("prompt").focus();
});

const tree = report(async () => {
	if (!session) return $("nodes").replaceChildren();
	const t = await api("api/sessions/" + session + "/tree");
	const depth = new Map(), children = new Map();
	t.nodes.forEach((n) => n.id && children.set(n.parent, (children.get(n.parent) || 0) + 1));
	t.nodes.forEach((n) => depth.set(n.id, n.id ? depth.get(n.parent) + (children.get(n.parent) > 1 ? 1 : 0) : 0));
	$("nodes").replaceChildren(...t.nodes.map((n) => el("li", {}, el("button", {
		type: "button", "aria-current": n.id === t.head && "true", title: "Continue here",
		onclick: report(async () => { await api("api/sessions/" + session + "/checkout", { node: n.id }); await open(session); }),
	}, "\u2003".repeat(depth.get(n.id)) + (n.label ? "[" + n.label + "] " : "") + (n.role === "user" && !n.text ? "outputs of tools" : (n.role || "start") + (n.text ? ": " + n.text.slice(0, 80) : ""))))));
});

$("form").addEventListener("submit", (e) => { e.preventDefault(); send(); });
$("prompt").addEventListener("keydown", (e) => {
	if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); send(); }
});
const stop = report(() => run && api("api/runs/" + run + "/cancel", {}));
document.addEventListener("keydown", (e) => e.key === "Escape" && !$("login").open && stop());
$("stop").addEventListener("click", stop);
$("new-button").addEventListener("click", () => open(""));
$("tree-button").addEventListener("click", () => {
	$("tree").hidden = !$("tree").hidden;
	$("tree-button").setAttribute("aria-expanded", String(!$("tree").hidden));
	if (!$("tree").hidden) tree();
});
$("login").addEventListener("cancel", (e) => e.preventDefault());
open(location.hash.slice(1));
