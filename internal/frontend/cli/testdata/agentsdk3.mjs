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
