// A client on the official TypeScript SDK, as an editor with buffers. It runs the cases that its arguments name, each with
// a new agent, and fails with the first one that does not do what it should.
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";
import { spawn } from "node:child_process";
import { strict as assert } from "node:assert";
import { mkdtempSync, readFileSync, realpathSync, writeFileSync, existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";

const program = process.env.AYCODER_ACP_PROGRAM;
const five = "one\ntwo\nthree\nfour\nfive\n";
const complaints = []; // of the SDK, about messages that are not valid
console.error = (...words) => complaints.push(words.map(String).join(" "));

// settled waits for the handlers of updates that came before an answer: the SDK does not.
const settled = () => new Promise((resolve) => setImmediate(resolve));

// run starts an agent that does what the case says, and passes an editor with a session to body.
async function run(name, body, { fs = { readTextFile: true, writeTextFile: true }, files = { "a.txt": five }, mcpServers = [] } = {}) {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), "acp-")));
  for (const [file, text] of Object.entries(files)) writeFileSync(join(dir, file), text);
  const agent = spawn(program, [], { env: { ...process.env, AYCODER_ACP_CASE: name }, stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => agent.on("exit", resolve));
  const e = { dir, file: join(dir, "a.txt"), buffers: new Map(), updates: [], asked: [], writes: [], answer: () => "allow" };
  e.disk = () => readFileSync(e.file, "utf8");
  e.text = (kind) => e.updates.filter((u) => u.sessionUpdate === kind).map((u) => u.content.text).join("");
  e.calls = () => e.updates.filter((u) => u.sessionUpdate === "tool_call_update");
  e.output = () => JSON.stringify(e.calls());
  const app = client({ name: "test" })
    .onRequest(methods.client.session.requestPermission, async ({ params }) => {
      e.asked.push(params);
      const id = await e.answer(params);
      return { outcome: id ? { outcome: "selected", optionId: id } : { outcome: "cancelled" } };
    })
    .onRequest(methods.client.fs.readTextFile, ({ params }) => ({ content: e.buffers.get(params.path) ?? readFileSync(params.path, "utf8") }))
    .onRequest(methods.client.fs.writeTextFile, ({ params }) => {
      e.writes.push(params.path);
      if (e.buffers.has(params.path)) e.buffers.set(params.path, params.content);
      writeFileSync(params.path, params.content);
      return {};
    })
    .onNotification(methods.client.session.update, ({ params }) => void e.updates.push(params.update));
  await app.connectWith(ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)), async (ctx) => {
    e.request = (method, params) => ctx.request(method, params);
    e.notify = (method, params) => ctx.notify(method, params);
    e.init = await e.request(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities: { fs } });
    e.session = await e.request(methods.agent.session.new, { cwd: dir, mcpServers });
    e.prompt = async (text) => {
      const answer = await e.request(methods.agent.session.prompt, { sessionId: e.session.sessionId, prompt: [{ type: "text", text }] });
      await settled();
      return answer;
    };
    await body(e);
  });
  agent.stdin.end();
  assert.equal(await ended, 0, "the agent ends with its client");
  assert.deepEqual(complaints, []);
}

const merged = five.replace("five", "FIVE").replace("one", "ONE");

const cases = {
  initialize: () => run("edit", (e) => {
    assert.equal(e.init.protocolVersion, 1);
    assert.equal(e.init.agentCapabilities.loadSession, true);
    assert.equal(e.session.modes.currentModeId, "ask");
    assert.equal(e.session.configOptions[0].id, "mode");
  }),
  prompt: () => run("say", async (e) => {
    assert.equal((await e.prompt("hello")).stopReason, "end_turn");
    assert.equal(e.text("agent_message_chunk"), "Hello.");
    assert.equal(e.text("agent_thought_chunk"), "Hm.");
    assert.ok(e.updates.some((u) => u.sessionUpdate === "available_commands_update"));
  }),
  permission: async () => {
    await run("touch", async (e) => {
      await e.prompt("go");
      assert.equal(e.asked.length, 1);
      assert.ok(existsSync(join(e.dir, "x")));
    });
    await run("touch", async (e) => {
      e.answer = () => "deny";
      await e.prompt("go");
      assert.ok(!existsSync(join(e.dir, "x")));
      assert.equal(e.calls().at(-1).status, "failed");
    });
    await run("touch twice", async (e) => {
      e.answer = (q) => {
        const always = q.options.find((o) => o.kind === "allow_always");
        assert.match(always.name, /touch/);
        return always.optionId;
      };
      await e.prompt("go");
      assert.equal(e.asked.length, 1);
      assert.equal(e.calls().filter((u) => u.status === "completed").length, 2);
    });
  },
  diff: () => run("edit", async (e) => {
    await e.prompt("go");
    const want = { type: "diff", path: e.file, oldText: five, newText: five.replace("one", "ONE") };
    assert.deepEqual(e.asked[0].toolCall.content[0], want);
    const done = e.calls().filter((u) => u.status === "completed").at(-1);
    assert.deepEqual(done.content[0], want);
    assert.equal(done.locations[0].path, e.file);
    assert.equal(e.disk(), want.newText);
  }),
  cancel: () => run("touch", async (e) => {
    e.answer = () => new Promise((resolve) => {
      e.notify(methods.agent.session.cancel, { sessionId: e.session.sessionId }).then(() => resolve(undefined));
    });
    assert.equal((await e.prompt("go")).stopReason, "cancelled");
    assert.ok(!existsSync(join(e.dir, "x")));
    assert.equal((await e.prompt("go on")).stopReason, "end_turn");
  }),
  load: () => run("edit", async (e) => {
    await e.prompt("go");
    const live = { said: e.text("agent_message_chunk"), calls: e.updates.filter((u) => u.sessionUpdate === "tool_call").length };
    await e.request(methods.agent.session.close, { sessionId: e.session.sessionId });
    const { sessions } = await e.request(methods.agent.session.list, { cwd: e.dir });
    assert.equal(sessions.length, 1);
    e.updates = [];
    await e.request(methods.agent.session.load, { sessionId: sessions[0].sessionId, cwd: e.dir, mcpServers: [] });
    await settled();
    assert.equal(e.text("user_message_chunk"), "go");
    assert.equal(e.text("agent_message_chunk"), live.said);
    assert.equal(e.updates.filter((u) => u.sessionUpdate === "tool_call").length, live.calls);
    assert.equal((await e.prompt("and now?")).stopReason, "end_turn");
    await assert.rejects(e.request(methods.agent.session.load, { sessionId: "none", cwd: e.dir, mcpServers: [] }), (err) => err.code === -32002);
  }),
  "unsaved buffer, merged": () => run("edit", async (e) => {
    e.answer = () => (e.buffers.set(e.file, five.replace("five", "FIVE")), "allow");
    await e.prompt("go");
    assert.equal(e.disk(), merged);
    assert.equal(e.buffers.get(e.file), merged);
  }),
  "unsaved buffer before the session": () => run("edit", async (e) => {
    e.buffers.set(e.file, five.replace("five", "FIVE"));
    await e.prompt("go");
    assert.match(e.output(), /FIVE/, "the model reads the buffer");
    assert.equal(e.disk(), merged);
    assert.equal(e.buffers.get(e.file), merged);
  }),
  "unsaved buffer, conflicting": () => run("edit", async (e) => {
    e.answer = () => (e.buffers.set(e.file, five.replace("one", "1")), "allow");
    await e.prompt("go");
    assert.equal(e.disk(), five);
    assert.equal(e.buffers.get(e.file), five.replace("one", "1"));
    assert.match(e.output(), /same lines in the editor/);
    assert.deepEqual(e.writes, []);
  }),
  "buffer after a command": async () => {
    for (const notices of [true, false]) {
      await run("command", async (e) => {
        e.buffers.set(e.file, five);
        e.answer = (q) => {
          if (q.toolCall.kind === "edit" && notices) e.buffers.set(e.file, e.disk());
          return "allow";
        };
        await e.prompt("go");
        assert.equal(e.disk(), merged);
        assert.equal(e.buffers.get(e.file), merged);
      });
    }
    await run("command", async (e) => { // and the user has typed meanwhile
      e.buffers.set(e.file, five);
      e.answer = (q) => {
        if (q.toolCall.kind === "edit") e.buffers.set(e.file, five.replace("three", "THREE"));
        return "allow";
      };
      await e.prompt("go");
      assert.equal(e.disk(), merged.replace("three", "THREE"));
      assert.equal(e.buffers.get(e.file), merged.replace("three", "THREE"));
    });
  },
  "reading only": async () => {
    const fs = { readTextFile: true, writeTextFile: false };
    await run("edit", async (e) => {
      e.answer = () => (e.buffers.set(e.file, five.replace("five", "FIVE")), "allow");
      await e.prompt("go");
      assert.equal(e.disk(), five);
      assert.match(e.output(), /save them first/);
    }, { fs });
    await run("edit", async (e) => {
      await e.prompt("go");
      assert.equal(e.disk(), five.replace("one", "ONE"));
      assert.deepEqual(e.writes, []);
    }, { fs });
  },
  servers: () => run("server", async (e) => {
    await e.prompt("go");
    assert.equal(e.asked.length, 1);
    assert.match(e.output(), /word=secret, rest=x/);
  }, { mcpServers: [{ name: "my server", command: "/bin/sh", args: ["-c", "echo word=$WORD, rest=$1", "sh", "x"], env: [{ name: "WORD", value: "secret" }] }] }),
};

for (const name of process.argv.slice(2)) {
  try {
    await cases[name]();
  } catch (err) {
    console.log(`${name}: ${err.stack}\n${complaints.join("\n")}`);
    process.exit(1);
  }
}
process.exit(0);
