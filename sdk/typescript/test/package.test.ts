// The package, installed as a user would, and its size.
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build, transform } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Project, root } from "./packed.js";

const MAX_BUNDLE_BYTES = 15 << 10;
let project: Project;
let folder: string;

const run = (program: string, ...args: string[]) => project.run(program, ...args);

beforeAll(async () => {
  project = await Project.install();
  folder = project.folder;
  expect(project.files.filter((path) => !/^(dist\/|package\.json$|README\.md$)/.test(path))).toEqual([]);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const body = `const sandbox = getSandbox();
sandbox.exec("echo", ["works"]).then((result) => process.stdout.write(result.stdout + typeof SandcrabAddon));`;

test("an ES module imports it", async () => {
  const imports = 'import { getSandbox } from "sandcrab";\nimport { SandcrabAddon } from "sandcrab/xterm";';
  writeFileSync(join(folder, "module.mjs"), `${imports}\n${body}`);
  expect(await run("node", "module.mjs")).toBe("works\nfunction");
});

test("a CommonJS module requires it", async () => {
  const imports = 'const { getSandbox } = require("sandcrab");\nconst { SandcrabAddon } = require("sandcrab/xterm");';
  writeFileSync(join(folder, "module.cjs"), `${imports}\n${body}`);
  expect(await run("node", "module.cjs")).toBe("works\nfunction");
});

test("a CommonJS module requires the build for browsers, as test runners with a DOM do", async () => {
  const code =
    'const { getSandbox } = require("sandcrab"); console.log(typeof getSandbox, require.resolve("sandcrab"));';
  const output = await run("node", "--conditions=browser", "-e", code);
  expect(output).toMatch(/^function .*browser\.cjs$/m);
});

// Commands, streams, aborts, bytes and WebSockets: what platforms do differently.
const platformTest = `import { getSandbox } from "sandcrab";
await using sandbox = getSandbox();
const lines = [];
await sandbox.exec("echo streamed", { onOutput: (_stream, data) => lines.push(data.trim()) });
const controller = new AbortController();
const onOutput = () => controller.abort();
const error = await sandbox.exec("echo part; sleep 600", { signal: controller.signal, onOutput }).catch((error) => error);
lines.push(error.name, error.result.stdout.trim());
const path = "platform-" + Math.random();
const body = new ReadableStream({ start: (controller) => { controller.enqueue(new Uint8Array(1000)); controller.close(); } });
lines.push((await sandbox.writeFile(path, body)).bytesWritten);
await sandbox.deleteFile(path);
await using terminal = await sandbox.terminal({ command: "read line; echo got-$line; exit 3" });
const connection = await terminal.connect();
connection.write("key\\r");
let screen = "";
for await (const event of connection) {
  if ("data" in event) screen += new TextDecoder().decode(event.data);
  if (event.type === "exit") lines.push(/got-key/.exec(screen)?.[0], event.exitCode);
}
console.log(lines.join(" "));
`;

test.each([
  ["Node", "node", []],
  ["Bun", join(root, "node_modules/.bin/bun"), ["run"]],
  [
    "Deno",
    join(root, "node_modules/.bin/deno"),
    ["run", "--allow-net", "--allow-env", "--no-lock", "--node-modules-dir=manual"],
  ],
])("it works in %s", async (_name, program, args) => {
  // Node 20 has no `await using`.
  const file = join(folder, "platform.mjs");
  const { code } = await transform(platformTest, { target: "node20", supported: { using: false }, format: "esm" });
  writeFileSync(file, code);
  expect((await run(program, ...args, file)).trim()).toBe("streamed AbortError part 1000 got-key 3");
});

test("its types are complete, without any other types", async () => {
  const code = `import { getSandbox, NotFoundError, type ExecResult, type LogEvent, type Session } from "sandcrab";
import { SandcrabAddon } from "sandcrab/xterm";
async function main(): Promise<void> {
  const sandbox = getSandbox({ baseUrl: "http://127.0.0.1:7070", token: "t" });
  const text: ExecResult = await sandbox.exec("true");
  const bytes: Uint8Array = (await sandbox.exec("true", [], { encoding: "bytes" })).stdout;
  const session: Session = await sandbox.createSession({ env: { A: "1" } });
  await using process = await session.startProcess("true", { onExit: (code: number | null) => code });
  for await (const event of process.streamLogs()) { const seen: LogEvent = event; const data: string | undefined = seen.data; void data; }
  for await (const event of sandbox.execStream("a", ["b"])) if (event.type === "complete") { const code: number = event.exitCode; void code; }
  // @ts-expect-error an unknown option
  await sandbox.exec("true", { timeoutt: 1 });
  void [text.stdout.length, bytes.length, NotFoundError, new SandcrabAddon(await sandbox.terminal())];
}
void main;
`;
  for (const extension of ["mts", "cts"]) writeFileSync(join(folder, `check.${extension}`), code);
  const lib = "ES2022,DOM,DOM.Iterable,DOM.AsyncIterable,ESNext.Disposable";
  const options = ["--strict", "--noEmit", "--module", "nodenext", "--target", "es2022", "--lib", lib];
  await run(process.execPath, join(root, "node_modules/typescript/bin/tsc"), ...options, "check.mts", "check.cts");
});

test("its options may be undefined, and no type is any", async () => {
  const code = `import { getSandbox, Process, Sandbox, Service, Session, Terminal } from "sandcrab";
import { SandcrabAddon } from "sandcrab/xterm";
const unset: string | undefined = undefined;
void getSandbox({ baseUrl: unset, token: unset, maxConnections: unset, headers: unset, fetch: unset, WebSocket: unset });
/** The options among the arguments of a call. */
type OptionsOf<T> = T extends object ? (T extends readonly unknown[] | ((...args: never) => unknown) | Uint8Array | Blob | ReadableStream | RegExp ? never : T) : never;
type OptionalKeys<T> = { [K in keyof T]-?: Record<never, never> extends Pick<T, K> ? K : never }[keyof T];
/** The options of which a field can be left out, but not be undefined. */
type Exact<T> = T extends unknown ? ({ [K in OptionalKeys<T>]: undefined } extends Partial<T> ? never : T) : never;
type Refused<C> = { [M in keyof C]: C[M] extends (...args: infer A) => unknown ? Exact<OptionsOf<A[number]>> : never }[keyof C];
type All = Refused<Sandbox> | Refused<Session> | Refused<Process> | Refused<Service> | Refused<Terminal>;
const refused: [All] extends [never] ? true : All = true;
type Addon = Exact<OptionsOf<ConstructorParameters<typeof SandcrabAddon>[1]>>;
const addon: [Addon] extends [never] ? true : Addon = true;
void [refused, addon];
`;
  writeFileSync(join(folder, "exact.mts"), code);
  const options = ["--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--noEmit"];
  const target = ["--module", "nodenext", "--target", "es2022", "--lib", "ES2022,DOM,DOM.Iterable,ESNext.Disposable"];
  await run(process.execPath, join(root, "node_modules/typescript/bin/tsc"), ...options, ...target, "exact.mts");
  for (const file of ["index.d.ts", "xterm.d.ts"]) {
    expect(readFileSync(join(root, "dist", file), "utf8")).not.toMatch(/[:<|&,] *any\b/);
  }
});

test("the quick start of the README works", async () => {
  const readme = readFileSync(join(root, "README.md"), "utf8");
  const code = /```ts\n(.*?)```/s.exec(readme)?.[1] as string;
  writeFileSync(join(folder, "quick-start.mjs"), code);
  const output = await run("node", "quick-start.mjs");
  expect(output).toMatch(/^hello\n 3\n.*value in \/usr\/share\n.*42.*buy a boat/s);
});

test("a bundle for browsers is small, and has no modules of Node", async () => {
  const options = { bundle: true, minify: true, write: false, format: "esm", platform: "browser" } as const;
  const stdin = { contents: 'export * from "sandcrab";', resolveDir: folder };
  const result = await build({ stdin, ...options, metafile: true });
  const code = result.outputFiles[0]?.contents as Uint8Array;
  const size = gzipSync(code, { level: 9 }).length;
  console.log(`bundle: ${code.length} bytes, ${size} compressed`);
  expect(size).toBeLessThanOrEqual(MAX_BUNDLE_BYTES);
  expect(Object.values(result.metafile?.outputs ?? {}).flatMap(({ imports }) => imports)).toEqual([]);
  const required = { contents: 'console.log(require("sandcrab").getSandbox);', resolveDir: folder };
  const bundle = await build({ stdin: required, ...options, format: "iife", metafile: true });
  expect(Object.keys(bundle.metafile.inputs)).toContainEqual(expect.stringMatching(/dist\/browser\.cjs$/));
  expect(Object.values(bundle.metafile.outputs).flatMap(({ imports }) => imports)).toEqual([]);
});

test("it has no dependencies, and the version of the workspace", async () => {
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  expect(manifest.dependencies).toBeUndefined();
  const cargo = readFileSync(join(root, "../../Cargo.toml"), "utf8");
  expect(manifest.version).toBe(/^version = "(.*)"$/m.exec(cargo)?.[1]);
});
