// The examples of the texts that this SDK follows. Those of `seeds/deep-dive.md` run unchanged, after an import, a connection and
// the variables that they expect. The programs that they name (npm, node, python, …) are small scripts in a folder of PATH.
import { execFile, spawnSync } from "node:child_process";
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { transform } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ExecResult, Process } from "../src/index.js";
import { program, TestServer } from "./server.js";
import { unique, until } from "./support.js";

const root = fileURLToPath(new URL("../", import.meta.url));
const execute = promisify(execFile);
const isolated = join(root, "test/seeds/isolated.sh");

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.remove());

/** The blocks of a file, by the heading before them and their language. */
function blocks(file: string): Map<string, string> {
  const text = readFileSync(join(root, "test/seeds", file), "utf8");
  const found = new Map<string, string>();
  let section = "";
  for (const [, heading, language, code] of text.matchAll(/^#+ (.*)$|^```(\w+)\n([\s\S]*?)^```$/gm)) {
    if (heading) section = heading;
    else found.set(`${section}: ${language}`, code as string);
  }
  return found;
}

const examples = blocks("deep-dive.md");

interface Example {
  heading: string;
  /** Scripts that the commands find first. */
  programs: Record<string, string>;
  /** Options of the connection. */
  connection?: string;
  /** The variables that the example expects. */
  before?: string;
  /** Shows what the example has done. */
  after: string;
  prints: string;
}

const newSession = "const session = await sandbox.createSession();";
const shows = (path: string) => `console.log((await sandbox.exec("cat ${path}")).stdout.trimEnd());`;
const showsProcesses = (text: string) =>
  `console.log("left:", (await sandbox.exec("pgrep -fc '${text.slice(0, -1)}[${text.slice(-1)}]'")).stdout.trimEnd());`;

const table: Example[] = [
  {
    heading: "Section 1",
    programs: {
      pip: "echo installed $2",
      python: "echo trained; echo epoch >&2",
      npm: "exec python3 -m http.server 3000 --bind 127.0.0.1",
      node: 'echo "key $API_KEY in $PWD" > /app/seen',
    },
    after: `console.log(await server.getStatus()); ${shows("/app/seen")}`,
    prints: "installed pandas\ntrained\n 0\nkilled\nkey secret in /app\n",
  },
  {
    heading: "Section 2, problem 1",
    programs: { node: 'echo "key $API_KEY in $PWD" > /app/seen' },
    before: newSession,
    after: shows("/app/seen"),
    prints: "key x in /app\n",
  },
  {
    heading: "Section 2, problem 2",
    programs: {},
    before: `const result = await sandbox.exec('echo "Hello world"; echo "Warning: deprecated API" >&2');`,
    after: "console.log([result.stdout, result.stderr]);",
    prints: "[ 'Hello world\\n', 'Warning: deprecated API\\n' ]\n",
  },
  {
    heading: "Section 2, problem 4",
    programs: { python: "echo started >> /app/processes; exec sleep 611" },
    // "Later" is when the script has started its three processes.
    connection: `{ fetch: async (url, init) => {
  while (init?.method === "DELETE" && !/(started\\n){3}/.test(await readFile("/app/processes", "utf8").catch(() => "")))
    await new Promise((resolve) => setTimeout(resolve, 20));
  return fetch(url, init);
} }`,
    after: `${shows("/app/processes")} ${showsProcesses("sleep 611")}`,
    prints: "started\nstarted\nstarted\nleft: 0\n",
  },
  {
    heading: "Section 2, problem 5",
    programs: { npm: 'sleep 0.5; echo "$1 in $PWD" >> /app/seen' },
    before: newSession,
    after: `await session.exec("true"); ${shows("/app/seen")}`,
    prints: "install in /app\nrun in /app\n",
  },
  {
    heading: "Section 5",
    // One write is one event; the printf of bash makes one for each line.
    programs: { npm: "env printf 'one\\ntwo\\n'; setsid sleep 612 > /dev/null 2>&1 &" },
    after: `console.log(await server.getStatus()); ${showsProcesses("sleep 612")}`,
    // The first and the last event have no output.
    prints: "undefined\none\ntwo\n\n\ncompleted\nleft: 0\n",
  },
];

/** A folder with the package, as `npm install` would make it. */
function project(): string {
  const folder = mkdtempSync(join(tmpdir(), "sandcrab-seeds-"));
  for (const name of ["bin", "workspace", "node_modules"]) mkdirSync(join(folder, name));
  symlinkSync(root, join(folder, "node_modules/sandcrab"));
  return folder;
}

/** Checks the types of a TypeScript file. */
async function checkTypes(folder: string, file: string): Promise<void> {
  const types = ["--types", "node", "--typeRoots", join(root, "node_modules/@types")];
  const options = ["--strict", "--noEmit", "--module", "nodenext", "--target", "es2022", "--skipLibCheck", ...types];
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const result = await execute(process.execPath, [tsc, ...options, file], { cwd: folder }).catch((error) => error);
  expect(result.stdout).toBe("");
}

test.each(table)("deep dive: $heading", async ({ heading, programs, connection = "", before = "", after, prints }) => {
  if (spawnSync(isolated, ["--check"]).status !== 0) {
    const note = "namespaces cannot be created\tthe examples of the deep dive\n";
    if (process.env.SANDCRAB_NOT_RUN) appendFileSync(process.env.SANDCRAB_NOT_RUN, note);
    return;
  }
  const folder = project();
  try {
    const script = examples.get(`${heading}: bash`);
    if (script) writeFileSync(join(folder, "workspace/start-server.sh"), script, { mode: 0o755 });
    for (const [name, text] of Object.entries(programs)) {
      writeFileSync(join(folder, "bin", name), `#!/bin/bash\n${text}\n`, { mode: 0o755 });
    }
    const imports = 'import { readFile } from "node:fs/promises";\nimport { getSandbox } from "sandcrab";';
    const opening = `${imports}\nvoid readFile;\nconst sandbox = getSandbox(${connection});\n${before}`;
    const code = `${opening}\n${examples.get(`${heading}: typescript`)}\n${after}\n`;
    writeFileSync(join(folder, "example.mts"), code);
    await checkTypes(folder, "example.mts");
    writeFileSync(join(folder, "example.mjs"), (await transform(code, { loader: "ts" })).code);
    const { stdout } = await execute(isolated, [folder, program, process.execPath, join(folder, "example.mjs")], {
      timeout: 120_000,
    });
    expect(stdout).toBe(prints);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("redesign plan: calls have the types of the final API signature", async () => {
  const folder = project();
  try {
    const signature = blocks("redesign-plan.md").get("Final API signature of the redesign plan: typescript") as string;
    const declared = signature.replace("class Sandbox", "declare class Planned").replace(/async \*?/g, "");
    const names = "type ExecEvent, type ExecResult, type LogEvent, type Process, type ProcessOptions";
    const code = `import { getSandbox, ${names} } from "sandcrab";
${declared}
const sandbox = getSandbox();
const planned: Planned = {
  exec: (command, args, options) => sandbox.exec(command, args, options),
  startProcess: (command, args, options) => sandbox.startProcess(command, args, options),
  execStream: (command, args) => sandbox.execStream(command, args),
  streamProcessLogs: (processId) => sandbox.streamProcessLogs(processId),
  listProcesses: () => sandbox.listProcesses(),
  getProcess: (id) => sandbox.getProcess(id),
  killProcess: async (id) => void (await sandbox.killProcess(id)),
};
void planned;
`;
    writeFileSync(join(folder, "signature.mts"), code);
    await checkTypes(folder, "signature.mts");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("redesign plan, final API signature", async () => {
  const sandbox = server.sandbox();
  // Enhanced exec - always returns result, streaming via callbacks
  const output: string[] = [];
  const result: ExecResult = await sandbox.exec("sh", ["-c", "echo $A; pwd; echo problem >&2"], {
    stream: true,
    onOutput: (stream: "stdout" | "stderr", data: string) => void output.push(`${stream}: ${data}`),
    signal: new AbortController().signal,
    timeout: 60_000,
    env: { A: "1" },
    cwd: "/",
  });
  expect(result).toMatchObject({ success: true, exitCode: 0, stdout: "1\n/\n", stderr: "problem\n", command: "sh" });
  expect(result.args).toEqual(["-c", "echo $A; pwd; echo problem >&2"]);
  expect(result.duration).toBeGreaterThan(0);
  expect(Number.isNaN(Date.parse(result.timestamp))).toBe(false);
  expect(output.join("")).toContain("stderr: problem\n");

  // Background process management
  const exits: (number | null)[] = [];
  const background: Process = await sandbox.startProcess("sh", ["-c", "echo $$; exec sleep 600"], {
    processId: `plan-${unique()}`,
    autoCleanup: true,
    onExit: (code) => exits.push(code),
  });
  expect(background.startTime).toBeInstanceOf(Date);
  expect(background.args).toEqual(["-c", "echo $$; exec sleep 600"]);
  expect(background.status).toBe("running");

  // Modern streaming
  const types: string[] = [];
  for await (const event of sandbox.execStream("echo", ["hi"])) types.push(event.type);
  expect(types).toEqual(["start", "stdout", "complete"]);
  for await (const event of sandbox.streamProcessLogs(background.id)) {
    if (event.type !== "stdout") continue;
    expect(event.data).toBe(`${background.pid}\n`);
    break;
  }

  // Process management
  expect((await sandbox.listProcesses()).map(({ id }) => id)).toContain(background.id);
  const found = await sandbox.getProcess(background.id);
  expect(found?.pid).toBe(background.pid);
  expect(await found?.getLogs()).toMatchObject({ stdout: `${background.pid}\n`, stderr: "" });
  await sandbox.killProcess(background.id);
  await until(() => exits.length === 1, "onExit was called");
  expect(await sandbox.getProcess("unknown")).toBeNull();
  expect(await sandbox.cleanupCompletedProcesses()).toBeGreaterThanOrEqual(0);
});

test("redesign plan, services", async () => {
  const sandbox = server.sandbox();
  const port = 20_000 + Math.floor(Math.random() * 10_000);
  const serve = `echo listening; exec python3 -m http.server ${port} --bind 127.0.0.1`;
  let output = "";
  const service = await sandbox.startService(serve, {
    onOutput: (_stream, data) => {
      output += data;
    },
    healthCheck: { port, path: "/", interval: 100 },
    waitForReady: true,
  });
  expect((await service.getHealth()).status).toBe("healthy");
  for await (const event of service.streamOutput()) if (event.type === "stdout") break;
  await until(() => output.includes("listening"), "onOutput was called");
  await expect(service.waitForExit(20)).rejects.toMatchObject({ code: "PROCESS_READY_TIMEOUT" });
  await service.delete();
});

test("pull request, four surfaces", async () => {
  const sandbox = server.sandbox();
  // sandbox.exec() runs one stateless shell command. No state persists.
  await sandbox.exec("cd / && export X=1");
  expect((await sandbox.exec('echo "[$X]"')).stdout).toBe("[]\n");

  // sandbox.startProcess() owns process lifecycle: streaming, wait, kill, timeout, and process-tree cleanup.
  const process = await sandbox.startProcess("echo started; sleep 600 & wait", { timeout: 500 });
  expect((await process.waitForExit()).end?.reason).toBe("timeout");

  // sandbox.createSession() is the only way to get a persistent shell; session.startProcess() launches a process from a
  // snapshot of session state without writing mutations back.
  const session = await sandbox.createSession();
  await session.exec("cd /usr; export X=1");
  const child = await session.startProcess("echo $X $PWD; cd /; export X=2");
  await child.waitForExit();
  expect((await child.getLogs()).stdout).toBe("1 /usr\n");
  expect((await session.exec("echo $X $PWD")).stdout).toBe("1 /usr\n");
  expect((await sandbox.listProcesses({ sessionId: session.id })).map(({ id }) => id)).toEqual([child.id]);
  expect((await sandbox.getProcess(child.id, { sessionId: session.id }))?.id).toBe(child.id);
  await sandbox.deleteSession(session.id);

  // sandbox.terminal() is an independent PTY resource created/destroyed over the control plane.
  const terminal = await sandbox.terminal();
  const connection = await terminal.connect();
  connection.write("echo $((6 * 7)); exit\r");
  let screen = "";
  for await (const event of connection) if ("data" in event) screen += new TextDecoder().decode(event.data);
  expect(screen).toContain("42");
  expect((await connection.exited).exitCode).toBe(0);
  await terminal.destroy();
});
