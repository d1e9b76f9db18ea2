// `Sandbox`, the class the reference SDK's users hold: it sits on `SandboxClient` and adds the waiting
// and the callbacks. Over HTTP; its WebSocket needs Cloudflare's own kind of fetch.
import { beforeAll, expect, test } from "bun:test";
import { ProcessExitedBeforeReadyError, ProcessReadyTimeoutError, Sandbox } from "@cloudflare/sandbox";
import { durableObjectState } from "./stubs/durable-object";
import { failure, text, unique, execEvents } from "./support";

const STATELESS = "__DISABLE_SESSION__";
let sandbox: Sandbox;
beforeAll(() => {
  sandbox = new Sandbox(durableObjectState(unique("sandbox")) as never, {} as never);
});

test("the default session: state, environment, processes", async () => {
  const session = await sandbox.createSession({ id: unique("session"), cwd: "/usr", env: { WORD: "given" } });
  expect(await session.exec('echo "$WORD"; pwd')).toMatchObject({ success: true, stdout: "given\n/usr\n" });
  await session.setEnvVars({ WORD: "it's new", OTHER: "too" });
  expect((await session.exec('echo "$WORD $OTHER"')).stdout).toBe("it's new too\n");
  await session.setEnvVars({ WORD: undefined });
  expect((await session.exec('echo "${WORD-unset}"')).stdout).toBe("unset\n");
  const process = await session.startProcess("echo from here; pwd");
  expect(await process.waitForExit(10_000)).toEqual({ exitCode: 0 });
  expect(await process.getLogs()).toMatchObject({ stdout: "from here\n/usr\n", stderr: "" });
  expect(await sandbox.deleteSession(session.id)).toMatchObject({ success: true, sessionId: session.id });
});

test("exec with callbacks streams", async () => {
  const heard: string[] = [];
  const result = await sandbox.execWithSessionToken("echo out; echo err >&2; exit 2", STATELESS, {
    stream: true,
    onOutput: (stream, data) => heard.push(`${stream}: ${data}`),
  });
  expect(result).toMatchObject({ success: false, exitCode: 2, stdout: "out\n", stderr: "err\n" });
  expect(heard.toSorted()).toEqual(["stderr: err\n", "stdout: out\n"]);
});

test("a streamed command that ends its shell reports the reason", async () => {
  const session = await sandbox.createSession({ id: unique("session") });
  const error = await failure(session.exec("exit 3", { stream: true, onOutput: () => {} }));
  // The class takes the sentence from the event's `data`, and has a bare one for when there is none.
  expect(error.message).not.toBe("Command execution failed");
  await sandbox.deleteSession(session.id);
});

test("waitForLog finds earlier and later output", async () => {
  const process = await sandbox.startProcess("echo booting; sleep 0.3; echo 'listening on 8080'; sleep 600", {}, STATELESS);
  expect(process.pid).toBeGreaterThan(1);
  expect(await process.waitForLog("booting", 10_000)).toMatchObject({ line: "booting" });
  const { line, match } = await process.waitForLog(/listening on (\d+)/, 10_000);
  expect(line).toBe("listening on 8080");
  expect(match?.[1]).toBe("8080");
  expect(await process.getStatus()).toBe("running");
  await process.kill();
  expect(await process.getStatus()).toBe("killed");
});

test("waitForLog and waitForExit time out", async () => {
  const short = await sandbox.startProcess("echo bye; exit 6", {}, STATELESS);
  const error = await failure(short.waitForLog("never", 10_000));
  expect(error).toBeInstanceOf(ProcessExitedBeforeReadyError);
  expect(error.exitCode).toBe(6);
  const long = await sandbox.startProcess("sleep 600", {}, STATELESS);
  expect(await failure(long.waitForLog("never", 300))).toBeInstanceOf(ProcessReadyTimeoutError);
  expect(await failure(long.waitForExit(300))).toBeInstanceOf(ProcessReadyTimeoutError);
  await long.kill();
});

test("a process with callbacks", async () => {
  const { promise, resolve } = Promise.withResolvers<number | null>();
  let output = "";
  await sandbox.startProcess("echo one; echo two; exit 3", {
    onOutput: (_stream, data) => { output += data; },
    onExit: resolve,
  }, STATELESS);
  expect(await promise).toBe(3);
  expect(output).toBe("one\ntwo\n");
});

test("list, get, kill all", async () => {
  const process = await sandbox.startProcess("sleep 600", { processId: unique("process") }, STATELESS);
  const listed = (await sandbox.listProcesses()).find((each) => each.id === process.id);
  expect(listed?.status).toBe("running");
  expect(listed?.startTime.getTime()).toBeGreaterThan(0);
  expect(await sandbox.getProcess(unique("nobody"))).toBeNull();
  expect(await sandbox.killAllProcesses()).toBeGreaterThanOrEqual(1);
  expect((await sandbox.getProcess(process.id))?.status).toBe("killed");
});

test("execStream", async () => {
  const events = await execEvents(await sandbox.execStreamWithSessionToken("echo streamed", STATELESS));
  expect(text(events, "stdout")).toBe("streamed\n");
  expect(events.at(-1)).toMatchObject({ type: "complete", exitCode: 0 });
});
