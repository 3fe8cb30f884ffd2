// Scenarios that were written from the declarations of the Agent SDK: node agentsdk2.mjs SCENARIO
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { channel, collect, init, message, result, sdk, z } from './hosts.mjs';

const options = (more) => ({
	pathToClaudeCodeExecutable: process.env.KNACK, stderr: (text) => process.stderr.write(text), maxTurns: 10,
	permissionMode: 'default', ...more, extraArgs: { sandbox: 'off', ...more?.extraArgs },
});
const of = (all, subtype) => all.filter((m) => m.subtype === subtype);
const until = async (what) => { while (!what()) await new Promise((r) => setTimeout(r, 20)); };

// run returns the messages of a query; on is called with each.
const run = (prompt, more, on) => collect(sdk.query({ prompt, options: options(more) }), on);

const reviewer = { description: 'Reviews', prompt: 'You REVIEW.', tools: ['Read'] };
const schema = { type: 'object', properties: { count: { type: 'number' } }, required: ['count'], additionalProperties: false };

const scenarios = {
	// The end of a background command begins a turn.
	async command() {
		const input = channel(message('go'));
		const all = await run(input, { allowedTools: ['Bash'] }, (m) => {
			if (m.type !== 'result') return;
			if (m.result === 'started') writeFileSync('go', '');
			else input.end();
		});
		const order = all.filter((m) => /^(task|background)_|^success$/.test(m.subtype)).map((m) => m.subtype);
		assert.deepEqual(order, ['background_tasks_changed', 'task_started', 'success', 'task_updated', 'task_notification',
			'background_tasks_changed', 'success']);
		assert.equal(of(all, 'task_updated')[0].patch.status, 'completed');
		assert.match(of(all, 'task_notification')[0].summary, /code 0/);
	},

	// So does the end of an agent in the background, also if the input has ended.
	async agent() {
		const all = await run('MAINWORD go', { allowedTools: ['Agent', 'Bash'],
			agents: { reviewer: { ...reviewer, tools: ['Bash'], background: true } } }, (m) => {
			if (m.result === 'started') writeFileSync('go', ''); // what the agent waits for
		});
		assert.deepEqual(all.filter((m) => m.type === 'result').map((m) => m.result), ['started', 'saw the end']);
		assert.ok(of(all, 'task_started')[0].is_backgrounded);
		assert.equal(of(all, 'task_notification')[0].summary, 'sub answer');
	},

	// A command that runs is moved to the background.
	async move() {
		const input = channel(message('go'));
		await run(input, { allowedTools: ['Bash'] }, async (m, q) => {
			if (m.type === 'assistant' && m.message.content.some((b) => b.type === 'tool_use' && b.name === 'Bash')) {
				await until(() => existsSync('runs'));
				assert.equal(await q.backgroundTasks('none'), false);
				assert.equal(await q.backgroundTasks(), true);
			}
			if (m.type !== 'result') return;
			if (m.result === 'moved') writeFileSync('go', '');
			else input.end();
		});
	},

	// An agent leads the session.
	async lead() {
		const all = await run('go', { agent: 'reviewer', agents: { reviewer: { ...reviewer, tools: ['Read', 'Grep'] } } });
		assert.deepEqual(init(all).tools, ['Read', 'Grep']);
		await assert.rejects(run('go', { agent: 'nobody' }), /./);
		await assert.rejects(run('go', { agent: 'reviewer', agents: { reviewer: { ...reviewer, tools: ['Bash(git:*)'] } } }), /./);
	},

	// The host chooses among the built-in tools; those of its servers stay.
	async choice() {
		const server = () => ({ calc: sdk.createSdkMcpServer({ name: 'calc', version: '1.0.0', tools: [
			sdk.tool('add', 'Adds', { a: z.number() }, async () => ({ content: [{ type: 'text', text: 'sum' }] }))] }) });
		assert.deepEqual(init(await run('go', { tools: ['Bash', 'Read'], mcpServers: server() })).tools.sort(),
			['Bash', 'Read', 'mcp__calc__add']);
		assert.deepEqual(init(await run('go', { tools: [], mcpServers: server() })).tools, ['mcp__calc__add']);
	},

	// A structured answer is the input of a tool; five are checked.
	async structured() {
		const outputFormat = { type: 'json_schema', schema };
		assert.deepEqual(result(await run('go', { outputFormat })).structured_output, { count: 3 });
		const all = [];
		await assert.rejects(async () => {
			for await (const m of sdk.query({ prompt: 'go', options: options({ outputFormat }) })) all.push(m);
		}, /5 attempts/);
		assert.equal(result(all).subtype, 'error_max_structured_output_retries');
	},

	// What is recorded is mirrored to the host's store, from which a session is resumed that exists nowhere else.
	async store() {
		const store = new sdk.InMemorySessionStore(), dir = process.cwd();
		const all = await run('remember BLUE', { sessionStore: store, allowedTools: ['Bash'] });
		const sessionId = init(all).session_id;
		assert.deepEqual((await sdk.listSessions({ dir, sessionStore: store })).map((s) => [s.sessionId, s.firstPrompt]),
			[[sessionId, 'remember BLUE']]);
		const messages = await sdk.getSessionMessages(sessionId, { dir, sessionStore: store });
		assert.deepEqual(messages.map((m) => m.type), ['user', 'assistant', 'user', 'assistant']);
		assert.ok(!existsSync(process.env.HOME + '/.claude/projects'));
		rmSync(process.env.HOME + '/.local', { recursive: true });
		const again = await run('which?', { sessionStore: store, resume: sessionId });
		assert.equal(init(again).session_id, sessionId);
		assert.equal(result(again).result, 'blue');
		assert.equal((await sdk.getSessionMessages(sessionId, { dir, sessionStore: store })).length, 6);
	},

	// Exported sessions are read by the SDK.
	async export() {
		const all = await run('remember BLUE', { allowedTools: ['Bash'], title: 'Colours' });
		const dir = process.cwd(), config = join(process.env.HOME, 'exported');
		const written = execFileSync(process.env.KNACK, ['session', 'export', '--format', 'claude', config], { encoding: 'utf8' }).trim();
		assert.ok(written.startsWith(config) && !written.includes(init(all).session_id));
		process.env.CLAUDE_CONFIG_DIR = config;
		const [session] = await sdk.listSessions({ dir });
		assert.deepEqual([session.firstPrompt, session.customTitle], ['remember BLUE', 'Colours']);
		const messages = await sdk.getSessionMessages(session.sessionId, { dir });
		assert.deepEqual(messages.map((m) => m.type), ['user', 'assistant', 'user', 'assistant']);
		execFileSync(process.env.KNACK, ['session', 'export', '--format', 'claude', init(all).session_id, '-o', config]);
		assert.equal(readdirSync(join(config, 'projects', readdirSync(join(config, 'projects'))[0])).length, 2);
	},

	// A host makes the session stricter while it runs, and its effort another.
	async stricter() {
		const input = channel(), asked = [];
		const calc = sdk.createSdkMcpServer({ name: 'calc', version: '1.0.0', tools: [
			sdk.tool('add', 'Adds', { a: z.number() }, async () => ({ content: [{ type: 'text', text: 'sum' }] }))] });
		const q = sdk.query({ prompt: input, options: options({ mcpServers: { calc }, permissionMode: 'bypassPermissions',
			allowDangerouslySkipPermissions: true,
			canUseTool: async (name) => { asked.push(name); return { behavior: 'deny', message: 'no' }; } }) });
		assert.match((await q.setMcpPermissionModeOverride('none', 'default')).warning, /none/);
		await q.setMcpPermissionModeOverride('calc', 'default');
		await assert.rejects(q.setMcpPermissionModeOverride('calc', 'bypassPermissions'), /stricter/);
		await q.applyFlagSettings({ permissions: { deny: ['Bash(touch:*)'] } });
		await assert.rejects(q.applyFlagSettings({ permissions: { allow: ['Bash'] } }), /deny and ask/);
		await q.updateSettings('userSettings', { effortLevel: 'low' });
		await q.updateSettings('localSettings', { outputStyle: 'default' });
		await assert.rejects(q.updateSettings('userSettings', { model: 'x' }), /only effortLevel/);
		await assert.rejects(q.readMcpResource('none', 'ui://x'), /no MCP server/);
		input.say(message('go'));
		for await (const m of q) if (m.type === 'result') input.end();
		assert.deepEqual(asked, ['mcp__calc__add']);
		assert.ok(!existsSync('made') && !existsSync('.claude/settings.local.json') && !existsSync(process.env.HOME + '/.claude'));
	},

	// Hooks get the ID of the prompt and the file of the agent.
	async hooks() {
		const seen = [];
		const hook = [{ hooks: [async (i) => { seen.push(i); return {}; }] }];
		const id = randomUUID(), input = channel(message('go', { uuid: id }));
		await run(input, { allowedTools: ['Agent', 'Read'], agents: { reviewer },
			hooks: { UserPromptSubmit: hook, PreToolUse: hook, SubagentStop: hook, Stop: hook } },
		(m) => { if (m.type === 'result') input.end(); });
		assert.deepEqual(seen.map((i) => i.hook_event_name), ['UserPromptSubmit', 'PreToolUse', 'PreToolUse', 'SubagentStop', 'Stop']);
		assert.ok(seen.every((i) => i.prompt_id === id));
		assert.ok(existsSync(seen[3].agent_transcript_path));
	},

	// Commands of hooks are reported.
	async hookEvents() {
		const settings = { hooks: { PreToolUse: [{ matcher: 'Bash', hooks: [{ type: 'command', command: 'echo "{}"; echo noise >&2' }] }] } };
		const all = await run('go', { includeHookEvents: true, allowedTools: ['Bash'], settings });
		const [started] = of(all, 'hook_started'), [ended] = of(all, 'hook_response');
		assert.deepEqual([started.hook_id, started.hook_event, started.hook_name], [ended.hook_id, 'PreToolUse', 'PreToolUse:Bash']);
		assert.deepEqual([ended.stdout, ended.stderr, ended.exit_code, ended.outcome], ['{}\n', 'noise\n', 0, 'success']);
		assert.equal(of(await run('go', { allowedTools: ['Bash'], settings }), 'hook_started').length, 0);
	},

	// A message that asks for no turn gets an empty result, and is read with the next one.
	async silent() {
		const input = channel(message('SILENT', { shouldQuery: false }), message('LOUD'));
		const all = await run(input, {}, (m) => { if (m.result === 'heard') input.end(); });
		assert.deepEqual(all.filter((m) => m.type === 'result').map((m) => [m.result, m.num_turns]), [['', 0], ['heard', 1]]);
	},

	// A typed skill is two messages, and the host's message is repeated with its ID.
	async typed() {
		const id = randomUUID(), input = channel(message('/greet Ann', { uuid: id }));
		const all = await run(input, { extraArgs: { 'replay-user-messages': null, trust: null } }, (m) => { if (m.type === 'result') input.end(); });
		const users = all.filter((m) => m.type === 'user');
		assert.deepEqual(users.map((m) => [!!m.isReplay, !!m.isMeta]), [[true, false], [false, true]]);
		assert.equal(users[0].uuid, id);
		assert.match(users[0].message.content[0].text, /<command-name>\/greet<\/command-name>\n<command-args>Ann</);
		assert.match(users[1].message.content[0].text, /Greet Ann/);
	},

	// Text that nobody typed calls nothing.
	async verbatim() {
		const all = await run('/greet Ann', { verbatimPrompts: true, extraArgs: { trust: null } });
		assert.equal(result(all).result, 'as it is');
	},

	// Results of edits have what was there before.
	async edits() {
		writeFileSync('a.txt', 'one\ntwo\n');
		const all = await run('go', { allowedTools: ['Read', 'Edit', 'Write'] });
		const [, edit, write] = all.filter((m) => m.type === 'user').map((m) => m.tool_use_result);
		assert.deepEqual([edit.originalFile, edit.structuredPatch[0].lines], ['one\ntwo\n', ['-one', '+uno', ' two']]);
		assert.deepEqual([write.type, write.originalFile], ['create', null]);
	},

	// Plugins are listed.
	async plugin() {
		mkdirSync('plug/.claude-plugin', { recursive: true });
		mkdirSync('plug/skills/wave', { recursive: true });
		writeFileSync('plug/.claude-plugin/plugin.json', JSON.stringify({ name: 'plug', version: '1.0.0', description: 'd' }));
		writeFileSync('plug/skills/wave/SKILL.md', '---\nname: wave\ndescription: Waves\n---\nWave.\n');
		const all = await run('go', { plugins: [{ type: 'local', path: process.cwd() + '/plug' }] });
		assert.deepEqual(init(all).plugins, [{ name: 'plug', path: process.cwd() + '/plug', version: '1.0.0' }]);
		assert.ok(init(all).skills.includes('plug:wave'));
	},

	// How to plan is the host's.
	async plan() {
		await run('go', { permissionMode: 'plan', planModeInstructions: 'PLANWORDS' });
	},

	// A command that runs for a while reports that.
	async progress() {
		const all = await run('go', { allowedTools: ['Bash'] });
		const [p] = all.filter((m) => m.type === 'tool_progress');
		assert.ok(p.tool_name === 'Bash' && p.elapsed_time_seconds >= 1 && p.tool_use_id);
	},

	// What restricts does.
	async restrict() {
		const asked = [];
		const canUseTool = async (name) => { asked.push(name); return { behavior: 'allow', updatedInput: {} }; };
		const denied = await run('go', { managedSettings: { permissions: { deny: ['Bash(touch:*)'] } }, allowedTools: ['Bash'] });
		assert.equal(result(denied).permission_denials.length, 1);
		await assert.rejects(run('go', { managedSettings: { allowedProviders: ['anthropic'] } }), /./);
		const removed = await run('go', { disallowedTools: ['Bash'], debugFile: 'debug.log', thinking: { type: 'disabled' } });
		assert.ok(!init(removed).tools.includes('Bash') && existsSync('debug.log'));
		const silent = await run('go', { permissionPrompts: 'none', canUseTool });
		assert.equal(result(silent).permission_denials.length, 1);
		assert.deepEqual(asked, []);
		assert.ok(!existsSync('made'));
		await assert.rejects(run('go', { permissionPromptToolName: 'mcp__x__approve' }), /./);
		assert.equal(init(await run('go', { permissionMode: 'auto' })).permissionMode, 'default');
		const first = await run('ONE');
		await run('TWO', { resume: init(first).session_id });
		const at = first.filter((m) => m.type === 'assistant').at(-1).uuid;
		await run('THREE', { resume: init(first).session_id, resumeSessionAt: at });
	},

	// An interrupt ends background commands, unless the host stops each one.
	async interruptAll() {
		for (const perTaskStopAffordance of [false, true]) {
			const input = channel(message('go'));
			const all = [];
			const q = sdk.query({ prompt: input, options: options({ allowedTools: ['Bash'], perTaskStopAffordance }) });
			try {
				for await (const m of q) {
					all.push(m);
					if (m.subtype === 'task_started') {
						until(() => existsSync('runs')).then(async () => { rmSync('runs'); await q.interrupt(); });
					}
					if (m.type === 'result' && perTaskStopAffordance) await q.stopTask('1');
					if (m.type === 'result') input.end();
				}
			} catch (e) { assert.match(String(e), /error result|code 1/); }
			assert.equal(of(all, 'task_updated')[0].patch.status, 'killed');
		}
	},
};

await scenarios[process.argv[2]]();
console.log('passed');
