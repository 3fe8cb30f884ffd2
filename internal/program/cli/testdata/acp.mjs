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
};

await scenarios[process.argv[2]]();
process.exit(0);
