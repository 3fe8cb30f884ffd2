// Drives knack with the Agent SDK from npm: node agentsdk.mjs SCENARIO
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { channel, collect, init, message, result, sdk, z } from './hosts.mjs';

const options = (more) => ({
	pathToClaudeCodeExecutable: process.env.KNACK,
	stderr: (text) => process.stderr.write(text),
	maxTurns: 10,
	extraArgs: { sandbox: 'off' },
	...more,
});

// run returns the messages of one query.
const run = (prompt, more) => collect(sdk.query({ prompt, options: options(more) }));

// failing returns the messages of a query whose result is an error, for which the SDK throws.
async function failing(prompt, more, want) {
	const all = [];
	await assert.rejects(async () => {
		for await (const m of sdk.query({ prompt, options: options(more) })) all.push(m);
	}, want);
	return all;
}

const scenarios = {
	async tools() {
		const asked = [], hooked = [];
		const all = await run('go', {
			settingSources: ['project'], betas: ['later'], maxBudgetUsd: 5, permissionMode: 'default',
			canUseTool: async (name, input, o) => {
				asked.push(name + ' ' + input.command);
				if (input.command === 'touch denied') return { behavior: 'deny', message: 'not this one' };
				if (input.command === 'touch one') return { behavior: 'allow', updatedInput: { command: 'touch two' } };
				return { behavior: 'allow', updatedInput: input, updatedPermissions: o.suggestions };
			},
			hooks: { PreToolUse: [{ matcher: 'Bash', hooks: [async (in_) => { hooked.push(in_.tool_input.command); return {}; }] },
				{ matcher: 'Write', hooks: [async () => ({ hookSpecificOutput: { hookEventName: 'PreToolUse', permissionDecision: 'deny', permissionDecisionReason: 'no files' } })] }] },
		});
		assert.deepEqual(asked, ['Bash touch denied', 'Bash touch one', 'Bash touch three']); // the second "three" needs no question
		assert.deepEqual(hooked, ['touch denied', 'touch one', 'touch three', 'touch three']);
		assert.ok(!existsSync('denied') && !existsSync('one') && existsSync('two') && existsSync('three') && !existsSync('four'));
		const r = result(all);
		assert.equal(r.subtype, 'success');
		assert.equal(r.result, 'all done');
		assert.deepEqual(r.permission_denials.map((d) => d.tool_name + ' ' + JSON.stringify(d.tool_input)),
			['Bash {"command":"touch denied"}', 'Write {"content":"x","file_path":"four"}']);
		assert.ok(init(all).tools.includes('Bash') && init(all).tools.includes('Read'));
		assert.ok(r.usage.input_tokens > 0 && Object.keys(r.modelUsage).length === 1);
		const uses = all.filter((m) => m.type === 'assistant').flatMap((m) => m.message.content).filter((b) => b.type === 'tool_use');
		assert.equal(uses.at(-1).input.file_path, 'four');
		assert.ok(all.some((m) => m.type === 'user' && m.message.content[0].type === 'tool_result'));
	},

	// A hook replaces what a tool returns.
	async redact() {
		const seen = [];
		const all = await run('go', { allowedTools: ['Bash(echo:*)'], hooks: { PostToolUse: [{ hooks: [async (in_) => {
			seen.push(JSON.stringify(in_.tool_response));
			return { hookSpecificOutput: { hookEventName: 'PostToolUse', updatedToolOutput: 'REDACTED' } };
		}] }] } });
		assert.match(seen[0], /hunter2/);
		assert.ok(!JSON.stringify(all.filter((m) => m.type === 'user')).includes('hunter2'));
	},

	// Blocks of every kind reach the model; an unknown one is an error for its message only.
	async blocks() {
		const input = channel();
		const q = sdk.query({ prompt: input, options: options() });
		const say = (content) => input.say({ type: 'user', message: { role: 'user', content }, parent_tool_use_id: null });
		say([{ type: 'text', text: 'look' },
			{ type: 'document', title: 'A', source: { type: 'text', media_type: 'text/plain', data: 'PLAINDOC' } },
			{ type: 'document', source: { type: 'content', content: [{ type: 'text', text: 'INNERDOC' }] } },
			{ type: 'document', source: { type: 'url', url: 'https://example.com/a.pdf' } },
			{ type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } },
			{ type: 'search_result', source: 'https://example.com', title: 'T', content: [{ type: 'text', text: 'FOUNDTEXT' }] }]);
		const results = [];
		for await (const m of q) {
			if (m.type !== 'result') continue;
			results.push(m.subtype);
			if (results.length === 1) say([{ type: 'container_upload', file_id: 'x' }]);
			else if (results.length === 2) say('go on');
			else input.end();
		}
		assert.deepEqual(results, ['success', 'error_during_execution', 'success']);
	},

	// The host declines a call and ends the turn.
	async declined() {
		const all = await failing('go', { canUseTool: async () => ({ behavior: 'deny', message: 'no', interrupt: true }) },
			/the user ended the run/);
		assert.equal(result(all).subtype, 'error_during_execution');
	},

	// Without a callback what needs approval is refused.
	async headless() {
		const all = await run('go');
		assert.ok(!existsSync('made'));
		assert.equal(result(all).permission_denials.length, 1);
	},

	async server() {
		const calls = [];
		const server = sdk.createSdkMcpServer({ name: 'calc', version: '1.0.0', tools: [
			sdk.tool('add', 'Adds two numbers', { a: z.number(), b: z.number() },
				async ({ a, b }) => { calls.push([a, b]); return { content: [{ type: 'text', text: `sum ${a + b}` }] }; }),
		] });
		const all = await run('add', { mcpServers: { calc: server }, allowedTools: ['mcp__calc__add'] });
		assert.deepEqual(calls, [[2, 3]]);
		assert.equal(result(all).result, 'five');
		assert.deepEqual(init(all).mcp_servers, [{ name: 'calc', status: 'connected', source: 'sdk' }]);
		assert.ok(init(all).tools.includes('mcp__calc__add'));
		const refused = await run('add', { mcpServers: { calc: server } }); // no rule, nobody to ask
		assert.equal(result(refused).permission_denials.length, 1);
		assert.equal(calls.length, 1);
	},

	// A server in the host asks the user; a tool of it replaces one of ours.
	async elicit() {
		const asked = [];
		const make = () => {
			const server = sdk.createSdkMcpServer({ name: 'forms', version: '1.0.0', tools: [
				sdk.tool('form', 'Asks', {}, async () => {
					const r = await server.instance.server.elicitInput({ message: 'Who?', requestedSchema: {
						type: 'object', properties: { name: { type: 'string' } }, required: ['name'] } });
					return { content: [{ type: 'text', text: r.action + ' ' + (r.content?.name ?? 'nobody') }] };
				}),
				sdk.tool('shell', 'Runs', { command: z.string() }, async ({ command }) =>
					({ content: [{ type: 'text', text: 'elsewhere: ' + command }] })),
			] });
			return server;
		};
		const more = { allowedTools: ['mcp__forms'], toolAliases: { Bash: 'mcp__forms__shell' } };
		const all = await run('go', { ...more, mcpServers: { forms: make() }, onElicitation: async (r) => {
			asked.push(r.serverName + ' ' + r.message + ' ' + Object.keys(r.requestedSchema.properties));
			return { action: 'accept', content: { name: 'Ann' } };
		} });
		assert.deepEqual(asked, ['forms Who? name']);
		assert.equal(result(all).result, 'done');
		const declined = await run('go', { ...more, mcpServers: { forms: make() } }); // nobody answers
		assert.equal(result(declined).result, 'declined');
	},

	async interrupt() {
		const input = channel();
		const q = sdk.query({ prompt: input, options: options({ allowedTools: ['Bash(sleep:*)'], includePartialMessages: true }) });
		input.say(message('wait'));
		const results = [];
		for await (const m of q) {
			if (m.type === 'assistant' && m.message.content.some((b) => b.type === 'tool_use')) await q.interrupt();
			if (m.type !== 'result') continue;
			results.push(m.subtype + ' ' + m.result);
			if (results.length === 1) input.say(message('go on'));
			else input.end();
		}
		assert.deepEqual(results, ['error_during_execution ', 'success on it']);
	},

	async resume() {
		const first = await run('remember 7');
		const id = init(first).session_id;
		const second = await run('which number?', { resume: id });
		assert.equal(init(second).session_id, id);
		assert.equal(result(second).result, 'seven');
		const third = await run('which number?', { resume: id, forkSession: true });
		assert.notEqual(init(third).session_id, id);
		assert.equal(result(third).result, 'seven again');
		const uuid = randomUUID();
		const fourth = await run('new', { sessionId: uuid });
		assert.equal(init(fourth).session_id, uuid);
		const last = await run('which?', { continue: true });
		assert.equal(init(last).session_id, uuid);
	},

	async agents() {
		const all = await run('review', { allowedTools: ['Agent'], agents: {
			reviewer: { description: 'Reviews code', prompt: 'You review code.', tools: ['Read'] } } });
		assert.ok(init(all).agents.includes('reviewer'));
		assert.equal(result(all).result, 'reviewed');
		const call = all.flatMap((m) => (m.type === 'assistant' ? m.message.content : [])).find((b) => b.name === 'Agent');
		assert.ok(all.some((m) => m.type === 'assistant' && m.parent_tool_use_id === call.id));
		assert.ok(all.some((m) => m.subtype === 'task_started' && m.subagent_type === 'reviewer'));
	},

	async skills() {
		const q = sdk.query({ prompt: 'greet', options: options({ skills: ['greet'], extraArgs: { trust: null } }) });
		const commands = await q.supportedCommands();
		assert.ok(commands.some((c) => c.name === 'greet' && c.description === 'Greets people'));
		const all = [];
		for await (const m of q) all.push(m);
		assert.deepEqual(init(all).skills, ['greet']);
		assert.ok(all.some((m) => m.isSynthetic && m.activation.skill === 'greet'));
		assert.equal(result(all).result, 'hello');
	},

	async schema() {
		const all = await run('count', { outputFormat: { type: 'json_schema',
			schema: { type: 'object', properties: { count: { type: 'number' } }, required: ['count'] } } });
		assert.deepEqual(result(all).structured_output, { count: 3 });
		const bad = await failing('count', { outputFormat: { type: 'json_schema',
			schema: { type: 'object', properties: { count: { type: 'number' } }, required: ['count'] } } }, /does not match/);
		assert.equal(result(bad).subtype, 'error_max_structured_output_retries');
	},

	async stream() {
		const input = channel(), ids = [];
		const q = sdk.query({ prompt: input, options: options() });
		const say = (i) => { ids.push(randomUUID()); input.say(message('message ' + i, { uuid: ids.at(-1) })); };
		say(1);
		const results = [];
		for await (const m of q) {
			if (m.type !== 'result') continue;
			results.push(m);
			if (results.length < 20) say(results.length + 1);
			else input.end();
		}
		assert.deepEqual(results.map((r) => r.result), Array.from({ length: 20 }, (_, i) => 'answer ' + (i + 1)));
		assert.deepEqual(results.flatMap((r) => r.user_message_uuids), ids);
		assert.ok(results[19].total_cost_usd > results[0].total_cost_usd);
	},

	// All 20 at once: each is answered, in however many turns.
	async burst() {
		const ids = Array.from({ length: 20 }, () => randomUUID());
		const all = await run((async function* () { for (const [i, id] of ids.entries()) yield message('message ' + (i + 1), { uuid: id }); })());
		assert.deepEqual(all.filter((m) => m.type === 'result').flatMap((r) => r.user_message_uuids), ids);
	},

	// Hosts that do unusual things.
	async odd() {
		const fails = async (more, want) => {
			await assert.rejects(run('go', more), want);
		};
		await fails({ cwd: '/does/not/exist' }, /./);
		await fails({ extraArgs: { disallowedTols: 'Bash' } }, /./);
		const nowhere = { ...process.env };
		delete nowhere.HOME;
		assert.equal(result(await run('go', { env: nowhere })).result, 'homeless');
		assert.equal(result(await run('go', { settingSources: [], additionalDirectories: ['/usr'], includePartialMessages: true,
			extraArgs: { sandbox: 'off', 'future-flag': 'value' }, effort: 'high', maxThinkingTokens: 2000,
			systemPrompt: { type: 'preset', preset: 'claude_code', append: 'APPENDED WORDS' } })).result, 'plain');
		// A callback that throws allows nothing.
		const thrown = await run('go', { canUseTool: async () => { throw new Error('my fault'); } });
		assert.ok(!existsSync('thrown'));
		assert.equal(result(thrown).permission_denials.length, 1);
		// Limits.
		assert.equal(result(await failing('go', { maxTurns: 1, allowedTools: ['Bash(true)'] }, /error result/)).subtype,
			'error_max_turns');
		assert.equal(result(await failing('go', { maxBudgetUsd: 0.0000001, allowedTools: ['Bash(true)'] }, /error result/)).subtype,
			'error_max_budget_usd');
		// The host goes away in the middle of a call.
		const abortController = new AbortController();
		const until = async (what) => { while (!what()) await new Promise((r) => setTimeout(r, 20)); };
		await assert.rejects(async () => {
			for await (const m of sdk.query({ prompt: 'go', options: options({ abortController,
				permissionMode: 'bypassPermissions', allowDangerouslySkipPermissions: true }) })) {
				if (m.type !== 'assistant') continue;
				await until(() => existsSync('pid') && readFileSync('pid', 'utf8').endsWith('\n'));
				abortController.abort();
			}
		}, /abort/i);
		await until(() => { // what ran has ended
			try { process.kill(+readFileSync('pid', 'utf8'), 0); return false; } catch { return true; }
		});
	},

	// Files are restored to their state before a message that the host names.
	async rewind() {
		const input = channel();
		const q = sdk.query({
			prompt: input, options: options({ allowedTools: ['Write'], enableFileCheckpointing: true, persistSession: true }),
		});
		const first = { ...message('write it'), uuid: randomUUID() };
		input.say(first);
		for await (const m of q) {
			if (m.type !== 'result') continue;
			assert.ok(existsSync('made.txt'));
			const dry = await q.rewindFiles(first.uuid, { dryRun: true });
			assert.deepEqual([dry.canRewind, dry.filesChanged, dry.deletions], [true, ['made.txt'], 1]);
			assert.ok((await q.rewindFiles(first.uuid)).canRewind);
			assert.ok(!existsSync('made.txt'));
			input.end();
		}
	},

	async control() {
		const input = channel();
		const q = sdk.query({ prompt: input, options: options({ permissionMode: 'default' }) });
		const info = await q.initializationResult();
		assert.ok(info.commands.length > 0 && info.agents.some((a) => a.name === 'Explore') && info.models.length > 0);
		await q.setPermissionMode('plan');
		await assert.rejects(q.setPermissionMode('bypassPermissions'), /when the program starts/);
		await q.setModel('opus');
		await q.setMaxThinkingTokens(2000);
		await q.setMaxThinkingTokens(null);
		await q.applyFlagSettings({ effortLevel: 'high' });
		await assert.rejects(q.applyFlagSettings({ permissions: { allow: ['Bash'] } }));
		await assert.rejects(q.reconnectMcpServer('none'), /no MCP server/);
		await assert.rejects(q.toggleMcpServer('none', false), /no MCP server/);
		assert.deepEqual((await q.reloadPlugins()).plugins, []);
		assert.deepEqual((await q.reloadOutputStyles()).available_output_styles, ['default']);
		assert.ok(await q.accountInfo());
		assert.ok((await q.supportedModels()).length > 0 && (await q.supportedAgents()).length > 0);
		assert.ok((await q.reinitialize()).commands.length > 0);
		await assert.rejects(q.seedReadState('x', 1), /not supported/);
		await q.updateSettings('userSettings', { effortLevel: 'low' });
		await assert.rejects(q.updateSettings('userSettings', { model: 'opus' }), /only effortLevel/);
		const usage = await q.getContextUsage();
		assert.ok(usage.totalTokens > 0 && usage.maxTokens > 0);
		assert.deepEqual(await q.mcpServerStatus(), []);
		assert.equal((await q.rewindFiles('x')).canRewind, false);
		assert.ok((await q.reloadSkills()).skills.length > 0);
		input.say(message('which model?'));
		for await (const m of q) {
			if (m.subtype === 'init') assert.equal(m.permissionMode, 'plan');
			if (m.type === 'assistant') assert.match(m.message.model, /opus/);
			if (m.type === 'result') input.end();
		}
	},
};

await scenarios[process.argv[2]]();
console.log('passed');
