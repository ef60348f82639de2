// Each case is a flow of the official SDK, with this program in place of its own: node codex.mjs case.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import {Codex} from '@openai/codex-sdk';

const dir = process.cwd();
const read = name => fs.existsSync(name) ? fs.readFileSync(name, 'utf8') : null;
const say = (...steps) => JSON.stringify(steps);
const call = (name, input) => ({name, input});

const codex = new Codex({codexPathOverride: process.env.AYCODER_PROGRAM, env: {...process.env, AYCODER_COMPAT: 'codex'}});
const options = {workingDirectory: dir, skipGitRepoCheck: true, model: 'anthropic/claude-sonnet-4-5'};

const cases = {
  async thread() {
    fs.writeFileSync('a.txt', 'hello');
    const thread = codex.startThread(options);
    const turn = await thread.run(say(['I look.', call('read_file', {path: 'a.txt'})], call('bash', {command: 'cat a.txt'}), 'It says hello.'));
    assert.equal(turn.finalResponse, 'It says hello.');
    assert.ok(thread.id);
    assert.ok(turn.usage.output_tokens > 0);
    const items = turn.items.filter(i => i.type !== 'error');
    assert.deepEqual(items.map(i => i.type), ['agent_message', 'mcp_tool_call', 'command_execution', 'agent_message']);
    assert.deepEqual([items[1].server, items[1].tool, items[1].arguments.path, items[1].status], ['aycoder', 'read_file', 'a.txt', 'completed']);
    assert.deepEqual([items[2].command, items[2].exit_code, items[2].status], ['cat a.txt', 0, 'completed']);
    assert.match(items[2].aggregated_output, /hello/);
  },

  async 'streamed events'() {
    const {events} = await codex.startThread(options).runStreamed(say(call('list_files', {}), 'Done.'));
    const types = [];
    for await (const e of events) if (e.item?.type !== 'error') types.push(e.type);
    assert.deepEqual(types, ['thread.started', 'turn.started', 'item.started', 'item.completed', 'item.completed', 'turn.completed']);
  },

  async 'second turn'() {
    const thread = codex.startThread(options);
    await thread.run(say('I remember 42.'));
    const id = thread.id;
    assert.equal((await thread.run(say('recall 42'))).finalResponse, 'yes');
    assert.equal(thread.id, id);
    assert.equal((await codex.resumeThread(id, options).run(say('recall 42'))).finalResponse, 'yes');
    assert.equal((await codex.startThread(options).run(say('recall 42'))).finalResponse, 'no');
  },

  async 'output schema'() {
    const schema = {type: 'object', properties: {name: {type: 'string'}}, required: ['name'], additionalProperties: false};
    const turn = await codex.startThread(options).run(say('{"name": "a"}'), {outputSchema: schema});
    assert.deepEqual(JSON.parse(turn.finalResponse), {name: 'a'});
    await assert.rejects(codex.startThread(options).run(say('{"name": 1}'), {outputSchema: schema}), /name/);
  },

  async sandbox() {
    const steps = say(call('write_file', {path: 'a.txt', content: 'x'}), call('bash', {command: 'touch b.txt'}), 'Done.');
    const plain = await codex.startThread(options).run(steps);
    assert.deepEqual([read('a.txt'), read('b.txt')], [null, null]);
    assert.deepEqual(plain.items.filter(i => i.type !== 'error').map(i => [i.type, i.status]),
      [['mcp_tool_call', 'failed'], ['command_execution', 'failed'], ['agent_message', undefined]]);
    const edits = await codex.startThread({...options, sandboxMode: 'workspace-write', approvalPolicy: 'never'}).run(steps);
    assert.deepEqual([read('a.txt'), read('b.txt')], ['x', null]);
    assert.deepEqual(edits.items.find(i => i.type === 'file_change').changes, [{path: 'a.txt', kind: 'add'}]);
    await codex.startThread({...options, sandboxMode: 'danger-full-access'}).run(steps);
    assert.equal(read('b.txt'), '');
    fs.rmSync('a.txt');
    await codex.startThread({...options, sandboxMode: 'danger-full-access', approvalPolicy: 'untrusted'}).run(steps);
    assert.equal(read('a.txt'), null);
  },

  async unsupported() {
    for (const [more, what] of [
      [{modelReasoningEffort: 'high'}, /not supported: the setting model_reasoning_effort/],
      [{networkAccessEnabled: true}, /not supported: the setting sandbox_workspace_write.network_access=true/],
      [{webSearchMode: 'live'}, /not supported: the setting web_search/],
      [{threadSource: 'x'}, /not supported: the flag --thread-source/],
    ]) await assert.rejects(codex.startThread({...options, ...more}).run(say('Hi.')), what);
    await assert.rejects(codex.resumeThread('nothing', options).run(say('Hi.')), /there is none whose id begins so/);
  },

  async aborted() {
    const abort = new AbortController();
    const watch = setInterval(() => { if (fs.existsSync('begun')) { clearInterval(watch); abort.abort(); } }, 20);
    await assert.rejects(codex.startThread({...options, sandboxMode: 'danger-full-access'}).run(
      say(call('bash', {command: 'touch begun; echo $$ > pid; exec sleep 1000'}), 'Never said.'), {signal: abort.signal}));
  },

  // The host is killed by the test while a command works.
  async killed() {
    const {events} = await codex.startThread({...options, sandboxMode: 'danger-full-access'}).runStreamed(
      say(call('bash', {command: 'touch begun; echo $$ > pid; exec sleep 1000'}), 'Never said.'));
    for await (const e of events) if (e.thread_id) fs.writeFileSync('session', e.thread_id);
  },
};

await cases[process.argv[2]]();
