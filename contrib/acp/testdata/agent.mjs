// An agent on the official TypeScript SDK. It does what the prompt names.
import { agent, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";

let dir;

agent({ name: "test" })
  .onRequest(methods.agent.initialize, () => ({ protocolVersion: PROTOCOL_VERSION, agentCapabilities: {} }))
  .onRequest(methods.agent.session.new, ({ params }) => ((dir = params.cwd), { sessionId: "s" }))
  .onRequest(methods.agent.session.prompt, async ({ params, client }) => {
    const { sessionId } = params;
    const path = join(dir, "a.txt");
    const { content } = await client.request(methods.client.fs.readTextFile, { sessionId, path });
    if (params.prompt[0].text === "die") process.kill(process.pid, "SIGKILL");
    const { outcome } = await client.request(methods.client.session.requestPermission, {
      sessionId,
      toolCall: { toolCallId: "1", title: "Write a.txt", kind: "edit", rawInput: { path } },
      options: [
        { optionId: "yes", kind: "allow_once", name: "Yes" },
        { optionId: "no", kind: "reject_once", name: "No" },
      ],
    });
    if (outcome.optionId === "yes") {
      await client.request(methods.client.fs.writeTextFile, { sessionId, path, content: content.replace("one", "ONE") });
    }
    await client.notify(methods.client.session.update, {
      sessionId, update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text: "Done." } },
    });
    return { stopReason: "end_turn" };
  })
  .onNotification(methods.agent.session.cancel, () => {})
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
