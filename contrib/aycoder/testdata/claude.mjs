// Each case is a flow of the official SDK, with this program in place of its own: node claude.mjs case.
// The model is that of the test, which answers with what the prompt says.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import {query, tool, createSdkMcpServer} from '@anthropic-ai/claude-agent-sdk';
import {z} from 'zod';

const dir = process.cwd();
const read = name => fs.existsSync(name) ? fs.readFileSync(name, 'utf8') : null;

// say makes a prompt of what the model is to do: texts, and calls of tools.
const say = (...steps) => JSON.stringify(steps);
const call = (name, input) => ({name, input});

const base = {
  pathToClaudeCodeExecutable: process.env.AYCODER_PROGRAM,
  executableArgs: ['-compat', 'claude'],
  cwd: dir,
  model: 'claude-sonnet-4-5',
  systemPrompt: {type: 'preset', preset: 'claude_code'},
};

// all runs a query to its end, and returns its messages.
async function all(prompt, options = {}) {
  const list = [];
  for await (const m of query({prompt, options: {...base, ...options}})) list.push(m);
  return list;
}

const results = list => list.filter(m => m.type === 'result');
const blocks = (list, type) => list.filter(m => m.type === 'assistant' || m.type === 'user')
  .flatMap(m => m.message.content).filter(b => b.type === type);
const user = content => ({type: 'user', message: {role: 'user', content}, parent_tool_use_id: null});

const cases = {
  async query() {
    fs.writeFileSync('a.txt', 'hello');
    const list = await all(say(['I look.', call('read_file', {path: 'a.txt'})], 'It says hello.'));
    const init = list[0];
    assert.equal(init.subtype, 'init');
    assert.equal(init.cwd, fs.realpathSync(dir));
    assert.ok(init.tools.includes('Read') && init.tools.includes('Bash'));
    const [use] = blocks(list, 'tool_use');
    assert.equal(use.name, 'Read');
    assert.equal(use.input.file_path, fs.realpathSync(dir) + '/a.txt');
    assert.match(blocks(list, 'tool_result')[0].content[0].text, /hello/);
    const [r] = results(list);
    assert.equal(r.subtype, 'success');
    assert.equal(r.result, 'It says hello.');
    assert.equal(r.session_id, init.session_id);
    assert.ok(r.usage.output_tokens > 0);
  },

  async 'streaming input'() {
    async function* input() {
      yield user(say('One.'));
      yield user([{type: 'text', text: say('Two.')}]);
    }
    const list = await all(input());
    assert.deepEqual(results(list).map(r => r.result), ['One.', 'Two.']);
    assert.equal(new Set(list.map(m => m.session_id)).size, 1);
  },

  async 'partial messages'() {
    const list = await all(say(['Hello.', call('list_files', {})], 'Bye.'), {includePartialMessages: true});
    const events = list.filter(m => m.type === 'stream_event').map(m => m.event);
    assert.deepEqual(events.map(e => e.type), [
      'message_start', 'content_block_start', 'content_block_delta', 'content_block_stop', 'content_block_start', 'content_block_delta',
      'content_block_stop', 'message_delta', 'message_stop',
      'message_start', 'content_block_start', 'content_block_delta', 'content_block_stop', 'message_delta', 'message_stop']);
    assert.equal(events.filter(e => e.delta?.type === 'text_delta').map(e => e.delta.text).join(' '), 'Hello. Bye.');
  },

  async 'permission with edited input'() {
    const asked = [];
    const list = await all(say(call('write_file', {path: 'a.txt', content: 'theirs'}), 'Done.'), {
      canUseTool: async (name, input, {toolUseID}) => {
        asked.push([name, input.file_path, input.content, typeof toolUseID]);
        return {behavior: 'allow', updatedInput: {...input, content: 'ours'}};
      },
    });
    assert.deepEqual(asked, [['Write', fs.realpathSync(dir) + '/a.txt', 'theirs', 'string']]);
    assert.equal(read('a.txt'), 'ours');
    assert.equal(results(list)[0].permission_denials.length, 0);
  },

  async 'permission with refusal'() {
    const list = await all(say(call('bash', {command: 'touch a.txt'}), 'I stop.'), {
      canUseTool: async name => ({behavior: 'deny', message: 'not ' + name + ' today'}),
    });
    assert.equal(read('a.txt'), null);
    const [out] = blocks(list, 'tool_result');
    assert.ok(out.is_error);
    assert.match(out.content[0].text, /not Bash today/);
    const [r] = results(list);
    assert.equal(r.subtype, 'success');
    assert.deepEqual(r.permission_denials.map(d => [d.tool_name, d.tool_input.command]), [['Bash', 'touch a.txt']]);
  },

  async 'permission for the session'() {
    let asked = 0;
    await all(say(call('bash', {command: 'mkdir a'}), call('bash', {command: 'mkdir a/b'}), 'Done.'), {
      canUseTool: async (name, input, {suggestions}) => {
        asked++;
        return {behavior: 'allow', updatedInput: input, updatedPermissions: [suggestions.at(-1)]};
      },
    });
    assert.equal(asked, 1);
    assert.ok(fs.existsSync('a/b'));
    const list = await all(say(call('bash', {command: 'mkdir c'}), 'Done.'), {
      canUseTool: async (name, input) => ({behavior: 'allow', updatedInput: input, updatedPermissions: [
        {type: 'addRules', behavior: 'allow', destination: 'userSettings', rules: [{toolName: 'Bash'}]}]}),
    });
    assert.ok(!fs.existsSync('c'));
    assert.match(blocks(list, 'tool_result')[0].content[0].text, /not supported: a change of permissions/);
  },

  async 'refusal that interrupts'() {
    async function* input() {
      yield user(say(call('bash', {command: 'touch a.txt'}), 'Never said.'));
      yield user(say('Next.'));
    }
    const list = await all(input(), {canUseTool: async () => ({behavior: 'deny', message: 'stop', interrupt: true})});
    assert.deepEqual(results(list).map(r => r.subtype), ['error_during_execution', 'success']);
    assert.equal(read('a.txt'), null);
  },

  async 'nobody asked'() {
    const list = await all(say(call('write_file', {path: 'a.txt', content: 'x'}), call('bash', {command: 'touch b.txt'}), 'I stop.'));
    assert.equal(read('a.txt'), null);
    assert.equal(read('b.txt'), null);
    assert.equal(results(list)[0].permission_denials.length, 2);
    assert.equal(list.filter(m => m.subtype === 'permission_denied').length, 2);
  },

  async 'modes and rules'() {
    await all(say(call('write_file', {path: 'a.txt', content: 'x'}), call('write_file', {path: 'secret/b.txt', content: 'x'}), 'Done.'),
      {permissionMode: 'acceptEdits', disallowedTools: ['Edit(secret/**)']});
    assert.equal(read('a.txt'), 'x');
    assert.equal(read('secret/b.txt'), null);
    await all(say(call('bash', {command: 'touch g.txt'}), call('bash', {command: 'touch d.txt'}), 'Done.'),
      {allowedTools: ['Bash(touch g.txt)'], permissionMode: 'dontAsk', canUseTool: async (n, input) => ({behavior: 'allow', updatedInput: input})});
    assert.equal(read('g.txt'), '');
    assert.equal(read('d.txt'), null);
    const list = await all(say(call('bash', {command: 'touch e.txt'}), 'Done.'), {disallowedTools: ['Bash'], canUseTool: async () => assert.fail()});
    assert.ok(!list[0].tools.includes('Bash'));
    assert.equal(read('e.txt'), null);
    const plan = await all(say(call('write_file', {path: 'f.txt', content: 'x'}), 'Done.'), {permissionMode: 'plan', canUseTool: async () => assert.fail()});
    assert.equal(read('f.txt'), null);
    assert.equal(results(plan)[0].permission_denials.length, 1);
  },

  async hooks() {
    const seen = [];
    const note = async input => { seen.push(input.hook_event_name + ' ' + (input.tool_name ?? input.prompt?.length)); return {}; };
    const list = await all(say(call('bash', {command: 'touch a.txt'}), call('read_file', {path: 'b.txt'}), call('list_files', {}), 'Done.'), {
      canUseTool: async (n, input) => ({behavior: 'allow', updatedInput: input}),
      hooks: {
        UserPromptSubmit: [{hooks: [async () => ({hookSpecificOutput: {hookEventName: 'UserPromptSubmit', additionalContext: 'mind the gap'}})]}],
        PreToolUse: [
          {hooks: [note]},
          {matcher: 'Bash', hooks: [async (input, id) => {
            assert.equal(input.tool_input.command, 'touch a.txt');
            assert.equal(input.tool_use_id, id);
            return {hookSpecificOutput: {hookEventName: 'PreToolUse', permissionDecision: 'deny', permissionDecisionReason: 'no shell'}};
          }]},
          {matcher: 'Read', hooks: [async input => ({hookSpecificOutput: {hookEventName: 'PreToolUse', updatedInput: {...input.tool_input, file_path: 'c.txt'}}})]},
        ],
        PostToolUse: [{matcher: 'Read|LS', hooks: [note, async () => ({hookSpecificOutput: {hookEventName: 'PostToolUse', additionalContext: 'looked at'}})]}],
        Stop: [{hooks: [note]}],
      },
    });
    const outs = blocks(list, 'tool_result').map(b => b.content.map(c => c.text).join(''));
    assert.match(outs[0], /no shell/);
    assert.match(outs[1], /this is c[^]*looked at/);
    assert.match(outs[2], /looked at/);
    assert.equal(read('a.txt'), null);
    // The other hooks see an input that one of them has replaced.
    assert.deepEqual(seen, ['PreToolUse Bash', 'PreToolUse Read', 'PreToolUse Read', 'PostToolUse Read', 'PreToolUse LS', 'PostToolUse LS', 'Stop undefined']);
    assert.match(results(list)[0].result, /Done/);
    const broken = await all(say(call('list_files', {}), 'Done.'), {hooks: {PreToolUse: [{hooks: [async () => { throw new Error('oh'); }]}]}});
    assert.match(blocks(broken, 'tool_result')[0].content[0].text, /oh/);
  },

  async 'tool of the host'() {
    const calls = [];
    const server = createSdkMcpServer({name: 'host', version: '1', tools: [
      tool('add', 'Adds.', {a: z.number(), b: z.number()}, async ({a, b}) => {
        calls.push([a, b]);
        return {content: [{type: 'text', text: String(a + b)}]};
      }),
      tool('fail', 'Fails.', {}, async () => { throw new Error('out of order'); }),
    ]});
    const prompt = say(call('mcp__host__add', {a: 2, b: 3}), call('mcp__host__fail', {}), 'Five.');
    async function* input() { yield user(prompt); }
    const list = await all(input(), {mcpServers: {host: server}, allowedTools: ['mcp__host__add', 'mcp__host__fail']});
    assert.deepEqual(list[0].mcp_servers, [{name: 'host', status: 'connected'}]);
    assert.ok(list[0].tools.includes('mcp__host__add'));
    assert.deepEqual(calls, [[2, 3]]);
    const outs = blocks(list, 'tool_result');
    assert.equal(outs[0].content[0].text, '5');
    assert.ok(outs[1].is_error);
    assert.match(outs[1].content[0].text, /out of order/);

    const asked = [];
    const again = await all(input(), {mcpServers: {host: server}, canUseTool: async name => { asked.push(name); return {behavior: 'deny', message: 'no'}; }});
    assert.deepEqual(asked, ['mcp__host__add', 'mcp__host__fail']);
    assert.equal(results(again)[0].permission_denials.length, 2);
    assert.equal(calls.length, 1);
  },

  async 'second turn'() {
    const first = await all(say('I remember 42.'));
    const id = first[0].session_id;
    const resumed = await all(say('recall 42'), {resume: id});
    assert.equal(resumed[0].session_id, id);
    assert.equal(results(resumed)[0].result, 'yes');
    const newest = await all(say('recall 42'), {continue: true});
    assert.equal(results(newest)[0].result, 'yes');
    assert.equal(newest[0].session_id, id);
    const other = await all(say('recall 42'), {persistSession: false});
    assert.equal(results(other)[0].result, 'no');
  },

  async interrupt() {
    let next, more = new Promise(ok => next = ok);
    async function* input() {
      yield user(say(call('bash', {command: 'touch begun; sleep 1000'}), 'Never said.'));
      await more;
      yield user(say('After that.'));
    }
    const q = query({prompt: input(), options: {...base, permissionMode: 'bypassPermissions', allowDangerouslySkipPermissions: true}});
    const list = [];
    const watch = setInterval(() => { if (fs.existsSync('begun')) { clearInterval(watch); q.interrupt(); } }, 20);
    for await (const m of q) { list.push(m); if (m.type === 'result') next(); }
    assert.deepEqual(results(list).map(r => r.subtype), ['error_during_execution', 'success']);
    assert.equal(results(list)[1].result, 'After that.');
    assert.match(results(list)[0].errors[0], /interrupted/);
  },

  async 'set mode and model'() {
    let next, more = new Promise(ok => next = ok);
    async function* input() {
      yield user(say('One.'));
      await more;
      yield user(say(call('write_file', {path: 'a.txt', content: 'x'}), 'Two.'));
    }
    const q = query({prompt: input(), options: base});
    const list = [];
    for await (const m of q) {
      list.push(m);
      if (m.type === 'result' && !list.done) {
        list.done = true;
        await q.setPermissionMode('acceptEdits');
        await q.setModel('claude-opus-4-5');
        await assert.rejects(q.setPermissionMode('bypassPermissions'), /must be allowed/);
        await assert.rejects(q.setMaxThinkingTokens(100), /not supported: requests of the type "set_max_thinking_tokens"/);
        assert.deepEqual(await q.mcpServerStatus(), []);
        assert.ok(Array.isArray(await q.supportedCommands()));
        next();
      }
    }
    assert.equal(read('a.txt'), 'x');
    const inits = list.filter(m => m.subtype === 'init');
    assert.deepEqual(inits.map(m => m.permissionMode), ['default', 'acceptEdits']);
    assert.equal(list.filter(m => m.type === 'assistant').at(-1).message.model, 'claude-opus-4-5');
  },

  async 'typed result'() {
    const schema = z.toJSONSchema(z.object({name: z.string(), size: z.number()}), {target: 'draft-7'});
    const list = await all(say('{"name": "a", "size": 3}'), {outputFormat: {type: 'json_schema', schema}});
    assert.deepEqual(results(list)[0].structured_output, {name: 'a', size: 3});
    const wrong = [];
    await assert.rejects(async () => {
      for await (const m of query({prompt: say('{"name": 1}'), options: {...base, outputFormat: {type: 'json_schema', schema}}})) wrong.push(m);
    });
    assert.equal(results(wrong)[0].subtype, 'error_max_structured_output_retries');
  },

  async limits() {
    const list = [];
    await assert.rejects(async () => {
      for await (const m of query({prompt: say(call('list_files', {}), call('list_files', {}), 'Done.'), options: {...base, maxTurns: 2}})) list.push(m);
    });
    assert.equal(results(list)[0].subtype, 'error_max_turns');
  },

  async unsupported() {
    for (const [options, what] of [
      [{fallbackModel: 'other'}, /not supported: the flag --fallback-model/],
      [{forkSession: true, resume: 'x'}, /not supported: the flag --fork-session/],
      [{agents: {a: {description: 'd', prompt: 'p'}}}, /not supported: agents in initialize/],
      [{hooks: {WorktreeCreate: [{hooks: [async () => ({})]}]}}, /there is no event/],
      [{permissionMode: 'auto'}, /not supported: the permission mode "auto"/],
      [{mcpServers: {s: {type: 'sse', url: 'http://127.0.0.1:1'}}}, /not supported: server s/],
      [{resume: 'nothing'}, /there is none whose id begins so/],
    ]) await assert.rejects(all(say('Hi.'), options), what);
  },

  // The host is killed by the test while a command works.
  async killed() {
    for await (const m of query({prompt: say(call('bash', {command: 'touch begun; echo $$ > pid; exec sleep 1000'}), 'Never said.'),
      options: {...base, permissionMode: 'bypassPermissions', allowDangerouslySkipPermissions: true}})) if (m.session_id) fs.writeFileSync('session', m.session_id);
  },

  async aborted() {
    const abortController = new AbortController();
    const watch = setInterval(() => { if (fs.existsSync('begun')) { clearInterval(watch); abortController.abort(); } }, 20);
    await assert.rejects(all(say(call('bash', {command: 'touch begun; echo $$ > pid; exec sleep 1000'}), 'Never said.'),
      {abortController, permissionMode: 'bypassPermissions', allowDangerouslySkipPermissions: true}));
  },
};

await cases[process.argv[2]]();
