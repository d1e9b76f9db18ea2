// Bytes, files, folders, watches, previews.
import { expect, test } from "vitest";
import type { ExecResult } from "../src/index.js";
import { LineSearch } from "../src/lines.js";
import { collect, connect, text, unique, until } from "./support.js";

const bytes = Uint8Array.from({ length: 256 }, (_, number) => number);

test("bytes of commands", async () => {
  const sandbox = connect();
  const result = await sandbox.exec("cat", [], { stdin: bytes, encoding: "bytes" });
  expect(result.stdout).toEqual(bytes);
  const streamed = await sandbox.exec("cat", [], { stdin: bytes, encoding: "bytes", stream: true });
  expect(streamed.stdout).toEqual(bytes);
  const encoded = await sandbox.exec("cat", [], { stdin: bytes, encoding: "base64", stream: true });
  expect(encoded.stdout).toBe(Buffer.from(bytes).toString("base64"));
  const process = await sandbox.startProcess("cat", [], { stdin: true });
  await process.write(bytes);
  await process.write("ü");
  await process.closeStdin();
  await process.waitForExit();
  const output = new Uint8Array(await new Response(await process.output()).arrayBuffer());
  expect(output).toEqual(new Uint8Array([...bytes, 0xc3, 0xbc]));
  expect(await text(await process.output("stdout", { from: 256 }))).toBe("ü");
  expect((await process.getLogs({ encoding: "bytes" })).stdout).toEqual(output);
});

test("output of a streamed command is bounded", async () => {
  const { stdout, truncated } = await connect().exec("seq 1000000", { stream: true, maxOutputBytes: 100_000 });
  expect(stdout.length).toBeLessThan(400_000);
  expect(stdout.startsWith("1\n2\n")).toBe(true);
  expect(stdout.endsWith("\n999999\n1000000\n")).toBe(true);
  expect((truncated?.stdoutBytes ?? 0) + stdout.length).toBe(6_888_896);
});

test.each(["utf8", "base64", "bytes"] as const)(
  "a streamed command has the result of another one, as %s",
  async (encoding) => {
    const sandbox = connect();
    for (const command of ["seq 100000; seq 3 >&2", "yes '\ufeffé€𝄞' | head -c 91000", "printf '\ufeffx'"]) {
      for (const maxOutputBytes of [0, 1, 1_001, undefined]) {
        const options = { encoding, maxOutputBytes };
        const { stdout, stderr, truncated } = await sandbox.exec(command, options);
        const streamed = await sandbox.exec(command, { ...options, stream: true });
        expect({ stdout, stderr, truncated }).toEqual(pick(streamed));
      }
    }
  },
);

function pick({ stdout, stderr, truncated }: ExecResult<string | Uint8Array>) {
  return { stdout, stderr, truncated };
}

test("a stream continues at the cursor of an event", async () => {
  const sandbox = connect();
  const process = await sandbox.startProcess("echo 1; echo 2 >&2; echo é; echo 4 >&2");
  await process.waitForExit();
  const all = await collect(process.streamLogs());
  for (const [at, { cursor }] of all.entries()) {
    expect(cursor).toBeDefined();
    const rest = await collect(process.streamLogs({ since: cursor }));
    const data = (events: typeof all) => events.map((event) => event.data ?? "").join("");
    expect(data(rest)).toBe(data(all.slice(at + 1)));
  }
});

test("an expression that requires the end of a line matches complete lines", () => {
  const search = new LineSearch(/^1\d?$/g);
  expect(search.push("stdout", "1")).toBeUndefined();
  expect(search.push("stderr", "15\n")).toMatchObject({ line: "15", stream: "stderr" });
  expect(search.push("stdout", "00\n1")).toBeUndefined();
  expect(search.end()).toMatchObject({ line: "1", stream: "stdout", match: { index: 0 } });
  const prompt = new LineSearch(/^Pass(word)?: /);
  expect(prompt.push("stdout", "Pass")).toBeUndefined();
  expect(prompt.push("stdout", "word: ")).toMatchObject({ line: "Password: " });
  expect(new LineSearch("ready").push("stdout", "already")).toMatchObject({ line: "already" });
});

test("a long timeout is not over at once", async () => {
  const process = await connect().startProcess("sleep 0.3; echo ready");
  for (const timeout of [2 ** 31, Infinity]) {
    expect((await process.waitForLog("ready", { timeout })).line).toBe("ready");
    expect((await process.waitForExit({ timeout })).exitCode).toBe(0);
  }
});

test("a timeout of 0 asks once", async () => {
  const process = await connect().startProcess("sleep 600");
  await expect(process.waitForExit(0)).rejects.toMatchObject({ code: "PROCESS_READY_TIMEOUT" });
  await process.kill();
  expect((await process.waitForExit(0)).status).toBe("killed");
});

test("options that are undefined have their defaults", async () => {
  const sandbox = connect();
  await using session = await sandbox.createSession({ onShellExit: undefined, cwd: undefined });
  expect((await session.exec("exit 3")).exitCode).toBe(3);
  expect((await sandbox.find({ path: undefined, limit: 1 })).paths.length).toBeLessThanOrEqual(1);
});

test("files as bytes and web streams", async () => {
  const sandbox = connect();
  const path = `data-${unique()}/f`;
  await sandbox.writeFile(path, bytes);
  expect(new Uint8Array(await new Response(await sandbox.readBytes(path)).arrayBuffer())).toEqual(bytes);
  await sandbox.writeFile(path, new Uint8Array([1, 2]), { append: true });
  expect((await sandbox.stat(path)).size).toBe(258);
  let pieces = 100;
  const stream = new ReadableStream<Uint8Array>({
    pull: (controller) => (pieces-- > 0 ? controller.enqueue(new Uint8Array(10_000)) : controller.close()),
  });
  expect((await sandbox.writeFile(path, stream)).bytesWritten).toBe(1_000_000);
  await sandbox.writeFile(path, new Blob(["blob"]));
  expect(await text(await sandbox.readBytes(path, { range: "bytes=1-2" }))).toBe("lo");
  const events = await collect(sandbox.readFileStream(path));
  expect(events.map((event) => event.type)).toEqual(["metadata", "chunk", "complete"]);
  await expect(sandbox.putFile(path, bytes, { ifNoneMatch: "*" })).rejects.toMatchObject({
    code: "PRECONDITION_FAILED",
  });
  // A stream that is left gives its connection back.
  await (await sandbox.readBytes(path)).cancel();
  await until(() => sandbox.client.slots.used === 0, "the connection is free");
});

test("content of every kind is appended or refused", async () => {
  const sandbox = connect();
  const path = `data-${unique()}`;
  await sandbox.writeFile(path, "first\n");
  await sandbox.writeFile(path, new Blob(["second\n"]), { append: true });
  const stream = () => new Blob(["third\n"]).stream() as ReadableStream<Uint8Array>;
  const refused = { code: "VALIDATION_FAILED", message: expect.stringContaining("append") };
  await expect(sandbox.writeFile(path, stream(), { append: true })).rejects.toMatchObject(refused);
  expect((await sandbox.readFile(path)).content).toBe("first\nsecond\n");
  const base64 = sandbox.writeFile(path, new Blob(["AAAA"]), { encoding: "base64" });
  await expect(base64).rejects.toMatchObject({ code: "VALIDATION_FAILED" });
  expect((await sandbox.readFile(path)).content).toBe("first\nsecond\n");
});

test("an address with a password is refused, and the password is not shown", () => {
  for (const scheme of ["http", "ftp"]) {
    const invalid = () => connect({ baseUrl: `${scheme}://user:secret@localhost:7070` });
    expect(invalid).toThrow("invalid base URL …@localhost:7070");
  }
});

test("folders as archives", async () => {
  const sandbox = connect();
  const path = `data-${unique()}`;
  await sandbox.writeFile(`${path}/a/f`, "x");
  const written = await sandbox.writeFolder(`${path}/b`, await sandbox.readFolder(`${path}/a`, { format: "tar.zst" }));
  expect(written.entries).toBe(2);
  expect((await sandbox.readFile(`${path}/b/f`)).content).toBe("x");
});

test("changes of a directory arrive", async () => {
  const sandbox = connect();
  const path = `data-${unique()}`;
  await sandbox.mkdir(path);
  for await (const event of sandbox.watch(path)) {
    if (event.type === "watching") await sandbox.writeFile(`${path}/new`, "x");
    if (event.type === "event" && event.path.endsWith("/new")) break;
  }
});

test("a preview of a port", async () => {
  const sandbox = connect();
  const port = 20_000 + Math.floor(Math.random() * 10_000);
  await using server = await sandbox.startProcess(`exec python3 -m http.server ${port} --bind 127.0.0.1`);
  await server.waitForPort(port, { path: "/", status: 200 });
  expect((await sandbox.listPorts()).map((open) => open.port)).toContain(port);
  const exposed = await sandbox.exposePort(port, { name: "web", processId: server.id });
  expect(exposed.url).toContain(`${port}-`);
  expect((await sandbox.getExposedPorts()).map((open) => open.port)).toContain(port);
  await sandbox.unexposePort(port);
});

test("events of the server", async () => {
  const sandbox = connect();
  const executionId = `x-${unique()}`;
  for await (const event of sandbox.events()) {
    if (event.type === "hello") void sandbox.startProcess("true", { processId: executionId });
    if (event.type === "execution_ended" && event.process.id === executionId) break;
  }
  expect(await sandbox.metrics()).toContain("# TYPE");
  expect((await sandbox.openapi()).openapi).toBe("3.1.0");
});

test("callbacks of a process", async () => {
  const sandbox = connect();
  const seen: unknown[] = [];
  await new Promise<void>((resolve) => {
    void sandbox.startProcess("echo out; exit 7", {
      onStart: (process) => seen.push(process.status),
      onOutput: (stream, data) => seen.push([stream, data]),
      onExit: (code) => {
        seen.push(code);
        resolve();
      },
    });
  });
  expect(seen).toEqual(["running", ["stdout", "out\n"], 7]);
  const process = await sandbox.startProcess("sleep 600");
  const exit = new Promise((resolve) => process.onExit(resolve));
  await process.signal("SIGKILL");
  expect(await exit).toBe(137);
  const errors: Error[] = [];
  const onError = (error: Error) => errors.push(error);
  const start = sandbox.startProcess("no-such-program", [], { onError });
  await expect(start).rejects.toMatchObject({ code: "COMMAND_NOT_FOUND" });
  expect(errors).toHaveLength(1);
});

test("blocks delete what they have created", async () => {
  const sandbox = connect();
  const ids = { session: "", process: "" };
  {
    await using session = await sandbox.createSession();
    await using process = await sandbox.startProcess("sleep 600");
    ids.session = session.id;
    ids.process = process.id;
  }
  expect(await sandbox.getSession(ids.session)).toBeNull();
  expect((await sandbox.getProcess(ids.process))?.status).toBe("killed");
});

test("a session is interrupted", async () => {
  await using session = await connect().createSession();
  const running = session.exec("A=1; echo ready; sleep 600", { onOutput: () => void session.interrupt() });
  expect((await running).success).toBe(false);
  expect((await session.exec("echo $A")).stdout).toBe("1\n");
});

test("calls on a session have an order, without waiting for each", async () => {
  const sandbox = connect();
  await using session = await sandbox.createSession();
  await session.exec("seen=");
  const controller = new AbortController();
  const calls: Promise<unknown>[] = [];
  for (let number = 0; number < 60; number += 4) {
    calls.push(session.exec(`seen+=" ${number}"`));
    calls.push(sandbox.exec(`seen+=" ${number + 1}"`, { sessionId: session.id, stream: true }));
    calls.push(collect(session.execStream(`seen+=" ${number + 2}"`)));
    calls.push(session.setEnvVars({ [`V${number}`]: "1" }));
    calls.push(session.exec(`seen+=" $((V${number} + ${number} + 2))"`));
    // A call that is aborted while it waits is not sent, and the others keep their order.
    calls.push(session.exec("seen=", { signal: controller.signal }).catch(() => undefined));
  }
  controller.abort();
  await Promise.all(calls);
  const numbers = Array.from({ length: 60 }, (_, number) => ` ${number}`);
  expect((await session.exec('echo "$seen"')).stdout).toBe(`${numbers.join("")}\n`);
});

test("the id of no session names none: its commands do not wait for each other", async () => {
  const sandbox = connect();
  const sessionId = "__DISABLE_SESSION__";
  const go = `go-${unique()}`;
  const waiting = sandbox.exec(`until [ -e ${go} ]; do sleep 0.05; done; rm ${go}`, { sessionId });
  await sandbox.exec(`touch ${go}`, { sessionId });
  expect((await waiting).exitCode).toBe(0);
  await using process = await sandbox.startProcess("sleep 600", { sessionId });
  expect(process.sessionId).toBeUndefined();
  expect((await sandbox.getProcess(process.id, { sessionId }))?.id).toBe(process.id);
});

test("the output limit of a session is that of its streamed commands, too", async () => {
  await using session = await connect().createSession({ maxOutputSizeBytes: 100 });
  await using fork = await session.fork();
  for (const shell of [session, fork]) {
    const { stdout, truncated } = await shell.exec("seq 1000");
    expect(truncated?.stdoutBytes).toBeGreaterThan(0);
    expect(await shell.exec("seq 1000", { stream: true })).toMatchObject({ stdout, truncated });
    const more = await shell.exec("seq 1000", { stream: true, maxOutputBytes: 1_000 });
    expect(more.stdout.length).toBeGreaterThan(900);
  }
});
