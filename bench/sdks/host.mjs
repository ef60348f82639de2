// Host is a program that embeds one of the SDKs: node host.mjs claude|codex|copilot MODEL-URL.
// A line of its input is a turn {"session":1,"prompt":"…"}; a new number opens a session. It
// answers with the times in ms from the call of the SDK to the first event, to the first text
// of the model, and to the end.
import { createInterface } from "node:readline";

const [, , sdk, base] = process.argv;
const cwd = process.cwd();

// pipe returns a function that puts a value in, and an iterable of the values.
function pipe() {
  const { readable, writable } = new TransformStream();
  const writer = writable.getWriter();
  return [(v) => writer.write(v), readable];
}

// Each loads an SDK and returns a function that opens a session: a function from a prompt to
// its events, which yields whether an event has text of the model.
const load = {
  async claude() {
    const { query } = await import("@anthropic-ai/claude-agent-sdk");
    return () => {
      const [put, prompts] = pipe();
      const systemPrompt = { type: "preset", preset: "claude_code" };
      const options = { cwd, model: "claude-sonnet-4-5", includePartialMessages: true, systemPrompt };
      const events = query({ prompt: prompts, options });
      return async function* (content) {
        put({ type: "user", message: { role: "user", content }, parent_tool_use_id: null });
        for (;;) {
          const { value: e } = await events.next();
          if (e.is_error) throw new Error(JSON.stringify(e));
          yield e.event?.type === "content_block_delta";
          if (e.type === "result") return;
        }
      };
    };
  },
  async codex() {
    const { Codex } = await import("@openai/codex-sdk");
    // The built-in provider would use a WebSocket.
    const model = { name: "model", base_url: base + "/v1", wire_api: "responses", env_key: "CODEX_API_KEY" };
    const quiet = { analytics: { enabled: false }, check_for_update_on_startup: false };
    const config = { ...quiet, model_provider: "model", model_providers: { model } };
    const codex = new Codex({ apiKey: "key", config });
    return () => {
      const thread = codex.startThread({ workingDirectory: cwd, model: "gpt-5" });
      return async function* (content) {
        for await (const e of (await thread.runStreamed(content)).events) {
          if (e.type === "turn.failed" || e.type === "error") throw new Error(JSON.stringify(e));
          yield e.item?.type === "agent_message";
        }
      };
    };
  },
  async copilot() {
    const { CopilotClient, approveAll } = await import("@github/copilot-sdk");
    const client = new CopilotClient({ useLoggedInUser: false });
    return () => {
      const provider = { type: "anthropic", baseUrl: base, apiKey: "key" };
      const options = { model: "claude-sonnet-4.5", streaming: true, workingDirectory: cwd, provider };
      const session = client.createSession({ ...options, onPermissionRequest: approveAll });
      return async function* (prompt) {
        const [put, events] = pipe();
        const off = (await session).on(put);
        await (await session).send({ prompt });
        for await (const e of events) {
          if (e.type === "session.error") throw new Error(JSON.stringify(e));
          yield e.type === "assistant.message_delta";
          if (e.type === "session.idle") break;
        }
        off();
      };
    };
  },
};

const open = await load[sdk]();
const sessions = new Map();

async function turn({ session, prompt }) {
  const start = performance.now();
  const out = {};
  try {
    if (!sessions.has(session)) sessions.set(session, open());
    for await (const text of sessions.get(session)(prompt)) {
      out.first ??= performance.now() - start;
      if (text) out.text ??= performance.now() - start;
    }
    out.end = performance.now() - start;
  } catch (e) {
    out.error = String(e);
  }
  console.log(JSON.stringify(out));
}

for await (const line of createInterface({ input: process.stdin })) turn(JSON.parse(line));
process.exit();
