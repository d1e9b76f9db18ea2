// The tools for the Vercel AI SDK, called by the AI SDK. The model is a script.
import { execFileSync } from "node:child_process";
import { generateText, stepCountIs } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { expect, test } from "vitest";
import { type SandboxToolsOptions, sandboxTools } from "../src/ai.js";
import type { Sandbox, Session } from "../src/index.js";
import { program } from "./server.js";
import { connect, unique, until } from "./support.js";

type Calls = [name: string, input: object | ((results: unknown[]) => object)][];

const usage = {
  inputTokens: { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 0, text: 0, reasoning: 0 },
};

/** Lets a model make calls, one after the other, and returns what it is told. An input can depend on earlier results. */
async function results(
  target: Sandbox | Session,
  calls: Calls,
  options: SandboxToolsOptions & { abortSignal?: AbortSignal } = {},
): Promise<unknown[]> {
  const { abortSignal, ...rest } = options;
  const seen: unknown[] = [];
  const model = new MockLanguageModelV3({
    doGenerate: async ({ prompt }) => {
      const last = prompt.at(-1);
      if (last?.role === "tool")
        for (const part of last.content)
          if (part.type === "tool-result") seen.push((part.output as { value: unknown }).value);
      const [toolName, input] = calls[seen.length] ?? [];
      if (!toolName) {
        const content = [{ type: "text" as const, text: "done" }];
        return { content, finishReason: { unified: "stop", raw: undefined }, usage, warnings: [] };
      }
      const text = JSON.stringify(typeof input === "function" ? input(seen) : input);
      const call = { type: "tool-call" as const, toolCallId: String(seen.length), toolName, input: text };
      return { content: [call], finishReason: { unified: "tool-calls", raw: undefined }, usage, warnings: [] };
    },
  });
  const stopWhen = stepCountIs(calls.length + 1);
  const signal = abortSignal ? { abortSignal } : {};
  const { text } = await generateText({ model, tools: sandboxTools(target, rest), stopWhen, prompt: "go", ...signal });
  expect(text).toBe("done");
  return seen;
}

test("a model runs commands in a session, and sees their end", async () => {
  await using session = await connect().createSession();
  const seen = await results(session, [
    ["exec", { command: "cd /usr; NAME=value; exit 3" }],
    ["exec", { command: "echo $NAME in $PWD; echo note >&2" }],
    ["exec", { command: "printf", args: ["%s|", "a b", "$HOME"], cwd: "/" }],
    ["exec", { command: "cat; sleep 600", stdin: "text", timeoutMs: 300 }],
    ["exec", {}],
  ]);
  expect(seen).toMatchObject([
    { exitCode: 3 },
    { exitCode: 0, stdout: "value in /usr\n", stderr: "note\n", timedOut: false },
    { stdout: "a b|$HOME|" },
    { exitCode: 124, stdout: "text", timedOut: true },
    expect.stringContaining("VALIDATION_FAILED"),
  ]);
});

test("long output is cut, and can be read in parts", async () => {
  const sandbox = connect();
  const [cut] = await results(sandbox, [["exec", { command: "seq 20000 | sed s/$/é/" }]], { maxOutputBytes: 2_001 });
  const { stdout, executionId } = cut as { stdout: string; executionId: string };
  expect(stdout).toMatch(
    /^1é\n2é\n[\s\S]*\n\[… \d+ bytes omitted; process_output with id "x-\w+" reads everything …\]\n[\s\S]*\n20000é\n$/,
  );
  expect(stdout).not.toContain("\ufffd");
  type Part = { output: string; cursor: string; more: boolean };
  let [text, cursor, more] = ["", undefined as string | undefined, true];
  while (more) {
    // In the middle of events, which have up to 64 KiB, and of characters.
    const call: Calls = [["process_output", { id: executionId, cursor }]];
    const [part] = (await results(sandbox, call, { maxOutputBytes: 10_001 })) as [Part];
    expect(Buffer.byteLength(part.output)).toBeLessThanOrEqual(10_001);
    text += part.output;
    ({ cursor, more } = part);
  }
  expect(text).toBe(Array.from({ length: 20_000 }, (_, number) => `${number + 1}é\n`).join(""));
});

test("a character whose bytes are written one after the other", async () => {
  const sandbox = connect();
  const go = `go-${unique()}`;
  // The three bytes of "€".
  const command = `printf 'a\\342\\202'; until [ -e ${go} ]; do sleep 0.05; done; rm ${go}; printf '\\254b'`;
  await using process = await sandbox.startProcess(command);
  for await (const event of process.streamLogs({ encoding: "bytes" })) if (event.type === "stdout") break;
  type Part = { output: string; cursor: string };
  const [first] = (await results(sandbox, [["process_output", { id: process.id }]])) as [Part];
  expect(first.output).toBe("a");
  await sandbox.exec(`touch ${go}`);
  await process.waitForExit();
  const [rest] = await results(sandbox, [["process_output", { id: process.id, cursor: first.cursor }]]);
  expect(rest).toMatchObject({ output: "€b", running: false });
});

test("a long line is cut, and can be read in parts", async () => {
  const sandbox = connect();
  const path = `ai-${unique()}`;
  const content = `first\n${"é".repeat(5_000)}\nlast\n`;
  await sandbox.writeFile(path, content);
  const maxOutputBytes = 1_001;
  const read = async (range: object) =>
    (await results(sandbox, [["file_read", { path, ...range }]], { maxOutputBytes }))[0] as string;
  expect(await read({})).toBe("first\n[… continue with startLine 2 …]");
  let [whole, range] = ["", { startLine: 2 } as object | undefined];
  while (range) {
    const result = await read(range);
    const note = /(?:\n\[… cut in line 2; continue with cursor "(.*)"|\[… continue with startLine (\d)) …\]$/.exec(
      result,
    );
    const part = result.slice(0, note?.index);
    expect(Buffer.byteLength(part)).toBeLessThanOrEqual(maxOutputBytes);
    whole += part;
    if (note?.[1]) range = { cursor: note[1] };
    else range = note ? { startLine: Number(note[2]) } : undefined;
  }
  expect(`first\n${whole}`).toBe(content);
  expect(await read({ cursor: "x" })).toContain("invalid cursor");
  const [found] = await results(sandbox, [["search", { pattern: "é", path }]], { maxOutputBytes });
  expect(Buffer.byteLength(found as string)).toBeLessThan(1_200);
  await sandbox.deleteFile(path);
});

test("a model starts a process, waits for it, and ends it", async () => {
  const id = (seen: unknown[]) => (seen[0] as { id: string }).id;
  const cursor = (seen: unknown[]) => (seen.at(-1) as { cursor: string }).cursor;
  const command = "echo starting; sleep 0.2; echo ready; sleep 600";
  const seen = await results(connect(), [
    ["process_start", { command }],
    ["process_output", (seen) => ({ id: id(seen), waitMs: 60_000, until: "ready" })],
    ["process_output", (seen) => ({ id: id(seen), waitMs: 50, cursor: cursor(seen) })],
    ["process_kill", (seen) => ({ id: id(seen) })],
    ["process_output", (seen) => ({ id: id(seen) })],
    ["process_kill", { id: `none-${unique()}` }],
  ]);
  expect(seen.slice(1)).toMatchObject([
    { output: "starting\nready\n", running: true, matched: true },
    { output: "", running: true },
    { ended: expect.any(Number) },
    { output: "starting\nready\n", running: false, exitCode: 143 },
    expect.stringMatching(/PROCESS_NOT_FOUND: .*\nWhat to do: /),
  ]);
});

test("a model reads, writes, edits, lists and searches files", async () => {
  const folder = `ai-${unique()}`;
  const path = `${folder}/a.txt`;
  const edit = (oldText: string, more = {}) => ({ path, oldText, newText: "$&", ...more });
  const sandbox = connect();
  await sandbox.writeFile(`${folder}/binary`, new Uint8Array([0, 255]));
  const seen = await results(
    sandbox,
    [
      ["file_write", { path, content: "one\ntwo\ntwo\n" }],
      ["file_write", { path, content: "four\n", append: true }],
      ["file_edit", edit("one")],
      ["file_edit", edit("two")],
      ["file_edit", edit("two", { replaceAll: true })],
      ["file_edit", edit("none")],
      ["file_read", { path }],
      ["file_read", { path, startLine: 2, endLine: 2 }],
      ["file_list", { path: folder }],
      ["search", { pattern: "none", path: folder }],
      ["file_read", { path: `${folder}/binary` }],
      ["file_read", { path: `${folder}/none` }],
    ],
    { maxOutputBytes: 10 },
  );
  expect(seen).toMatchObject([
    { bytes: 12 },
    { bytes: 5 },
    { replacements: 1 },
    expect.stringContaining("2 times"),
    { replacements: 2 },
    expect.stringContaining("does not occur"),
    "$&\n$&\n$&\n[… continue with startLine 4 …]",
    "$&\n",
    "a.txt  14 \n[… more entries: give a limit below 200 …]",
    "nothing found",
    expect.stringContaining("not a text file"),
    expect.stringContaining("FILE_NOT_FOUND"),
  ]);
  const found = await results(sandbox, [
    ["file_list", { path: folder }],
    ["search", { pattern: "fo.r", regex: true, path: folder }],
  ]);
  expect(found).toEqual(["a.txt  14 bytes\nbinary  2 bytes\n", expect.stringMatching(/a\.txt:4: four\n$/)]);
  await sandbox.deleteFile(folder, { recursive: true });
});

test("aborting the call of the model ends its command", async () => {
  const sandbox = connect();
  const mark = `ai-${unique()}`;
  const controller = new AbortController();
  const abortSignal = controller.signal;
  const running = results(sandbox, [["exec", { command: `: ${mark}; sleep 600` }]], { abortSignal }).catch(
    (error) => error,
  );
  const find = async () => (await sandbox.listProcesses({ all: true })).find(({ command }) => command.includes(mark));
  await until(async () => !!(await find()), "the command runs");
  controller.abort();
  await running;
  await until(async () => (await find())?.status === "killed", "the command has ended");
});

test("the tools have names and arguments of those of `sandcrab mcp`", () => {
  const catalog = JSON.parse(execFileSync(program, ["tools", "--format", "json"], { encoding: "utf8" }));
  type Definition = {
    name: string;
    inputSchema: { properties: Record<string, { type: string }>; required?: string[] };
  };
  const known = new Map((catalog as Definition[]).map((tool) => [tool.name, tool.inputSchema]));
  for (const [name, { inputSchema }] of Object.entries(sandboxTools(connect()))) {
    const { properties, required } = (inputSchema as unknown as { jsonSchema: Definition["inputSchema"] }).jsonSchema;
    expect(known.get(name), name).toBeDefined();
    for (const [argument, { type }] of Object.entries(properties)) {
      expect(known.get(name)?.properties[argument]?.type, `${name}.${argument}`).toBe(type);
    }
    expect(required).toEqual(known.get(name)?.required ?? []);
  }
});
