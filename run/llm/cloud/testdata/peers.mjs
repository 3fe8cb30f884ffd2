// Sends requests with the vendors' own libraries, and prints what they make of the answers, a JSON object. The
// arguments are the address of a server and the requests as the vendors' own servers get them.
import { createRequire } from "node:module";
const [address, given] = process.argv.slice(2);
const require = createRequire(process.env.KNACK_NPM + "/x.js");
const { AnthropicBedrock } = require("@anthropic-ai/bedrock-sdk");
const { AnthropicVertex } = require("@anthropic-ai/vertex-sdk");
const { AzureOpenAI } = require("openai");
const { GoogleGenAI } = require("@google/genai");
const requests = JSON.parse(given);
const authClient = { getRequestHeaders: async () => new Headers({ authorization: "Bearer token" }) };
const beta = { headers: { "anthropic-beta": "one-2026-01-01,two-2026-01-01" } };
const once = { maxRetries: 0 };
async function claude(client, model, path) {
	let text = "";
	const body = { ...requests.messages, model };
	try {
		for await (const e of await client.messages.create(body, beta)) {
			text += e.delta?.text ?? "";
		}
	} catch (e) {
		return text + " error " + (e.error?.error?.message ?? e.error?.message ?? e.message);
	}
	return text;
}
const keys = { awsAccessKey: "AKID", awsSecretKey: "secret", awsSessionToken: "session", awsRegion: "eu-west-1", ...once };
const bedrock = (path, more = keys) => new AnthropicBedrock({ baseURL: address + "/" + path, ...more });
const azure = (path) => new AzureOpenAI({ endpoint: address + "/" + path, apiKey: "key", apiVersion: "2025-04-01-preview", ...once });
const out = {};
out.signed = await claude(bedrock("signed"), "us.anthropic.claude-sonnet-4-5-20250929-v1:0");
out.arn = await claude(bedrock("arn"), "arn:aws:bedrock:eu-west-1:1:application-inference-profile/a");
out.bearer = await claude(bedrock("bearer", { apiKey: "bearer", awsRegion: "eu-west-1", ...once }), "global.anthropic.claude-opus-5-5");
out.throttled = await claude(bedrock("throttled"), "global.anthropic.claude-opus-5-5");
out.vertex = await claude(new AnthropicVertex({ baseURL: address + "/vertex/v1", region: "us-east5", projectId: "proj",
	authClient, ...once }), "claude-haiku-4-5@20251001");
const genai = new GoogleGenAI({ vertexai: true, project: "proj", location: "us-east5",
	httpOptions: { baseUrl: address + "/gemini" }, googleAuthOptions: { authClient } });
genai.apiClient.clientOptions.auth = { addAuthHeaders: async (h) => h.set("authorization", "Bearer token") };
out.gemini = "";
for await (const c of await genai.models.generateContentStream({ model: "gemini-3.8-flash", contents: requests.gemini.contents })) {
	out.gemini += c.text ?? "";
}
out.chat = "";
for await (const c of await azure("chat").chat.completions.create({ ...requests.chat, model: "my-chat" })) {
	out.chat += c.choices[0]?.delta?.content ?? "";
}
out.responses = "";
for await (const e of await azure("responses").responses.create({ ...requests.responses, model: "my-model" })) {
	out.responses += e.type === "response.output_text.delta" ? e.delta : "";
}
console.log(JSON.stringify(out));
