// The vendors' SDKs ask the scripted server, whose addresses are in the environment, for one answer each and print what
// they understood, for TestPeerVendorsRead.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { GoogleGenAI } from "@google/genai";

const out = {};

const message = await new Anthropic({ maxRetries: 0 }).messages
  .stream({ model: "m", max_tokens: 100, messages: [{ role: "user", content: [{ type: "text", text: "hi" }] }] })
  .finalMessage();
const blocks = (type) => message.content.filter((b) => b.type === type);
out.anthropic = {
  thinking: blocks("thinking").map((b) => b.thinking).join(""),
  signed: blocks("thinking").every((b) => b.signature !== ""),
  text: blocks("text").map((b) => b.text).join(""),
  calls: blocks("tool_use").map((b) => [b.name, b.input]),
  stop: message.stop_reason,
};

// A conversation that the server keeps: the requests are for the scripted server to check.
const system = [{ type: "text", text: "Be brief." }];
const thread = new Anthropic({ maxRetries: 0 }).beta.messages.thread({ model: "m", max_tokens: 100, system });
out.thread = [];
for (const content of ["one", "two"]) {
  const reply = await thread.stream({ role: "user", content: [{ type: "text", text: content }] }).finalMessage();
  out.thread.push(reply.content.map((b) => b.text).join(""));
}

const openai = new OpenAI({ maxRetries: 0 });
const tool = { type: "function", function: { name: "read", parameters: { type: "object" } } };
const chat = await openai.chat.completions
  .stream({ model: "m", tools: [tool], messages: [{ role: "user", content: "hi" }] })
  .finalChatCompletion();
const choice = chat.choices[0];
out.chat = {
  text: choice.message.content,
  calls: choice.message.tool_calls.map((c) => [c.function.name, JSON.parse(c.function.arguments)]),
  stop: choice.finish_reason,
};

const response = await openai.responses
  .stream({ model: "m", store: false, input: [{ type: "message", role: "user", content: [{ type: "input_text", text: "hi" }] }] })
  .finalResponse();
const items = (type) => response.output.filter((i) => i.type === type);
out.responses = {
  thinking: items("reasoning").flatMap((i) => i.summary.map((s) => s.text)).join(""),
  signed: items("reasoning").every((i) => i.encrypted_content !== ""),
  text: response.output_text,
  calls: items("function_call").map((i) => [i.name, JSON.parse(i.arguments)]),
  stop: response.status,
};

const gemini = { thinking: "", signed: false, text: "", calls: [], stop: "" };
const google = new GoogleGenAI({
  apiKey: process.env.GEMINI_API_KEY, httpOptions: { baseUrl: process.env.GOOGLE_GEMINI_BASE_URL, apiVersion: "v1beta" },
});
for await (const chunk of await google.models.generateContentStream({ model: "m", contents: "hi" })) {
  for (const part of chunk.candidates?.[0]?.content?.parts ?? []) {
    if (part.functionCall) gemini.calls.push([part.functionCall.name, part.functionCall.args ?? {}]);
    else if (part.thought) gemini.thinking += part.text;
    else gemini.text += part.text ?? "";
    if (part.thoughtSignature) gemini.signed = true;
  }
  gemini.stop = chunk.candidates?.[0]?.finishReason ?? gemini.stop;
}
out.gemini = gemini;
console.log(JSON.stringify(out));
