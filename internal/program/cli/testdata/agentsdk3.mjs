// Scenarios that run with knack and with the real program: node agentsdk3.mjs SCENARIO…
// KNACK is the program, KNACK_NPM the directory of the packages; CLAUDE says that it is the real one.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawn } from 'node:child_process';
import { channel, collect, init, message, result, sdk, z } from './hosts.mjs';

// serve answers requests with tools by the turns of a scenario, and others with "ok".
async function serve(turns) {
	const requests = [], headers = [];
	const server = createServer((req, res) => {
		let text = '';
		req.on('data', (d) => { text += d; });
		req.on('end', () => {
			const body = text ? JSON.parse(text) : {};
			if (!req.url.startsWith('/v1/messages') || req.url.includes('count_tokens')) return res.end('{"input_tokens":1}');
			const main = body.tools?.length > 0;
			if (main) { requests.push(body); headers.push(req.headers); }
			const at = main ? turns.findIndex((t) => !t.for || JSON.stringify(body.messages).includes(t.for) || body.model === t.for) : -1;
			const turn = at >= 0 ? turns.splice(at, 1)[0] : { text: main ? 'exhausted' : 'ok' };
			if (turn.status) {
				res.writeHead(turn.status, { 'content-type': 'application/json', 'retry-after': '0' });
				return res.end(JSON.stringify({ type: 'error', error: { type: 'overloaded_error', message: 'too much' } }));
			}
			const blocks = [];
			if (turn.text !== undefined) blocks.push({ type: 'text', text: turn.text });
			for (const [name, input] of turn.use ?? []) blocks.push({ type: 'tool_use', id: 'toolu_' + Math.random().toString(36).slice(2), name, input });
			const head = { id: 'msg_' + Math.random().toString(36).slice(2), type: 'message', role: 'assistant', model: body.model, content: [],
				stop_reason: null, stop_sequence: null, usage: { input_tokens: 100, output_tokens: 1, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 } };
			const stop = turn.use ? 'tool_use' : 'end_turn';
			if (!body.stream) return res.end(JSON.stringify({ ...head, content: blocks, stop_reason: stop }));
			res.writeHead(200, { 'content-type': 'text/event-stream' });
			const send = (type, data) => res.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
			send('message_start', { message: head });
			blocks.forEach((b, index) => {
				send('content_block_start', { index, content_block: b.type === 'text' ? { type: 'text', text: '' } : { ...b, input: {} } });
				send('content_block_delta', { index, delta: b.type === 'text' ? { type: 'text_delta', text: b.text }
					: { type: 'input_json_delta', partial_json: JSON.stringify(b.input) } });
				send('content_block_stop', { index });
			});
			send('message_delta', { delta: { stop_reason: stop, stop_sequence: null }, usage: { output_tokens: 5 } });
			send('message_stop', {});
			res.end();
		});
	});
	await new Promise((r) => server.listen(0, '127.0.0.1', r));
	return { requests, headers, turns, url: 'http://127.0.0.1:' + server.address().port, close: () => { server.closeAllConnections(); server.close(); } };
}

const claude = !!process.env.CLAUDE;
let server, dir;

const options = (more) => ({
	pathToClaudeCodeExecutable: process.env.KNACK, stderr: (text) => process.env.LOUD && process.stderr.write(text), maxTurns: 20,
	permissionMode: 'default', model: 'claude-sonnet-4-5', cwd: join(dir, 'work'), settingSources: [], ...more,
	extraArgs: { ...(claude ? {} : { sandbox: 'off' }), ...more?.extraArgs },
	env: { PATH: process.env.PATH, HOME: join(dir, 'home'), ANTHROPIC_BASE_URL: server.url, ANTHROPIC_API_KEY: claude ? 'sk-ant-x' : 'test-key',
		KNACK_KEYRING: 'file', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', DISABLE_AUTOUPDATER: '1', ...more?.env },
});
const results = (request) => JSON.stringify(request.messages.at(-1));
const work = (name) => join(dir, 'work', name);

// run returns the messages of a query; on is called with each.
async function run(prompt, turns, more, on) {
	server.turns.push(...turns);
	return collect(sdk.query({ prompt, options: options(more) }), on);
}

const bash = (command) => ({ use: [['Bash', { command, description: 'x' }]] });

// Where the programs differ, the page docs/agent-sdk.md says so.
const either = (knack, real) => (claude ? real : knack);

const calc = (more) => sdk.createSdkMcpServer({ name: 'calc', version: '1.0.0', ...more, tools: [
	sdk.tool('add', 'Adds', { a: z.number() }, async ({ a }) => ({ content: [{ type: 'text', text: 'sum ' + a }] })),
	sdk.tool('fail', 'Fails', {}, async () => ({ isError: true, content: [{ type: 'text', text: 'it FAILED' }] })),
	sdk.tool('throw', 'Throws', {}, async () => { throw new Error('it THREW'); })] });

const scenarios = {
	// What is suggested for longer is what a person means.
	async suggest() {
		const suggested = {};
		mkdirSync(join(dir, 'other'));
		writeFileSync(join(dir, 'other/x.txt'), 'x\n');
		const commands = ['go test ./...', 'make test', 'npm run lint', 'python3 x.py', 'curl http://127.0.0.1:1/', 'sudo ls', 'node x.js'];
		await run('go', [...commands.map(bash), { use: [['Write', { file_path: work('new.txt'), content: 'x' }]] },
			{ use: [['Read', { file_path: join(dir, 'other/x.txt') }]] }, { text: 'done' }], {
			canUseTool: async (name, input, o) => {
				suggested[input.command ?? name] = (o.suggestions ?? []).map((s) => s.mode ?? s.rules?.map((r) => r.ruleContent).join());
				return { behavior: 'deny', message: 'no' };
			} });
		assert.deepEqual(suggested, {
			'go test ./...': [either('go test:*', 'go test *')], 'make test': [either('make test:*', 'make test *')],
			'npm run lint': [either('npm run lint:*', 'npm run *')], 'python3 x.py': ['python3 x.py'],
			'curl http://127.0.0.1:1/': ['curl http://127.0.0.1:1/'], 'sudo ls': ['sudo ls'], 'node x.js': ['node x.js'],
			Write: ['acceptEdits'], Read: ['/' + join(dir, 'other/**')],
		});
	},

	// A suggestion that is accepted holds for the rest of the session.
	async accept() {
		const asked = [];
		await run('go', [{ use: [['Write', { file_path: work('a.txt'), content: 'x' }]] },
			{ use: [['Write', { file_path: work('b.txt'), content: 'x' }]] }, bash('make one'), bash('make one two'), { text: 'done' }], {
			canUseTool: async (name, input, o) => {
				asked.push(input.command ?? name);
				return { behavior: 'allow', updatedInput: input, updatedPermissions: o.suggestions?.map((s) => ({ ...s, destination: 'session' })) };
			} });
		assert.deepEqual(asked, ['Write', 'make one']);
		assert.ok(existsSync(work('a.txt')) && existsSync(work('b.txt')));
	},

	// Another model takes over while one is overloaded, and is asked again in the next turn.
	async fallback() {
		const busy = { status: 529, for: 'claude-sonnet-4-5' };
		const input = channel(message('one'));
		const all = await run(input, [busy, busy, busy, { for: 'claude-haiku-4-5', text: 'first' }, { for: 'claude-sonnet-4-5', text: 'second' }],
			{ fallbackModel: 'claude-haiku-4-5', betas: ['context-1m-2025-08-07'], taskBudget: { total: 50000 } },
			(m) => { if (m.result === 'first') input.say(message('two')); else if (m.type === 'result') input.end(); });
		assert.deepEqual(all.filter((m) => m.type === 'assistant').map((m) => m.message.model.replace('anthropic/', '')),
			['claude-haiku-4-5', 'claude-sonnet-4-5']);
		assert.ok(all.some((m) => m.subtype === 'api_retry'));
		assert.deepEqual(server.requests[0].output_config.task_budget, { type: 'tokens', total: 50000 });
		assert.match(server.headers[0]['anthropic-beta'], /context-1m-2025-08-07.*task-budgets-/);
	},

	// A page of an MCP App is read, and the account is described without the key.
	async resource() {
		const page = calc();
		page.instance.registerResource('page', 'ui://page', { mimeType: 'text/html' }, async () => ({
			contents: [{ uri: 'ui://page', mimeType: 'text/html', text: '<p>PAGE</p>' }] }));
		const input = channel(message('go'));
		let read;
		await run(input, [{ text: 'hi' }], { mcpServers: { calc: page } }, async (m, q) => {
			if (m.type !== 'result') return;
			read = await q.readMcpResource('calc', 'ui://page').catch((e) => assert.ok(claude, e)); // 2.1.330 does not know it
			const account = await q.accountInfo();
			assert.deepEqual([account.apiProvider, account.apiKeySource], ['firstParty', 'ANTHROPIC_API_KEY']);
			assert.ok(!JSON.stringify(account).includes('test-key'));
			input.end();
		});
		if (!claude) assert.deepEqual(read.contents, [{ uri: 'ui://page', mimeType: 'text/html', text: '<p>PAGE</p>' }]);
	},

	// Servers of the project are left out, and those of the host are given in either way.
	async servers() {
		writeFileSync(work('.mcp.json'), JSON.stringify({ mcpServers: { other: { command: 'false' } } }));
		for (const mcpServersDelivery of ['argv', 'initialize']) {
			const all = await run('go', [{ use: [['mcp__calc__add', { a: 2 }]] }, { text: 'done' }], { mcpServersDelivery, strictMcpConfig: true,
				settingSources: ['project'], mcpServers: { calc: calc() }, allowedTools: ['mcp__calc__add'] });
			assert.deepEqual(init(all).mcp_servers.map((s) => [s.name, s.status]), [['calc', 'connected']]);
			assert.match(results(server.requests.at(-1)), /sum 2/);
		}
	},

	// Failures of tools reach the model as errors.
	async failures() {
		const all = await run('go', [{ use: [['mcp__calc__fail', {}], ['mcp__calc__throw', {}]] }, { use: [['NoSuchTool', {}]] },
			{ use: [['Read', { file_path: work('missing.txt') }]] }, { use: [['Read', {}]] }, { text: 'done' }],
		{ mcpServers: { calc: calc() }, allowedTools: ['mcp__calc', 'Read'] });
		const blocks = all.filter((m) => m.type === 'user').flatMap((m) => m.message.content).filter((b) => b.type === 'tool_result');
		assert.deepEqual(blocks.map((b) => b.is_error), [true, true, true, true, true]);
		assert.match(JSON.stringify(blocks), /it FAILED.*it THREW.*NoSuchTool/);
	},

	// The host starts the process itself, or has a runtime start a script.
	async start() {
		let started;
		const all = await run('go', [{ text: 'hi' }], { spawnClaudeCodeProcess: (o) => {
			started = o.command;
			return spawn(o.command, o.args, { cwd: o.cwd, env: o.env, signal: o.signal, stdio: ['pipe', 'pipe', 'ignore'] });
		} });
		assert.ok(started && result(all).result === 'hi');
		writeFileSync(work('start.mjs'), `import { spawn } from 'node:child_process';
			spawn(process.env.PROGRAM, process.argv.slice(2), { stdio: 'inherit' }).on('exit', (code) => process.exit(code));`);
		const script = await run('go', [{ text: 'hi' }], { pathToClaudeCodeExecutable: work('start.mjs'), executable: 'node',
			executableArgs: ['--no-warnings'], env: { PROGRAM: process.env.KNACK, PATH: process.execPath.replace(/\/[^/]*$/, '') + ':' + process.env.PATH } });
		assert.equal(result(script).result, 'hi');
	},

	// Options for what Knack does not send change nothing else.
	async absent() {
		const kinds = new Set();
		const all = await run('go', [{ text: 'hi' }], { promptSuggestions: true, agentProgressSummaries: true, supportedDialogKinds: ['refusal_fallback_prompt'],
			onUserDialog: async () => { throw new Error('no dialog was expected'); }, toolConfig: { askUserQuestion: { previewFormat: 'html' } }, debug: true },
		(m) => kinds.add(m.subtype ?? m.type));
		assert.equal(result(all).result, 'hi');
		for (const kind of ['hook_progress', 'auth_status', 'tool_use_summary', 'prompt_suggestion', 'conversation_reset', 'task_progress',
			'control_request_progress', 'model_refusal_fallback', 'plugin_install', 'files_persisted', 'memory_recall', 'informational'])
			assert.ok(!kinds.has(kind), kind);
	},

	// A store is asked at once, and one that does not answer is an error.
	async store() {
		const store = new sdk.InMemorySessionStore(), keys = [];
		const kept = { append: (key, entries) => { keys.push(key); return store.append(key, entries); }, load: (key) => store.load(key) };
		const first = await run('remember', [{ text: 'hi' }], { sessionStore: kept, sessionStoreFlush: 'eager', loadTimeoutMs: 5000 });
		const sessionId = init(first).session_id;
		assert.ok(keys.every((k) => k.sessionId === sessionId));
		assert.ok((await store.load(keys[0])).filter((e) => e.type === 'user' || e.type === 'assistant').length >= 2);
		const again = await run('which', [{ for: 'remember', text: 'that' }], { sessionStore: kept, resume: sessionId });
		assert.equal(result(again).result, 'that');
		const stuck = { append: async () => {}, load: () => new Promise(() => {}) };
		await assert.rejects(run('go', [], { sessionStore: stuck, resume: sessionId, loadTimeoutMs: 200 }), /./);
	},

	// Hooks add what the model reads, stop the turn, and let it go on.
	async context() {
		const add = (event) => [{ hooks: [async () => ({ hookSpecificOutput: { hookEventName: event, additionalContext: event + ' WORDS' } })] }];
		let stops = 0;
		await run('go', [bash('true'), { text: 'one' }, { text: 'two' }], { allowedTools: ['Bash'], hooks: {
			UserPromptSubmit: add('UserPromptSubmit'), PostToolUse: add('PostToolUse'),
			Stop: [{ hooks: [async (i) => (stops++ === 0 && !i.stop_hook_active ? { decision: 'block', reason: 'not YET' } : {})] }] } });
		const text = JSON.stringify(server.requests.at(-1));
		for (const words of ['UserPromptSubmit WORDS', 'PostToolUse WORDS', 'not YET']) assert.ok(text.includes(words), words);
		assert.equal(stops, 2);
	},

	// SessionStart: a callback, which is called only here, and a command in settings.
	async started() {
		const add = async () => ({ hookSpecificOutput: { hookEventName: 'SessionStart', additionalContext: 'CALLBACK WORDS' } });
		await run('go', [{ text: 'one' }], { hooks: { SessionStart: [{ hooks: [add] }] } });
		assert.equal(JSON.stringify(server.requests.at(-1).messages).includes('CALLBACK WORDS'), either(true, false));
		await run('go', [{ text: 'one' }], { settings: { hooks: { SessionStart: [{ hooks: [{ type: 'command', command: 'echo COMMAND WORDS' }] }] } } });
		assert.ok(JSON.stringify(server.requests.at(-1).messages).includes('COMMAND WORDS'));
	},

	// A hook blocks a prompt; another ends the turn.
	async blocked() {
		const all = await run('go', [], { hooks: { UserPromptSubmit: [{ hooks: [async () => ({ decision: 'block', reason: 'not that' })] }] } });
		assert.equal(server.requests.length, 0);
		if (process.env.LOUD) console.log(JSON.stringify(all.filter((m) => m.subtype !== 'init'), null, 1));
		assert.ok(JSON.stringify(all).includes('not that'));
		const ended = await run('go', [bash('true')], { allowedTools: ['Bash'],
			hooks: { PostToolUse: [{ hooks: [async () => ({ continue: false, stopReason: 'enough' })] }] } }).catch((e) => String(e));
		assert.equal(server.requests.length, 1);
		assert.ok(JSON.stringify(ended).length > 0);
	},

	// PreToolUse hooks change an input, ask, and deny.
	async before() {
		const asked = [];
		const decide = { 'echo one': { updatedInput: { command: 'echo changed > made' }, permissionDecision: 'allow' }, 'echo two': { permissionDecision: 'ask', permissionDecisionReason: 'look' },
			'echo three': { permissionDecision: 'deny', permissionDecisionReason: 'NEVER' } };
		await run('go', [bash('echo one'), bash('echo two'), bash('echo three'), { text: 'done' }], { allowedTools: ['Bash'],
			canUseTool: async (name, input) => { asked.push(input.command); return { behavior: 'allow', updatedInput: input }; },
			hooks: { PreToolUse: [{ matcher: 'Bash', hooks: [async (i) => ({ hookSpecificOutput: { hookEventName: 'PreToolUse', ...decide[i.tool_input.command] } })] }] } });
		assert.deepEqual(asked, ['echo two']);
		assert.equal(readFileSync(work('made'), 'utf8'), 'changed\n');
		assert.match(results(server.requests.at(-1)), /NEVER/);
	},

	// Text arrives piece by piece, and the pieces are those of the message.
	async pieces() {
		const all = await run('go', [{ text: 'hello world' }], { includePartialMessages: true });
		const events = all.filter((m) => m.type === 'stream_event').map((m) => m.event);
		assert.deepEqual(events.filter((e) => e.type !== 'ping').map((e) => e.type).filter((t, i, l) => t !== l[i - 1]),
			['message_start', 'content_block_start', 'content_block_delta', 'content_block_stop', 'message_delta', 'message_stop']);
		assert.equal(events.filter((e) => e.type === 'content_block_delta').map((e) => e.delta.text).join(''), 'hello world');
	},

	// Modes and rules change while the program runs.
	async modes() {
		const input = channel(message('one'));
		const asked = [];
		await run(input, [{ use: [['Write', { file_path: work('a.txt'), content: 'x' }]] }, { text: 'first' },
			{ use: [['Write', { file_path: work('b.txt'), content: 'x' }]] }, { text: 'second' }],
		{ canUseTool: async (name, i) => { asked.push(i.file_path); return { behavior: 'deny', message: 'no' }; } }, async (m, q) => {
			if (m.result === 'first') { await q.setPermissionMode('acceptEdits'); input.say(message('two')); } else if (m.type === 'result') input.end();
		});
		assert.deepEqual(asked, [work('a.txt')]);
		assert.ok(existsSync(work('b.txt')));
	},

	// Limits are results.
	async limits() {
		const turns = [];
		const failed = await run('go', [bash('true'), bash('true')], { maxTurns: 2, allowedTools: ['Bash'] }, (m) => turns.push(m)).catch((e) => String(e));
		assert.equal(turns.find((m) => m.type === 'result').subtype, 'error_max_turns');
		assert.ok(typeof failed === 'string' || Array.isArray(failed));
	},

	// The members that hosts read are those of the real program.
	async members() {
		const all = await run('go', [bash('echo hi'), { text: 'done' }], { allowedTools: ['Bash'] });
		const has = (m, names) => { for (const n of names) assert.ok(n in m, `${m.type} has no ${n}`); };
		has(init(all), ['cwd', 'session_id', 'tools', 'mcp_servers', 'model', 'permissionMode', 'slash_commands', 'apiKeySource', 'claude_code_version',
			'output_style', 'agents', 'skills', 'plugins', 'uuid']);
		assert.equal(init(all).apiKeySource, 'ANTHROPIC_API_KEY');
		has(result(all), ['subtype', 'is_error', 'duration_ms', 'duration_api_ms', 'ttft_ms', 'num_turns', 'result', 'stop_reason', 'session_id',
			'total_cost_usd', 'usage', 'modelUsage', 'permission_denials', 'terminal_reason', 'uuid']);
		assert.equal(result(all).num_turns, 2);
		assert.deepEqual(Object.keys(result(all).modelUsage), ['claude-sonnet-4-5']);
		const use = all.find((m) => m.type === 'user');
		has(use, ['message', 'parent_tool_use_id', 'session_id', 'uuid', 'tool_use_result']);
		has(use.tool_use_result, ['stdout', 'stderr', 'interrupted']);
		if (process.env.LOUD) for (const m of all) console.log(m.type, m.subtype ?? '', Object.keys(m).sort().join());
	},

	// Settings of the host count, and those of the sandbox are read.
	async settings() {
		const all = await run('go', [bash('touch made'), { text: 'done' }], { allowedTools: ['Bash'], sandbox: { enabled: false },
			settings: { permissions: { deny: ['Bash(touch:*)'] } } });
		assert.equal(result(all).permission_denials.length, 1);
		assert.ok(!existsSync(work('made')));
	},

	// Sub-agents: their messages name the call, and their hooks the agent.
	async agents() {
		const seen = [];
		const hook = [{ hooks: [async (i) => { seen.push([i.hook_event_name, i.agent_type ?? '']); return {}; }] }];
		const all = await run('MAIN', [{ use: [['Task', { subagent_type: 'reviewer', prompt: 'SUBTASK', description: 'look', run_in_background: false }]] },
			{ for: 'SUBTASK', text: 'sub answer' }, { text: 'done' }, { text: 'done' }],
		{ allowedTools: ['Task', 'Agent'], agents: { reviewer: { description: 'Reviews', prompt: 'You REVIEW.' } }, hooks: { SubagentStart: hook, SubagentStop: hook } });
		server.turns.length = 0;
		assert.deepEqual(seen, [['SubagentStart', 'reviewer'], ['SubagentStop', 'reviewer']]);
		assert.ok(server.requests.some((r) => JSON.stringify(r.system).includes('You REVIEW.')));
		assert.ok(JSON.stringify(server.requests.at(-1)).includes('sub answer'));
		assert.equal(result(all).result, 'done');
	},

	// What the host changes a call to is still held to the rules.
	async rewritten() {
		const all = await run('go', [bash('touch one'), bash('touch two'), { text: 'done' }], { settings: { permissions: { deny: ['Bash(rm:*)'] } },
			canUseTool: async (name, input) => ({ behavior: 'allow', updatedInput: { ...input, command: input.command === 'touch one' ? 'rm kept' : 'touch three' } }) },
		(m) => { if (m.subtype === 'init') writeFileSync(work('kept'), ''); });
		assert.deepEqual([existsSync(work('kept')), existsSync(work('two')), existsSync(work('three')), result(all).permission_denials.map((d) => d.tool_input.command)],
			either([true, false, true, ['touch one']], [false, false, true, []]));
	},

	// Matchers are names, lists, patterns, or nothing.
	async matchers() {
		const seen = [];
		const hook = (matcher) => ({ matcher, hooks: [async (i, id) => { seen.push(`${matcher} ${i.tool_name} ${id === i.tool_use_id}`); return {}; }] });
		await run('go', [bash('true'), { use: [['Write', { file_path: work('a'), content: 'x' }]] }, { use: [['mcp__calc__add', { a: 1 }]] }, { text: 'done' }],
			{ allowedTools: ['Bash', 'Write', 'mcp__calc'], mcpServers: { calc: calc() },
				hooks: { PreToolUse: ['Write|Edit', 'mcp__.*', 'mcp__calc', '*', undefined, '', 'Ba', 'Bash|mcp__calc__add', 'bash', '^W'].map(hook) } });
		assert.deepEqual(seen.sort(), [' Bash', ' Write', ' mcp__calc__add', '* Bash', '* Write', '* mcp__calc__add', 'Bash|mcp__calc__add Bash',
			'Bash|mcp__calc__add mcp__calc__add', 'Write|Edit Write', '^W Write', ...either(['bash Bash'], []), 'mcp__.* mcp__calc__add',
			'undefined Bash', 'undefined Write', 'undefined mcp__calc__add'].map((l) => l + ' true'));
	},

	// A hook that is too slow or fails does not stop the call, unless it says so.
	async broken() {
		const out = [];
		const late = (i, id, { signal }) => new Promise((resolve) => signal.addEventListener('abort', () => { out.push('aborted'); resolve({}); }));
		for (const [name, matcher] of Object.entries({ slow: { timeout: 0.3, hooks: [late] }, failing: { hooks: [async () => { throw new Error('hook BROKE'); }] },
			blocking: { onFailure: 'block', hooks: [async () => { throw new Error('hook BROKE'); }] } })) {
			const all = await run('go', [bash('touch ' + name), { text: 'done' }], { allowedTools: ['Bash'], hooks: { PreToolUse: [matcher] } }).catch((e) => { server.turns.length = 0; return String(e); });
			out.push([name, existsSync(work(name)), typeof all === 'string' ? all : result(all).subtype, results(server.requests.at(-1)).includes('BROKE')]);
		}
		assert.deepEqual(out.slice(0, 3), ['aborted', ['slow', false, 'success', false], either(['failing', false, 'success', true], ['failing', true, 'success', false])]);
		assert.equal(out[3][1], false); // 2.1.330 refuses to start with it
	},

	// The order of messages with their pieces.
	async order() {
		const all = await run('go', [{ text: 'say', use: [['Bash', { command: 'echo hi', description: 'x' }]] }, { text: 'done' }], { includePartialMessages: true, allowedTools: ['Bash'] });
		const block = (type) => ['content_block_start', 'content_block_delta', ...(claude ? ['assistant ' + type] : []), 'content_block_stop'];
		const ends = (...types) => ['message_delta', 'message_stop', ...(claude ? [] : ['assistant ' + types.join()])];
		assert.deepEqual(all.filter((m) => ['stream_event', 'assistant', 'user', 'result'].includes(m.type) && m.event?.type !== 'ping')
			.map((m) => m.event?.type ?? (m.message ? m.type + ' ' + m.message.content.map((b) => b.type) : m.type)),
		['message_start', ...block('text'), ...block('tool_use'), ...ends('text', 'tool_use'), 'user tool_result', 'message_start', ...block('text'), ...ends('text'), 'result']);
		assert.ok(all.filter((m) => m.type === 'stream_event').every((m) => m.uuid && m.session_id && m.parent_tool_use_id === null));
	},

	// The model and the mode change while a call waits for the host.
	async meanwhile() {
		const asked = [];
		let query;
		const input = channel(message('go'));
		await run(input, [{ use: [['Write', { file_path: work('a'), content: 'x' }]] }, { use: [['Write', { file_path: work('b'), content: 'x' }]] }, { text: 'done' }],
			{ canUseTool: async (name, i) => {
				asked.push(i.file_path === work('a') ? 'a' : 'b');
				await query.setModel('claude-haiku-4-5');
				await query.setPermissionMode('acceptEdits');
				return { behavior: 'allow', updatedInput: i };
			} }, (m, q) => { query = q; if (m.type === 'result') input.end(); });
		assert.deepEqual([asked, existsSync(work('b'))], [['a'], true]);
		const next = either('claude-haiku-4-5', 'claude-sonnet-4-5');
		assert.deepEqual(server.requests.map((r) => r.model), ['claude-sonnet-4-5', next, next]);
	},

	// An interrupt while the host is asked withdraws the question.
	async pending() {
		const input = channel(message('one')), out = [];
		let query;
		await run(input, [bash('touch made'), { text: 'second' }], { canUseTool: (name, i, { signal }) => new Promise((resolve) => {
			signal.addEventListener('abort', () => { out.push('withdrawn'); resolve({ behavior: 'deny', message: 'late' }); });
			query.interrupt();
		}) }, (m, q) => {
			query = q;
			if (m.type !== 'result') return;
			out.push([m.subtype, m.is_error, m.terminal_reason]);
			if (out.filter(Array.isArray).length === 1) input.say(message('two')); else input.end();
		}).catch((e) => out.push(String(e)));
		assert.deepEqual(out, ['withdrawn', ['error_during_execution', true, 'aborted_tools'], ['success', false, 'completed']]);
		assert.ok(!existsSync(work('made')) && JSON.stringify(server.requests.at(-1).messages).includes('tool_result'));
	},

	// A plan is accepted by the host, and then edits are.
	async planned() {
		const asked = [];
		const all = await run('go', [{ use: [['Write', { file_path: work('a'), content: 'x' }]] }, { use: [['ExitPlanMode', { plan: 'THE PLAN' }]] },
			{ use: [['Write', { file_path: work('b'), content: 'x' }]] }, { text: 'done' }], { permissionMode: 'plan',
			canUseTool: async (name, i) => {
				asked.push(name);
				if (name === 'Write') return { behavior: 'deny', message: 'no' };
				return { behavior: 'allow', updatedInput: i, updatedPermissions: [{ type: 'setMode', mode: 'acceptEdits', destination: 'session' }] };
			} });
		assert.deepEqual(asked, either(['ExitPlanMode'], ['Write', 'ExitPlanMode']));
		assert.deepEqual([existsSync(work('a')), existsSync(work('b')), result(all).permission_denials.map((d) => d.tool_name)], [false, true, ['Write']]);
	},

	// The host answers what the model asks.
	async question() {
		const questions = [{ question: 'Which colour?', header: 'Colour', multiSelect: false, options: [{ label: 'Red', description: 'r' }, { label: 'Blue', description: 'b' }] }];
		const seen = [];
		const all = await run('go', [{ use: [['AskUserQuestion', { questions }]] }, { use: [['AskUserQuestion', { questions }]] }, { text: 'done' }], {
			canUseTool: async (name, i) => {
				seen.push([name, i.questions[0].question, Object.keys(i)]);
				if (seen.length === 2) return { behavior: 'deny', message: 'NOT now' };
				return { behavior: 'allow', updatedInput: { ...i, answers: { 'Which colour?': 'Blue' } } };
			} });
		const users = all.filter((m) => m.type === 'user').map((m) => m.tool_use_result);
		assert.deepEqual(seen, [1, 2].map(() => ['AskUserQuestion', 'Which colour?', ['questions']]));
		assert.match(results(server.requests[1]), /Blue/);
		assert.match(results(server.requests[2]), /NOT now/);
		assert.deepEqual([users[0].answers, users[0].questions[0].question], [{ 'Which colour?': 'Blue' }, 'Which colour?']);
	},

	// Patterns of allowed tools.
	async patterns() {
		mkdirSync(work('sub'));
		mkdirSync(join(dir, 'other'));
		writeFileSync(join(dir, 'other/x'), 'x');
		writeFileSync(join(dir, 'other/y.md'), 'x');
		const asked = [];
		const write = (p) => ({ use: [['Write', { file_path: p, content: 'x' }]] });
		await run('go', [bash('echo a'), bash('echo a && touch b'), bash('echo $(touch c)'), bash('echo a | sort'), bash('git status'), bash('git push'), bash('npm run x'), write(work('sub/a')), write(work('a')), write(work('sub/d/e')),
			{ use: [['Read', { file_path: join(dir, 'other/x') }]] }, { use: [['Read', { file_path: join(dir, 'other/y.md') }]] }, { use: [['mcp__calc__add', { a: 1 }]] }, { text: 'done' }],
		{ allowedTools: ['Bash(echo:*)', 'Bash(npm run *)', 'Edit(sub/**)', `Read(/${join(dir, 'other')}/*.md)`, 'mcp__calc__*'], mcpServers: { calc: calc() },
			canUseTool: async (name, i) => { asked.push(i.command ?? name + ' ' + i.file_path.slice(dir.length)); return { behavior: 'deny', message: 'no' }; } });
		assert.deepEqual(asked, ['echo a && touch b', 'echo $(touch c)', 'git push', 'Write /work/a', 'Read /other/x']);
	},

	// A sub-agent has its own model, tools and limits, and its questions name it.
	async delegates() {
		const asked = [];
		const all = await run('MAIN', [{ use: [['Agent', { subagent_type: 'worker', prompt: 'SUBTASK', description: 'look', run_in_background: false }]] },
			{ for: 'SUBTASK', use: [['Bash', { command: 'touch made', description: 'x' }]] }, { for: 'SUBTASK', text: 'sub end' }, { text: 'done' }],
		{ allowedTools: ['Agent'], agents: { worker: { description: 'Works', prompt: 'You WORK.', tools: ['Bash', 'Read'], model: 'claude-haiku-4-5' } },
			canUseTool: async (name, i, o) => { asked.push([name, o.agentID]); return { behavior: 'deny', message: 'no' }; } });
		const sub = server.requests.filter((r) => JSON.stringify(r.system).includes('You WORK.'));
		assert.deepEqual(asked, [['Bash', all.find((m) => m.subtype === 'task_started').task_id]]);
		assert.deepEqual(sub.map((r) => [r.model, r.tools.map((t) => t.name.toLowerCase()).sort()]), [1, 2].map(() => ['claude-haiku-4-5', ['bash', 'read']]));
		assert.deepEqual([existsSync(work('made')), result(all).result, result(all).permission_denials.length], [false, 'done', 1]);
		assert.deepEqual(Object.keys(result(all).modelUsage).sort(), ['claude-haiku-4-5', 'claude-sonnet-4-5']);
	},

	// System prompts and instructions of the project.
	async prompts() {
		writeFileSync(work('CLAUDE.md'), 'PROJECT WORDS\n');
		const out = [];
		for (const more of [{}, { systemPrompt: 'OWN WORDS' }, { systemPrompt: { type: 'preset', preset: 'claude_code', append: 'MORE WORDS' } },
			{ settingSources: ['project'], systemPrompt: 'OWN WORDS' }, { systemPrompt: ['FIRST PART', 'SECOND PART'] }]) {
			await run('go', [{ text: 'hi' }], more);
			const { system, messages } = server.requests.at(-1), text = JSON.stringify([system, messages]);
			out.push(['OWN WORDS', 'MORE WORDS', 'PROJECT WORDS', 'FIRST PART', 'SECOND PART'].filter((w) => text.includes(w)));
		}
		assert.deepEqual(out, [[], ['OWN WORDS'], ['MORE WORDS'], ['OWN WORDS', 'PROJECT WORDS'], ['FIRST PART', 'SECOND PART']]);
	},

	// Commands have the host's environment and directory; what is written to stderr reaches the host.
	async surroundings() {
		mkdirSync(work('sub'));
		const all = await run('go', [bash('echo "$HOSTWORD $PWD"; cd /; exit 3'), bash('pwd'), { text: 'done' }], { cwd: work('sub'), env: { HOSTWORD: 'FROMHOST' }, allowedTools: ['Bash'] });
		const blocks = all.filter((m) => m.type === 'user').flatMap((m) => m.message.content);
		assert.equal(init(all).cwd, work('sub'));
		assert.ok(blocks[0].is_error && JSON.stringify(blocks[0].content).includes('FROMHOST ' + work('sub')));
		assert.ok(JSON.stringify(blocks[1].content).includes(work('sub')));
	},

	// Hooks decide what would be asked, and hear of failures and of batches.
	async outcomes() {
		const seen = [];
		const hook = (more) => [{ hooks: [async (i) => { seen.push([i.hook_event_name, i.tool_input?.command ?? i.tool_calls.map((c) => c.tool_name).join(), /boom/.test(i.error)]); return more?.(i) ?? {}; }] }];
		await run('go', [bash('touch one'), bash('touch two'), bash('touch three; echo boom >&2; exit 3'), { text: 'done' }], {
			canUseTool: async (name, i) => { seen.push(['asked', i.command]); return { behavior: 'allow', updatedInput: i }; },
			hooks: { PostToolUse: hook(), PostToolUseFailure: hook(() => ({ hookSpecificOutput: { hookEventName: 'PostToolUseFailure', additionalContext: 'FAILURE WORDS' } })), PostToolBatch: hook(() => ({ hookSpecificOutput: { hookEventName: 'PostToolBatch', additionalContext: 'BATCH WORDS' } })),
				PermissionRequest: hook((i) => ({ 'touch one': { hookSpecificOutput: { hookEventName: 'PermissionRequest', decision: { behavior: 'allow' } } },
					'touch two': { hookSpecificOutput: { hookEventName: 'PermissionRequest', decision: { behavior: 'deny', message: 'HOOK SAID NO' } } } })[i.tool_input.command]) } });
		const text = JSON.stringify(server.requests.at(-1));
		if (!claude) { // there the host is asked at the same time, and its answer counts
			assert.deepEqual(seen.map((x) => x.slice(0, 2).join(' ')), ['PermissionRequest touch one', 'PostToolUse touch one', 'PostToolBatch Bash',
				'PermissionRequest touch two', 'PostToolBatch Bash', 'PermissionRequest touch three; echo boom >&2; exit 3', 'asked touch three; echo boom >&2; exit 3',
				'PostToolUseFailure touch three; echo boom >&2; exit 3', 'PostToolBatch Bash']);
			assert.match(text, /HOOK SAID NO/);
		}
		assert.equal(seen.filter((x) => x[0] === 'PostToolBatch').length, 3);
		assert.deepEqual(seen.filter((x) => x[0] === 'PostToolUseFailure').map((x) => x[2]), [true]);
		assert.deepEqual([existsSync(work('one')), existsSync(work('two'))], [true, claude]);
		assert.match(text, /FAILURE WORDS/);
		assert.match(text, /BATCH WORDS/);
	},

	// Structured answers: after tools, corrected, and not given at all.
	async attempts() {
		const outputFormat = { type: 'json_schema', schema: { type: 'object', properties: { count: { type: 'number' } }, required: ['count'], additionalProperties: false } };
		const all = await run('go', [bash('echo hi'), { use: [['StructuredOutput', { count: 'x' }]] }, { use: [['StructuredOutput', { count: 1, more: 2 }]] }, { use: [['StructuredOutput', { count: 3 }]] }, { text: 'end' }],
			{ outputFormat, allowedTools: ['Bash'] });
		const left = server.turns.splice(0).length;
		const errors = all.filter((m) => m.type === 'user').flatMap((m) => m.message.content).filter((b) => b.is_error).length;
		const r = result(all);
		assert.deepEqual([r.subtype, r.structured_output, r.result, errors, left, r.num_turns], ['success', { count: 3 }, '{"count":3}', 2, 1, either(4, 5)]);
		const later = await run('go', [{ text: 'no JSON' }, { use: [['StructuredOutput', { count: 4 }]] }, { text: 'end' }], { outputFormat });
		server.turns.length = 0;
		assert.deepEqual([result(later).subtype, result(later).structured_output], ['success', { count: 4 }]);
	},

	// Several calls at once, of which one is declined, and one ends the turn.
	async batch() {
		const asked = [];
		const three = (a, b, c) => ({ use: [a, b, c].map((name) => ['Write', { file_path: work(name), content: 'x' }]) });
		const canUseTool = async (name, i) => {
			const file = i.file_path.slice(-1);
			asked.push(file);
			return 'be'.includes(file) ? { behavior: 'deny', message: 'NOT ' + file, interrupt: file === 'e' } : { behavior: 'allow', updatedInput: i };
		};
		const all = await run('go', [three('a', 'b', 'c'), { text: 'done' }], { canUseTool });
		const blocks = server.requests.at(-1).messages.at(-1).content.filter((b) => b.type === 'tool_result').map((b) => !!b.is_error);
		const out = [];
		await run('go', [three('d', 'e', 'f')], { canUseTool }, (m) => { if (m.type === 'result') out.push(m.subtype, m.is_error, m.terminal_reason); }).catch((e) => out.push(/Error|error/.test(String(e))));
		assert.deepEqual([asked, blocks], [['a', 'b', 'c', 'd', 'e'], [false, true, false]]);
		assert.deepEqual(['a', 'b', 'c', 'd', 'e', 'f'].filter((f) => existsSync(work(f))), ['a', 'c', 'd']);
		assert.equal(result(all).permission_denials.length, 1);
		assert.deepEqual(out, ['error_during_execution', true, 'aborted_tools', true]);
	},

	// The host ends the turn instead of answering a question, and instead of approving a plan.
	async stopped() {
		const questions = [{ question: 'Which colour?', header: 'Colour', multiSelect: false, options: [{ label: 'Red', description: 'r' }, { label: 'Blue', description: 'b' }] }];
		for (const [use, permissionMode] of [[['AskUserQuestion', { questions }], 'default'], [['ExitPlanMode', { plan: 'THE PLAN' }], 'plan']]) {
			const out = [], before = server.requests.length;
			await run('go', [{ use: [use] }], { permissionMode, canUseTool: async (name, i) => {
				out.push(i.questions?.[0].header ?? i.plan);
				return { behavior: 'deny', message: 'no', interrupt: true };
			} }, (m) => { if (m.type === 'result') out.push(m.subtype, m.terminal_reason); }).catch(() => out.push('thrown'));
			assert.deepEqual(out, [permissionMode === 'plan' ? 'THE PLAN' : 'Colour', 'error_during_execution', 'aborted_tools', 'thrown']);
			assert.equal(server.requests.length, before + 1);
		}
	},

	// Servers come and go between turns.
	async changing() {
		const input = channel(message('one')), out = [];
		const tools = () => server.requests.at(-1).tools.map((t) => t.name).filter((n) => n.startsWith('mcp__')).map((n) => n.replace(/__(fail|throw)$/, '')).filter((n, i, l) => l.indexOf(n) === i);
		let turn = 0;
		await run(input, [{ text: '1' }, { use: [['mcp__late__add', { a: 7 }]] }, { text: '2' }, { text: '3' }], { allowedTools: ['mcp__late', 'mcp__calc'], mcpServers: { calc: calc() } }, async (m, q) => {
			if (m.type !== 'result') return;
			out.push(tools().sort().join());
			turn++;
			if (turn === 1) { const r = await q.setMcpServers({ late: calc({ name: 'late' }) }); out.push([r.added, r.removed, r.errors]); input.say(message('two')); }
			else if (turn === 2) { out.push(results(server.requests.at(-1)).includes('sum 7')); const r = await q.setMcpServers({}); out.push([r.added, r.removed]); input.say(message('three')); }
			else input.end();
		});
		assert.deepEqual(out, ['mcp__calc,mcp__calc__add', [['late'], ['calc'], {}], 'mcp__late,mcp__late__add', true, [[], ['late']], '']);
	},

	// A fork goes on from an earlier answer, and the session stays as it was.
	async branch() {
		const first = await run('ONE', [{ text: 'first' }]);
		const id = init(first).session_id, at = first.find((m) => m.type === 'assistant').uuid;
		await run('TWO', [{ text: 'second' }], { resume: id });
		const fork = await run('THREE', [{ text: 'third' }], { resume: id, resumeSessionAt: at, forkSession: true });
		const words = () => ['ONE', 'first', 'TWO', 'second', 'THREE', 'third'].filter((w) => JSON.stringify(server.requests.at(-1).messages).includes(w)).join(' ');
		const out = [words(), init(fork).session_id === id];
		await run('FOUR', [{ text: 'fourth' }], { resume: id });
		out.push(words());
		const last = await run('FIVE', [{ text: 'fifth' }], { resume: init(fork).session_id });
		out.push(words(), init(last).session_id === init(fork).session_id);
		assert.deepEqual(out, ['ONE first THREE', false, 'ONE first TWO second', 'ONE first THREE third', true]);
	},

	// A hook that ends the run is no error, for hosts.
	async ended() {
		const turns = [{ text: 'saying', ...bash('touch made') }], stop = [{ hooks: [async () => ({ continue: false, stopReason: 'ENOUGH' })] }], out = [];
		for (const event of ['PostToolUse', 'PostToolBatch', 'UserPromptSubmit']) {
			const before = server.requests.length;
			const r = result(await run('go', event === 'UserPromptSubmit' ? [] : [...turns], { allowedTools: ['Bash'], hooks: { [event]: stop } }));
			out.push([event, r.subtype, r.is_error, r.terminal_reason ?? 'hook_stopped', server.requests.length - before]);
		}
		assert.deepEqual(out, [['PostToolUse', 1], ['PostToolBatch', 1], ['UserPromptSubmit', 0]].map(([event, n]) => [event, 'success', false, 'hook_stopped', n]));
	},

	// What hooks read of a result has the members that they know, from hosts and as commands.
	async responses() {
		const seen = [];
		writeFileSync(work('a.txt'), 'one\ntwo\n');
		const turns = () => [bash('echo out; echo err >&2'), bash('true'), { use: [['Read', { file_path: work('a.txt') }]] },
			{ use: [['Edit', { file_path: work('a.txt'), old_string: 'one', new_string: 'uno' }]] }, { use: [['Write', { file_path: work('b.txt'), content: 'x\n' }]] }, { text: 'done' }];
		const allowedTools = ['Bash', 'Read', 'Edit', 'Write'];
		const of = (r) => [r.stdout, r.interrupted, r.filePath, r.originalFile, r.structuredPatch?.length > 0, r.type];
		await run('go', turns(), { allowedTools, hooks: { PostToolUse: [{ matcher: 'Bash|Edit|Write', hooks: [async (i) => { seen.push(of(i.tool_response)); return {}; }] }] } });
		const none = undefined;
		const want = [['out\nerr', false, none, none, false, none], ['', false, none, none, false, none], [none, none, work('a.txt'), 'one\ntwo\n', true, none],
			[none, none, work('b.txt'), null, either(true, false), 'create']];
		assert.deepEqual(seen, want);
		writeFileSync(work('a.txt'), 'one\ntwo\n');
		rmSync(work('b.txt'));
		await run('go', turns(), { allowedTools, settings: { hooks: { PostToolUse: [{ matcher: 'Bash|Edit|Write', hooks: [{ type: 'command', command: `cat >> ${work('log')}; echo >> ${work('log')}` }] }] } } });
		assert.deepEqual(readFileSync(work('log'), 'utf8').split('\n').filter((l) => l).map((l) => of(JSON.parse(l).tool_response)), want);
	},

	// Images: from the host, in a file, and of a server's tool.
	async images() {
		const data = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
		writeFileSync(work('p.png'), Buffer.from(data, 'base64'));
		const pictures = calc();
		pictures.instance.registerTool('pic', { description: 'Pic', inputSchema: {} }, async () => ({ content: [{ type: 'text', text: 'here' }, { type: 'image', data, mimeType: 'image/png' }] }));
		const source = { type: 'base64', media_type: 'image/png', data };
		const all = await run((async function* () { yield message([{ type: 'image', source }, { type: 'text', text: 'what' }]); })(),
			[{ use: [['Read', { file_path: work('p.png') }]] }, { use: [['mcp__calc__pic', {}]] }, { text: 'done' }], { allowedTools: ['Read', 'mcp__calc'], mcpServers: { calc: pictures } });
		const contains = (m) => m.content.flatMap((b) => b.content ?? [b]).some((b) => b.type === 'image' && b.source.data === data && b.source.media_type === 'image/png');
		assert.deepEqual(server.requests.map((r) => contains(r.messages.filter((m) => m.role === 'user').at(-1))), [true, true, true]);
		assert.deepEqual(all.filter((m) => m.type === 'user').map((m) => contains(m.message)), [true, true]);
	},

	// Commands, agents, rules and hooks of a project; not its variables. A command that allows something is a question to
	// the host here, unless its message is marked as typed.
	async project() {
		for (const d of ['commands', 'agents']) mkdirSync(work('.claude/' + d), { recursive: true });
		writeFileSync(work('.claude/commands/fix.md'), '---\ndescription: Fixes\nallowed-tools: Bash(touch:*)\n---\nFIX $ARGUMENTS\n');
		writeFileSync(work('.claude/agents/helper.md'), '---\nname: helper\ndescription: Helps\ntools: Read\nmodel: haiku\n---\nYou HELP.\n');
		writeFileSync(work('.claude/settings.json'), JSON.stringify({ permissions: { allow: ['Bash(echo:*)'], deny: ['Read(./kept.txt)'] }, env: { WORD: 'PROJECTWORD' },
			hooks: { PreToolUse: [{ matcher: 'Bash', hooks: [{ type: 'command', command: 'echo hooked >> hooked.txt' }] }] } }));
		writeFileSync(work('kept.txt'), 'KEPTWORDS');
		const asked = [];
		const all = await run('/fix one two', [bash('touch made'), bash('echo $WORD'), { use: [['Read', { file_path: work('kept.txt') }]] },
			{ use: [['Agent', { subagent_type: 'helper', prompt: 'SUBTASK', description: 'd', run_in_background: false }]] }, { for: 'SUBTASK', text: 'sub end' }, { text: 'done' }],
		{ settingSources: ['project'], extraArgs: either({ trust: null }, {}), canUseTool: async (name, i) => { asked.push(name + ' ' + (i.command ?? i.skill)); return { behavior: 'allow', updatedInput: i }; } });
		const text = JSON.stringify(server.requests.at(-1).messages);
		assert.deepEqual(asked, [...either(['Skill fix'], []), 'Bash echo $WORD']);
		assert.ok(init(all).slash_commands.includes('fix') && init(all).agents.includes('helper') && existsSync(work('made')) && existsSync(work('hooked.txt')));
		assert.deepEqual(['FIX one two', 'PROJECTWORD', 'KEPTWORDS', 'sub end'].map((w) => text.includes(w)), [true, claude, false, true]);
		assert.match(server.requests.find((r) => JSON.stringify(r.system).includes('You HELP.')).model, /haiku/);
		assert.equal(result(all).permission_denials.length, 1);
	},

	// A command in the background is ended by the model, and its task is told.
	async ends() {
		const input = channel(message('go'));
		const ends = { use: [['KillShell', { shell_id: '' }]] };
		const all = await run(input, [{ use: [['Bash', { command: 'exec sleep 1000', run_in_background: true, description: 'waits' }]] }, { text: 'started' }, ends, { text: 'end' }],
			{ allowedTools: ['Bash', 'KillShell', 'TaskStop'] }, (m) => {
				if (m.subtype === 'task_started') ends.use[0][1].shell_id = m.task_id;
				if (m.result === 'started') input.say(message('two')); else if (m.type === 'result') input.end();
			});
		const tasks = all.filter((m) => m.subtype?.startsWith('task_'));
		assert.deepEqual(tasks.map((m) => [m.subtype, m.task_id === tasks[0].task_id, m.patch?.status]), [['task_started', true, undefined], ['task_updated', true, 'killed'], ['task_notification', true, undefined]]);
		assert.deepEqual(all.filter((m) => m.subtype === 'background_tasks_changed').map((m) => m.tasks.length), [1, 0]);
		assert.deepEqual(all.filter((m) => m.type === 'result').map((m) => m.result), ['started', 'end']);
	},

	// Tools that are not allowed are not offered: by name, by server, and by a pattern.
	async withheld() {
		const offered = async (disallowedTools) => {
			await run('go', [{ text: 'hi' }], { mcpServers: { calc: calc() }, tools: ['Read', 'Bash'], disallowedTools });
			return server.requests.at(-1).tools.map((t) => t.name.toLowerCase()).sort().join();
		};
		const all = 'mcp__calc__add,mcp__calc__fail,mcp__calc__throw';
		assert.equal(await offered(['Bash(rm:*)']), 'bash,' + all + ',read');
		assert.equal(await offered(['Bash', 'mcp__calc__add']), 'mcp__calc__fail,mcp__calc__throw,read');
		for (const server of ['mcp__calc', 'mcp__calc__*']) assert.equal(await offered([server]), 'bash,read');
	},

	// Prompts and resources of a server.
	async offers() {
		const offers = calc();
		offers.instance.registerPrompt('greet', { description: 'Greets', argsSchema: { name: z.string() } }, ({ name }) => ({ messages: [{ role: 'user', content: { type: 'text', text: 'GREET ' + name } }] }));
		offers.instance.registerResource('note', 'note://one', { mimeType: 'text/plain', description: 'A note' }, async () => ({ contents: [{ uri: 'note://one', mimeType: 'text/plain', text: 'NOTETEXT' }] }));
		await run('/mcp__calc__greet Ann', [{ use: [['ListMcpResourcesTool', {}]] }, { use: [['ReadMcpResourceTool', { server: 'calc', uri: 'note://one' }]] }, { text: 'done' }],
			{ mcpServers: { calc: offers }, allowedTools: ['ListMcpResourcesTool', 'ReadMcpResourceTool'] });
		assert.equal(JSON.stringify(server.requests[0].messages).includes('GREET Ann'), either(true, false)); // there not from a server in the host
		assert.match(results(server.requests[1]), /note:\/\/one.*A note/);
		assert.match(results(server.requests[2]), /NOTETEXT/);
	},
};

for (const name of process.argv.slice(2)) {
	dir = mkdtempSync(join(tmpdir(), 'knack-sdk-'));
	mkdirSync(join(dir, 'work'));
	mkdirSync(join(dir, 'home'));
	server = await serve([]);
	process.env.HOME = join(dir, 'home');
	process.chdir(join(dir, 'work'));
	try {
		await scenarios[name]();
		assert.equal(server.turns.length, 0, 'turns were not used');
	} finally {
		server.close();
		rmSync(dir, { recursive: true, force: true });
	}
	console.log(name, 'passed');
}
process.exit(0);
