// What the scenarios of the Agent SDK share. KNACK_NPM is the directory of the packages.
const modules = process.env.KNACK_NPM + '/node_modules/';
export const sdk = await import(modules + '@anthropic-ai/claude-agent-sdk/sdk.mjs');
export const { z } = await import(modules + 'zod/index.js');

export const message = (text, more) => ({
	type: 'user', message: { role: 'user', content: text }, parent_tool_use_id: null, ...more,
});
export const result = (all) => all.filter((m) => m.type === 'result').at(-1);
export const init = (all) => all.find((m) => m.subtype === 'init');

// A channel of messages that go to the program one by one.
export function channel(...first) {
	const waiting = [...first];
	let wake = () => {}, done = false;
	return {
		say: (m) => { waiting.push(m); wake(); },
		end: () => { done = true; wake(); },
		async *[Symbol.asyncIterator]() {
			for (;;) {
				while (waiting.length) yield waiting.shift();
				if (done) return;
				await new Promise((r) => { wake = r; });
			}
		},
	};
}

// collect returns the messages of a query; on is called with each.
export async function collect(q, on) {
	const all = [];
	for await (const m of q) {
		all.push(m);
		await on?.(m, q, all);
	}
	return all;
}
