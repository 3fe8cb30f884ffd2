// Drives an agent with the client of the Agent Client Protocol from npm: node acp.mjs SCENARIO
// KNACK is the program, KNACK_NPM the directory of the packages.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { Readable, Writable } from 'node:stream';

const modules = process.env.KNACK_NPM + '/node_modules/@agentclientprotocol/';
const acp = await import(modules + 'sdk/dist/v1/unstable/acp.js');

// allow picks the option of a kind; no such option is an error.
const pick = (kind) => ({ params }) => {
	const option = params.options.find((o) => o.kind === kind);
	assert.ok(option, `no option ${kind} among ${JSON.stringify(params.options)}`);
	return { outcome: { outcome: 'selected', optionId: option.optionId } };
};

// start starts an agent and connects to it. on answers its requests by their names.
async function start(command, on = {}, capabilities = {}) {
	const child = spawn(command[0], command.slice(1), { stdio: ['pipe', 'pipe', 'inherit'] });
	const updates = [], asked = [], lines = [];
	const waiting = new Set();
	const app = acp.client({ name: 'test' })
		.onRequest('session/request_permission', (c) => { asked.push(c.params); return (on.permission ?? pick('reject_once'))(c); })
		.onNotification('session/update', ({ params }) => { updates.push(params); for (const w of waiting) w(); });
	for (const method of ['elicitation/create', 'fs/read_text_file', 'fs/write_text_file', 'terminal/create'])
		app.onRequest(method, (c) => { asked.push({ method, ...c.params }); return on[method](c); });
	let rest = '';
	const output = new Readable({ read() {} });
	child.stdout.on('data', (data) => { // every line must be a message
		const all = (rest + data).split('\n');
		rest = all.pop();
		for (const line of all) lines.push(JSON.parse(line));
		output.push(data);
	});
	child.stdout.on('end', () => output.push(null));
	const connection = app.connect(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(output)));
	const request = (method, params) => connection.agent.request(method, params);
	const info = await request('initialize', { protocolVersion: 1, clientCapabilities: capabilities,
		clientInfo: { name: 'test', version: '1' } });
	const agent = {
		child, updates, asked, lines, request, info,
		notify: (method, params) => connection.agent.notify(method, params),
		begin: (more) => request('session/new', { cwd: process.cwd(), mcpServers: [], ...more }),
		say: (sessionId, ...prompt) => request('session/prompt', { sessionId,
			prompt: prompt.map((p) => (typeof p === 'string' ? { type: 'text', text: p } : p)) }),
		of: (kind, id) => updates.filter((u) => u.update.sessionUpdate === kind && (!id || u.sessionId === id)).map((u) => u.update),
		text: (id) => agent.of('agent_message_chunk', id).map((u) => u.content.text).join(''),
		// until waits for an update that satisfies a condition.
		until: (condition) => new Promise((resolve) => {
			const check = () => { if (condition()) { waiting.delete(check); resolve(); } };
			waiting.add(check);
			check();
		}),
		async leave() {
			const ended = once(child, 'exit');
			child.stdin.end();
			const [code] = await ended;
			assert.equal(rest, '');
			return code;
		},
	};
	return agent;
}

const scenarios = {
	// The adapter that editors use for the Agent SDK, with knack as its program.
	async adapter() {
		process.env.CLAUDE_CODE_EXECUTABLE = process.env.KNACK;
		const a = await start([process.execPath, modules + 'claude-agent-acp/dist/index.js'], { permission: pick('allow_once') });
		const s = await a.begin();
		assert.equal(s.modes.currentModeId, 'default');
		const end = await a.say(s.sessionId, 'make a file');
		assert.equal(end.stopReason, 'end_turn');
		assert.ok(existsSync('made'));
		assert.equal(a.asked.length, 1);
		assert.match(a.text(), /It is made/);
		assert.ok(a.of('tool_call').length + a.of('tool_call_update').length > 1);
		await a.until(() => a.of('available_commands_update').some((u) => u.availableCommands.some((c) => c.name === 'welcome')));
		await a.say(s.sessionId, '/welcome Ann');
		assert.match(a.text(), /Hello Ann/);
		await a.leave();
	},

	// knack acp: from the first message to the last, as an editor uses it.
	async agent() {
		const a = await start([process.env.KNACK, 'acp'], { permission: pick('allow_once') });
		assert.equal(a.info.protocolVersion, 1);
		assert.equal(a.info.agentInfo.name, 'knack');
		const s = await a.begin();
		assert.equal(s.modes.currentModeId, 'default');
		assert.ok(s.configOptions.some((o) => o.id === 'model' && o.options.length > 0));
		await a.until(() => a.of('available_commands_update').length > 0);
		const end = await a.say(s.sessionId, 'make a file');
		assert.equal(end.stopReason, 'end_turn');
		assert.ok(existsSync('made'));
		assert.match(a.text(), /It is made/);
		assert.deepEqual(a.asked[0].options.map((o) => o.kind).filter((k, i, all) => all.indexOf(k) === i).sort(),
			['allow_always', 'allow_once', 'reject_always', 'reject_once']);
		const call = a.of('tool_call')[0];
		assert.equal(call.kind, 'execute');
		assert.equal(a.asked[0].toolCall.toolCallId, call.toolCallId);
		assert.equal(a.of('tool_call_update').at(-1).status, 'completed');

		// Skills of a project after it was trusted.
		assert.equal((await a.say(s.sessionId, '/trust')).stopReason, 'end_turn');
		await a.until(() => a.of('available_commands_update').some((u) => u.availableCommands.some((c) => c.name === 'welcome')));
		await a.say(s.sessionId, '/welcome Ann');
		assert.match(a.text(), /Hello Ann/);

		// A change as a diff, with the place of it, and the modes.
		await a.request('session/set_mode', { sessionId: s.sessionId, modeId: 'acceptEdits' });
		await a.until(() => a.of('current_mode_update').some((u) => u.currentModeId === 'acceptEdits'));
		await a.say(s.sessionId, 'write a file');
		const diff = a.of('tool_call_update').flatMap((u) => u.content ?? []).find((c) => c.type === 'diff');
		assert.equal(diff.newText, 'one\n');
		assert.match(diff.path, /^\/.*a\.txt$/);
		await assert.rejects(a.request('session/set_mode', { sessionId: s.sessionId, modeId: 'bypassPermissions' }));
		assert.ok(a.of('usage_update').length > 0);

		// Closed, listed, loaded.
		await a.request('session/close', { sessionId: s.sessionId });
		await assert.rejects(a.say(s.sessionId, 'anybody?'));
		const { sessions } = await a.request('session/list', { cwd: process.cwd() });
		assert.deepEqual(sessions.map((x) => x.sessionId), [s.sessionId]);
		a.updates.length = 0;
		await a.request('session/load', { sessionId: s.sessionId, cwd: process.cwd(), mcpServers: [] });
		assert.match(a.of('user_message_chunk').map((u) => u.content.text).join('|'), /^make a file\|\/welcome Ann\|write a file$/);
		assert.equal(a.of('tool_call').length, 2);
		assert.equal(await a.leave(), 0);
	},

	// Two sessions at once, a cancelled turn, a prompt during a turn, and a client of the next version.
	async turns() {
		let answer;
		const asks = new Promise((resolve) => { answer = resolve; });
		const held = async (c) => { await asks; return pick('allow_once')(c); };
		const a = await start([process.env.KNACK, 'acp'], { permission: held });
		const [one, two] = await Promise.all([a.begin(), a.begin()]);
		assert.notEqual(one.sessionId, two.sessionId);
		const first = a.say(one.sessionId, 'first: make a file');
		await a.until(() => a.of('tool_call', one.sessionId).length === 1);
		assert.equal((await a.say(two.sessionId, 'second: say something')).stopReason, 'end_turn');
		assert.match(a.text(two.sessionId), /Said\./);
		const joined = a.say(one.sessionId, 'and another thing');
		await a.notify('session/cancel', { sessionId: one.sessionId });
		assert.equal((await first).stopReason, 'cancelled');
		assert.equal((await joined).stopReason, 'cancelled');
		assert.ok(!existsSync('made'));
		answer();
		assert.equal((await a.say(one.sessionId, 'third: go on')).stopReason, 'end_turn');
		assert.match(a.text(one.sessionId), /Gone on\./);
		const again = await a.request('initialize', { protocolVersion: 2, clientCapabilities: {}, clientInfo: { name: 'x', version: '1' } });
		assert.equal(again.protocolVersion, 1);
		assert.equal(await a.leave(), 0);
	},

	// A form of the model for a client that has forms, as options for one that has none, and a server of the client.
	async questions() {
		const forms = { elicitation: { form: {} } };
		const a = await start([process.env.KNACK, 'acp'], { 'elicitation/create': ({ params }) => {
			assert.match(JSON.stringify(params), /Which colour/);
			return { action: 'accept', content: { answer: 'Blue' } };
		} }, forms);
		const s = await a.begin();
		await a.say(s.sessionId, 'ask me');
		assert.match(a.text(), /Blue it is/);
		assert.equal(await a.leave(), 0);
		const b = await start([process.env.KNACK, 'acp'], { permission: ({ params }) => {
			assert.match(params.toolCall.title, /Which colour/);
			return { outcome: { outcome: 'selected', optionId: 'Blue' } };
		} });
		const t = await b.begin();
		await b.say(t.sessionId, 'ask me');
		assert.match(b.text(), /Blue it is/);
		assert.equal(await b.leave(), 0);
	},

	// A client that is killed while a command runs: the command ends, too.
	async killed() {
		const a = await start([process.env.KNACK, 'acp', '--allow', 'Bash']);
		const s = await a.begin();
		a.say(s.sessionId, 'run for long').catch(() => {});
		await a.until(() => a.of('tool_call_update').some((u) => u.status === 'in_progress'));
		process.exit(0);
	},
};

await scenarios[process.argv[2]]();
process.exit(0);
