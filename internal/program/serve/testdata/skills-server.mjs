// A server of skills made with @olaservo/ext-skills, for TestPeerExtSkills:
// node skills-server.mjs NODE_MODULES DIR [new]
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
const [modules, dir, era] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(createRequire(modules + "/").resolve(modules + "/" + name)).href);
const { McpServer } = await load("@modelcontextprotocol/server/dist/index.mjs");
const { StdioServerTransport, serveStdio } = await load("@modelcontextprotocol/server/dist/stdio.mjs");
const { discoverSkills, registerSkillResources } = await load("@olaservo/ext-skills/dist/server/index.js");
const make = () => {
  const server = new McpServer({ name: "ext-skills", version: "1" }, { capabilities: { resources: {} } });
  registerSkillResources(server, discoverSkills(dir), dir, { template: true, directoryRead: true });
  return server;
};
if (era === "new") serveStdio(make);
else await make().connect(new StdioServerTransport());
