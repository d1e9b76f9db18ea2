// The TypeScript SDK of MCP, over standard input and output and over HTTP.
// Usage: node client.mjs SANDCRAB URL TOKEN FOLDER [--bench]
//   --bench   only measures, and fails if `exec` takes more than twice as long as over HTTP

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { DEADLINE_MS, endless, isGone, pidFrom, run } from "./cases.mjs";

const [program, url, token, folder, mode] = process.argv.slice(2);
const MOST_TIMES = 2;

const transports = {
  stdio: (address = url) =>
    new StdioClientTransport({
      command: program,
      args: ["mcp"],
      env: { PATH: process.env.PATH, SANDCRAB_URL: address, SANDCRAB_TOKEN: token },
    }),
  http: () =>
    new StreamableHTTPClientTransport(new URL(`${url}/mcp`), {
      requestInit: { headers: { Authorization: `Bearer ${token}` } },
    }),
};

async function connect(transport) {
  const client = new Client({ name: "suite", version: "1.0.0" });
  await client.connect(transport);
  return client;
}

function cases(name, client) {
  const options = { timeout: DEADLINE_MS };
  const call = (tool, args, more = {}) => client.callTool({ name: tool, arguments: args }, undefined, { ...options, ...more });
  const fields = async (tool, args, more) => {
    const result = await call(tool, args, more);
    assert.ok(!result.isError, JSON.stringify(result));
    return result.structuredContent;
  };
  const session = `ts-${name}`;
  return [
    ["lists tools", async () => {
      const { tools } = await client.listTools();
      const exec = tools.find((tool) => tool.name === "exec");
      assert.deepEqual(exec.inputSchema.required, ["command"]);
      assert.equal(exec.annotations.destructiveHint, true);
      assert.equal(tools.find((tool) => tool.name === "file_read").annotations.readOnlyHint, true);
    }],
    ["runs a command", async () => {
      const result = await call("exec", { command: "echo out; echo err >&2; exit 3" });
      assert.equal(result.isError, false);
      assert.match(result.content[0].text, /^out\nerr\n\[exit code 3, /);
      const { stdout, stderr, exitCode } = result.structuredContent;
      assert.deepEqual({ stdout, stderr, exitCode }, { stdout: "out\n", stderr: "err\n", exitCode: 3 });
    }],
    ["continues cut output at its cursor", async () => {
      const whole = Array.from({ length: 2000 }, (_, i) => `${i + 1} é€\n`).join("");
      const cut = await fields("exec", { command: 'for i in $(seq 2000); do echo "$i é€"; done', maxOutputBytes: 500 });
      let cursor = cut.omitted.cursor;
      let seen = Buffer.from(whole).subarray(0, Number(cursor)).toString();
      for (let more = true; more; ) {
        const part = await fields("process_output", { id: cut.executionId, cursor, maxOutputBytes: 9000 });
        seen += part.stdout;
        ({ cursor, more } = part);
      }
      assert.equal(seen, whole);
    }],
    ["reports progress", async () => {
      // The command ends when its output was reported.
      const file = join(folder, `${session}.reported`);
      const messages = [];
      const onprogress = (progress) => {
        messages.push(progress);
        if (progress.message === "first") writeFileSync(file, "");
      };
      await fields("exec", { command: `echo first; until [ -e ${file} ]; do sleep 0.05; done` }, { onprogress });
      assert.match(messages[0].message, /^started execution x-/);
      messages.reduce((before, now) => (assert.ok(now.progress > before.progress), now));
    }],
    ["ends a cancelled command", async () => {
      const file = join(folder, `${session}.pid`);
      const abort = new AbortController();
      const running = call("exec", { command: endless(file) }, { signal: abort.signal });
      const pid = await pidFrom(file);
      abort.abort("test");
      await assert.rejects(running);
      await isGone(pid);
      assert.equal((await fields("exec", { command: "echo next" })).stdout, "next\n");
    }],
    ["keeps the state of a session", async () => {
      await fields("session_create", { id: session });
      await fields("exec", { command: "cd /; X=kept", sessionId: session });
      assert.equal((await fields("exec", { command: "echo $X $PWD", sessionId: session })).stdout, "kept /\n");
      await fields("session_control", { id: session, action: "delete" });
    }],
    ["writes, edits, finds and reads a file", async () => {
      const path = join(folder, `${session}.txt`);
      await fields("file_write", { path, content: "one\ntwo é\nthree\n" });
      await fields("file_edit", { path, oldText: "two", newText: "2" });
      assert.equal((await fields("search", { path, pattern: "2 é" })).matches[0].line, 2);
      assert.equal((await fields("file_read", { path, startLine: 2 })).content, "2 é\nthree\n");
      const { contents } = await client.readResource({ uri: `sandcrab://file${path}` });
      assert.equal(contents[0].text, "one\n2 é\nthree\n");
      await fields("file_delete", { path });
    }],
    ["drives a program in a terminal", async () => {
      const id = `t-${session}`;
      await fields("terminal_open", { id, command: "bash", args: ["--norc", "--noprofile", "-i"] });
      await fields("terminal_send", { id, text: "echo $((6 * 7)) is the answer", keys: ["enter"] });
      const screen = await fields("terminal_wait", { id, text: "42 is the answer", timeoutMs: DEADLINE_MS });
      assert.match(screen.text, /^42 is the answer$/m);
      await fields("terminal_close", { id });
    }],
    ["awaits and ends a process", async () => {
      const { id } = await fields("process_start", { command: "echo ready; exec sleep 300" });
      const waited = await fields("process_output", { id, waitMs: DEADLINE_MS, until: "ready" });
      assert.equal(waited.matched, true);
      await fields("process_kill", { id });
      const { contents } = await client.readResource({ uri: `sandcrab://output/${id}` });
      assert.equal(contents[0].text, "ready\n");
    }],
    ["exposes a port", async () => {
      const port = name === "stdio" ? 8101 : 8102;
      assert.match((await fields("port_expose", { port })).url, new RegExp(`^http://${port}-`));
      await fields("port_unexpose", { port });
    }],
    ["distinguishes errors of tools and of the protocol", async () => {
      const wrong = await call("exec", { comand: "x" });
      assert.ok(wrong.isError && wrong.structuredContent.error.code === "VALIDATION_FAILED");
      assert.match(wrong.content[0].text, /`comand`.*\nWhat to do: /);
      assert.equal((await call("exec", { command: "x", sessionId: "none" })).structuredContent.error.code, "SESSION_NOT_FOUND");
      await assert.rejects(call("none", {}), /-32602/);
    }],
  ];
}

/** Latency of `exec` beside that of the HTTP API, taken in turns. Returns the worst ratio. */
async function latency(clients) {
  let worst = 0;
  const http = () =>
    fetch(`${url}/api/execute`, {
      method: "POST",
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      body: '{"command":"true"}',
    }).then((response) => response.json());
  const exec = (client) => () => client.callTool({ name: "exec", arguments: { command: "true" } });
  const kinds = [["HTTP", http], ...Object.entries(clients).map(([name, client]) => [`MCP over ${name}`, exec(client)])];
  const times = kinds.map(() => []);
  for (let turn = 0; turn < 120; turn += 1) {
    for (const [index, [, call]] of kinds.entries()) {
      const begun = performance.now();
      await call();
      // The first calls connect, and compile the code of the clients.
      if (turn >= 20) times[index].push(performance.now() - begun);
    }
  }
  const medians = times.map((all) => all.sort((a, b) => a - b)[all.length >> 1]);
  for (const [index, [name]] of kinds.entries()) {
    worst = Math.max(worst, medians[index] / medians[0]);
    console.log(`exec \`true\`, ${name}: p50 ${medians[index].toFixed(2)} ms, ${(medians[index] / medians[0]).toFixed(2)} × HTTP`);
  }
  return worst;
}

const clients = { stdio: await connect(transports.stdio()), http: await connect(transports.http()) };
if (mode === "--bench") {
  const worst = await latency(clients);
  await Promise.all(Object.values(clients).map((client) => client.close()));
  process.exit(worst > MOST_TIMES ? 1 : 0);
}
let failed = 0;
for (const [name, client] of Object.entries(clients)) failed += await run(`TypeScript, ${name}`, cases(name, client));
await latency(clients);
failed += await run("TypeScript", [
  ["says what to do without a server", async () => {
    const client = await connect(transports.stdio("http://127.0.0.1:1"));
    const result = await client.callTool({ name: "exec", arguments: { command: "true" } });
    assert.equal(result.structuredContent.error.code, "UNREACHABLE");
    assert.match(result.content[0].text, /What to do: start a server with `sandcrab serve`/);
    await client.close();
  }],
  ["needs the token over HTTP", async () => {
    const transport = new StreamableHTTPClientTransport(new URL(`${url}/mcp`));
    await assert.rejects(connect(transport), /401|[Uu]nauthorized/);
  }],
  ["leaves no command behind when it disconnects", async () => {
    const file = join(folder, "left.pid");
    const client = await connect(transports.stdio());
    const running = client.callTool({ name: "exec", arguments: { command: endless(file) } });
    const pid = await pidFrom(file);
    await Promise.all([client.close(), assert.rejects(running)]);
    await isGone(pid);
  }],
]);
await Promise.all(Object.values(clients).map((client) => client.close()));
process.exit(failed ? 1 : 0);
