// The command line of the MCP inspector.
// Usage: node inspector.mjs SANDCRAB URL TOKEN

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { run } from "./cases.mjs";

const [program, url, token] = process.argv.slice(2);
const manifest = createRequire(import.meta.url).resolve("@modelcontextprotocol/inspector/package.json");
const inspector = join(dirname(manifest), "clients/launcher/build/index.js");

function inspect(target, args) {
  return new Promise((resolve) => {
    execFile(process.execPath, [inspector, "--cli", ...target, ...args], { timeout: 60_000 }, (error, stdout, stderr) => {
      resolve({ code: error?.code ?? 0, stdout, stderr });
    });
  });
}

const targets = {
  stdio: ["-e", `SANDCRAB_URL=${url}`, "-e", `SANDCRAB_TOKEN=${token}`, program, "mcp"],
  http: [`${url}/mcp`, "--transport", "http", "--header", `Authorization: Bearer ${token}`],
};
const cases = Object.entries(targets).flatMap(([name, target]) => [
  [`lists tools over ${name}`, async () => {
    const { code, stdout, stderr } = await inspect(target, ["--method", "tools/list"]);
    assert.equal(code, 0, stderr);
    assert.ok(JSON.parse(stdout).tools.some((tool) => tool.name === "exec"));
  }],
  [`runs a command over ${name}`, async () => {
    const args = ["--method", "tools/call", "--tool-name", "exec", "--tool-arg", "command=echo inspected; exit 7"];
    const { code, stdout, stderr } = await inspect(target, args);
    assert.equal(code, 0, stderr);
    const { stdout: output, exitCode } = JSON.parse(stdout).structuredContent;
    assert.deepEqual([output, exitCode], ["inspected\n", 7]);
  }],
  [`shows an error of a tool over ${name}`, async () => {
    const args = ["--method", "tools/call", "--tool-name", "exec", "--tool-arg", "comand=x"];
    const { code, stdout } = await inspect(target, args);
    assert.notEqual(code, 0);
    assert.match(stdout, /VALIDATION_FAILED/);
  }],
  [`lists templates over ${name}`, async () => {
    const { code, stdout, stderr } = await inspect(target, ["--method", "resources/templates/list"]);
    assert.equal(code, 0, stderr);
    assert.ok(JSON.parse(stdout).resourceTemplates.some((template) => template.uriTemplate === "sandcrab://output/{id}"));
  }],
]);
process.exit((await run("inspector", cases)) ? 1 : 0);
