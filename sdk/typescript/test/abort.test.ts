// Aborting calls: nothing is left behind.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { AbortError, type ExecResult, type Sandbox } from "../src/index.js";
import { CuttingProxy } from "./proxy.js";
import { TestServer } from "./server.js";
import { collect, connect, unique, until } from "./support.js";

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.remove());

function isRunning(pid: number): boolean {
  try {
    // A process that has exited and is not reaped yet does not count.
    return !/^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

async function aborted(call: Promise<unknown>): Promise<AbortError> {
  const error = await call.then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(error).toBeInstanceOf(AbortError);
  return error as AbortError;
}

/**
 * Runs a call while the clock stands still. The SDK tries for some seconds only to end what may still arrive, and a slow machine
 * may need longer.
 */
async function withoutTime<T>(call: () => Promise<T>): Promise<T> {
  vi.useFakeTimers({ toFake: ["Date"] });
  try {
    return await call();
  } finally {
    vi.useRealTimers();
  }
}

test.each(["awaited", "streamed"])("exec, %s: it is ended, and rejects with its output so far", async (kind) => {
  const sandbox = server.sandbox();
  const controller = new AbortController();
  const executionId = `x-${unique()}`;
  const reason = new Error("enough");
  const onOutput = () => controller.abort(reason);
  const options = { executionId, signal: controller.signal, ...(kind === "streamed" && { onOutput }) };
  const running = sandbox.exec("sleep 600 & echo $!; echo note >&2; wait", options);
  if (kind === "awaited") {
    await until(async () => !!(await sandbox.getProcess(executionId)), "the command is known");
    for await (const event of sandbox.streamProcessLogs(executionId)) if (event.type === "stderr") break;
    controller.abort(reason);
  }
  const error = await aborted(running);
  expect(error).toMatchObject({ name: "AbortError", code: "ABORTED", cause: reason });
  const result = error.result as ExecResult;
  expect(result.end.reason).toBe("killed");
  expect(result.stdout).toMatch(/^\d+\n$/);
  await until(() => !isRunning(Number(result.stdout)), "the child has ended");
  expect((await sandbox.getProcess(executionId))?.status).toBe("killed");
});

test("a call that is aborted before it is sent starts nothing", async () => {
  const sandbox = server.sandbox({ maxConnections: 1 });
  const executionId = `x-${unique()}`;
  const busy = sandbox.exec("until [ -e go-ahead ]; do sleep 0.05; done");
  const controller = new AbortController();
  const waiting = aborted(sandbox.exec("true", { executionId, signal: controller.signal }));
  controller.abort();
  await waiting;
  await aborted(sandbox.exec("true", { executionId, signal: AbortSignal.abort() }));
  await server.sandbox().writeFile("go-ahead", "");
  await busy;
  expect(await sandbox.getProcess(executionId)).toBeNull();
});

test("a call that is aborted at any moment leaves nothing running", async () => {
  const sandbox = server.sandbox();
  const before = await running(sandbox);
  for (let delay = 0; delay < 12; delay++) {
    const signal = AbortSignal.timeout(delay * 2);
    if (delay % 3 === 0) await aborted(sandbox.exec("sleep 600", { signal }));
    else if (delay % 3 === 1) await aborted(collect(sandbox.execStream("sleep 600", { signal })));
    else {
      const start = sandbox.startProcess("sleep 600", { signal });
      // A start that was faster than the abort has succeeded.
      await start.then(
        (process) => process.kill(),
        (error) => expect(error).toBeInstanceOf(AbortError),
      );
    }
  }
  expect(await running(sandbox)).toEqual(before);
});

test.each(["awaited", "streamed"])("exec, %s: a lost start is not repeated after an abort, and ended", async (kind) => {
  const before = await running(server.sandbox());
  const controller = new AbortController();
  let starts = 0;
  let late: Promise<Response> | undefined;
  const losing = async (url: string | URL | Request, init?: RequestInit) => {
    if (init?.method !== "POST" || ++starts > 1) return fetch(url, init);
    // The client sees a lost connection before the request arrives.
    const { signal: _signal, ...kept } = init;
    late = new Promise<void>((resolve) => setTimeout(resolve, 200)).then(() => fetch(url, kept));
    controller.abort();
    throw new TypeError("fetch failed");
  };
  const options = { signal: controller.signal, stream: kind === "streamed" };
  await withoutTime(() => aborted(server.sandbox({ fetch: losing }).exec("sleep 600", options)));
  await (await late)?.text();
  expect(starts).toBe(1);
  expect(await running(server.sandbox())).toEqual(before);
});

test.each(["awaited", "streamed", "events"])(
  "%s: an abort before the refusal leaves the older command alone",
  async (kind) => {
    const executionId = `x-${unique()}`;
    const direct = server.sandbox();
    const older = direct.exec("sleep 600", { executionId });
    await until(async () => (await direct.getProcess(executionId))?.status === "running", "the older command runs");
    const controller = new AbortController();
    const aborting = async (url: string | URL | Request, init?: RequestInit) => {
      const { signal: _signal, ...kept } = init ?? {};
      const refusal = await fetch(url, kept);
      // The answer is on its way.
      if (init?.method === "POST") controller.abort();
      return refusal;
    };
    const sandbox = server.sandbox({ fetch: aborting });
    const options = { executionId, signal: controller.signal };
    if (kind === "events") await aborted(collect(sandbox.execStream("true", options)));
    else await aborted(sandbox.exec("true", { ...options, stream: kind === "streamed" }));
    expect((await direct.getProcess(executionId))?.status).toBe("running");
    await direct.killProcess(executionId);
    expect((await older).end.reason).toBe("killed");
  },
);

/** What a start leaves behind, by the name of the call. */
const starts: Record<string, (sandbox: Sandbox, signal: AbortSignal) => Promise<unknown>> = {
  createSession: (sandbox, signal) => sandbox.createSession({ signal }),
  terminal: (sandbox, signal) => sandbox.terminal({ command: "sleep 600", signal }),
  startProcess: (sandbox, signal) => sandbox.startProcess("sleep 600", { signal }),
  startService: (sandbox, signal) => sandbox.startService("sleep 600", { signal }),
};

async function running(sandbox: Sandbox): Promise<string[]> {
  const [sessions, services] = [await sandbox.listSessions(), await sandbox.listServices()];
  // Also the executions of terminals.
  const processes = (await sandbox.listProcesses({ all: true })).filter(({ status }) => status === "running");
  return [...sessions, ...services, ...processes].map(({ id }) => id);
}

test.each(
  Object.keys(starts).flatMap((call) => [[call, "before it arrives"] as const, [call, "before its answer"] as const]),
)("%s, aborted %s: it leaves nothing", async (call, when) => {
  const before = await running(server.sandbox());
  const controller = new AbortController();
  let isSent = false;
  let answered: Promise<Response> | undefined;
  const aborting = async (url: string | URL | Request, init?: RequestInit) => {
    if (isSent || init?.method !== "POST") return fetch(url, init);
    isSent = true;
    // The request arrives, whatever the caller does.
    const { signal: _signal, ...kept } = init;
    if (when === "before it arrives") {
      controller.abort();
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    answered = fetch(url, kept);
    const response = await answered;
    controller.abort();
    return response;
  };
  const start = starts[call] as (typeof starts)[string];
  await withoutTime(() => aborted(start(server.sandbox({ fetch: aborting }), controller.signal)));
  // It has arrived, and may have been ended before its answer.
  expect(await answered).toBeDefined();
  expect(await running(server.sandbox())).toEqual(before);
});

test.each(Object.keys(starts))("%s, whose answer is lost: it leaves nothing", async (call) => {
  const before = await running(server.sandbox());
  let answers = 0;
  const losing = async (url: string | URL | Request, init?: RequestInit) => {
    const response = await fetch(url, init);
    if (init?.method !== "POST" || String(url).endsWith("/delete")) return response;
    answers++;
    throw new TypeError("fetch failed");
  };
  const sandbox = server.sandbox({ fetch: losing, reconnectTimeout: 0 });
  const starting = (starts[call] as (typeof starts)[string])(sandbox, new AbortController().signal);
  await expect(starting).rejects.toMatchObject({ code: "CONNECTION_FAILED" });
  expect(answers).toBe(1);
  expect(await running(server.sandbox())).toEqual(before);
});

test("startService, aborted while it waits for its health: it leaves nothing", async () => {
  const sandbox = server.sandbox();
  const controller = new AbortController();
  const options = { waitForReady: true, healthCheck: { type: "tcp", port: 9 }, signal: controller.signal } as const;
  const starting = aborted(sandbox.startService("sleep 600", options));
  await until(async () => (await sandbox.listServices()).length > 0, "the service is known");
  controller.abort();
  await starting;
  expect(await sandbox.listServices()).toEqual([]);
});

test("an aborted start with the id of something that exists leaves it alone", async () => {
  const sandbox = server.sandbox();
  await using session = await sandbox.createSession();
  await using terminal = await sandbox.terminal({ command: "sleep 600" });
  await using service = await sandbox.startService("sleep 600");
  await using process = await sandbox.startProcess("sleep 600");
  const controller = new AbortController();
  let sent = 0;
  const aborting = (url: string | URL | Request, init?: RequestInit) => {
    if (++sent === 4) controller.abort();
    return fetch(url, init);
  };
  const other = server.sandbox({ fetch: aborting });
  const { signal } = controller;
  await Promise.all([
    aborted(other.createSession({ id: session.id, signal })),
    aborted(other.terminal({ id: terminal.id, signal })),
    aborted(other.startService("sleep 600", { serviceId: service.id, signal })),
    aborted(other.startProcess("sleep 600", { processId: process.id, signal })),
  ]);
  expect(sent).toBe(4);
  expect(await sandbox.getSession(session.id)).not.toBeNull();
  expect((await terminal.getInfo()).status).toBe("running");
  expect(await service.getStatus()).toBe("running");
  expect(await process.getStatus()).toBe("running");
});

test.each(["exec", "exec, streamed", "execStream", "startProcess"])(
  "%s: an abort has the grace that was given",
  async (how) => {
    const controller = new AbortController();
    const { signal } = controller;
    const ends: (string | null)[] = [];
    const watching = async (url: string | URL | Request, init?: RequestInit) => {
      if (init?.method === "DELETE") ends.push(new URL(String(url)).searchParams.get("graceMs"));
      const response = await fetch(url, init);
      if (how === "startProcess" && init?.method === "POST") controller.abort();
      return response;
    };
    const sandbox = server.sandbox({ fetch: watching });
    const executionId = `x-${unique()}`;
    // Longer than the 5 s of an abort without it.
    const options = { executionId, grace: 30_000, signal };
    const command = "trap 'sleep 6; echo ended; exit' TERM; echo ready; sleep 600 & wait";
    const onOutput = () => controller.abort();
    if (how === "exec, streamed") {
      expect((await aborted(sandbox.exec(command, { ...options, onOutput }))).result?.stdout).toBe("ready\nended\n");
    } else if (how === "execStream") {
      const reading = (async () => {
        for await (const event of sandbox.execStream("echo ready; sleep 600", options)) if (event.data) onOutput();
      })();
      await aborted(reading);
    } else if (how === "exec") {
      const running = aborted(sandbox.exec("sleep 600", options));
      await until(async () => !!(await server.sandbox().getProcess(executionId)), "the command is known");
      controller.abort();
      await running;
    } else {
      await aborted(sandbox.startProcess("sleep 600", { grace: 30_000, signal }));
    }
    expect(ends.length).toBeGreaterThan(0);
    expect(new Set(ends)).toEqual(new Set(["30000"]));
  },
);

test.each(["awaited", "streamed"])("exec, %s: an abort right after the call starts nothing", async (kind) => {
  for (const later of [(abort: () => void) => abort(), queueMicrotask]) {
    // The first request of a sandbox waits for its connection pool.
    const sandbox = server.sandbox();
    const executionId = `x-${unique()}`;
    const controller = new AbortController();
    const options = { executionId, signal: controller.signal, stream: kind === "streamed" };
    const running = aborted(sandbox.exec("sleep 600", options));
    later(() => controller.abort());
    await running;
    expect(await sandbox.getProcess(executionId)).toBeNull();
    expect(sandbox.client.slots.used).toBe(0);
  }
});

test.each([
  [false, "throws"],
  [true, "throws"],
  [true, "rejects"],
] as const)("a callback that fails ends the command (with a signal: %s, it %s)", async (hasSignal, how) => {
  const sandbox = server.sandbox();
  const executionId = `x-${unique()}`;
  const failure = new Error("the callback failed");
  const errors: Error[] = [];
  const fail = () => {
    throw failure;
  };
  const onOutput = how === "throws" ? fail : async () => fail();
  const signal = hasSignal ? new AbortController().signal : undefined;
  const options = { executionId, signal, onOutput, onError: (error: Error) => errors.push(error) };
  await expect(sandbox.exec("echo ready; sleep 600", options)).rejects.toBe(failure);
  expect(errors).toEqual([failure]);
  expect((await sandbox.getProcess(executionId))?.status).toBe("killed");
  const onComplete = onOutput;
  await expect(sandbox.exec("true", { onComplete })).rejects.toBe(failure);
  expect(sandbox.client.slots.used).toBe(0);
});

test.each([1, 2, 3])("with %i connections, all in use, an abort ends its command", async (maxConnections) => {
  const sandbox = server.sandbox({ maxConnections });
  const controller = new AbortController();
  const ids = Array.from({ length: maxConnections }, () => `x-${unique()}`);
  const calls = ids.map((executionId) =>
    aborted(sandbox.exec("sleep 600", { executionId, signal: controller.signal })),
  );
  const other = server.sandbox();
  for (const id of ids) await until(async () => !!(await other.getProcess(id)), "the command is known");
  controller.abort();
  for (const error of await Promise.all(calls)) expect(error.result?.end.reason).toBe("killed");
});

test("closing a sandbox ends its streams", async () => {
  const proxy = await CuttingProxy.start(server.url);
  const closed = { code: "CONNECTION_FAILED", message: expect.stringContaining("closed") };
  for (const ownFetch of [undefined, (url: string | URL | Request, init?: RequestInit) => fetch(url, init)]) {
    const sandbox = server.sandbox({ baseUrl: proxy.url, ...(ownFetch && { fetch: ownFetch }) });
    const executionId = `x-${unique()}`;
    const stream = sandbox.execStream("echo ready; sleep 600", { executionId });
    await stream.next();
    const changes = sandbox.events();
    await changes.next();
    const terminal = await sandbox.terminal();
    const viewer = await terminal.connect();
    const waiting = expect(sandbox.exec("sleep 600")).rejects.toMatchObject(closed);
    const reading = expect(collect(stream)).rejects.toMatchObject(closed);
    const watching = expect(collect(changes)).rejects.toMatchObject(closed);
    await sandbox.close();
    await Promise.all([waiting, reading, watching]);
    await expect(viewer.exited).rejects.toMatchObject(closed);
    await expect(sandbox.ping()).rejects.toMatchObject(closed);
    expect(sandbox.client.slots.used).toBe(0);
    await server.sandbox().killAllProcesses();
    await (await server.sandbox().getTerminal(terminal.id))?.destroy();
  }
  await proxy.stop();
});

test("leaving the loop of execStream ends the command, unless asked to keep it", async () => {
  const sandbox = server.sandbox();
  for (const onDisconnect of ["kill", "keep"] as const) {
    const executionId = `x-${unique()}`;
    for await (const event of sandbox.execStream("echo ready; sleep 600", { executionId, onDisconnect })) {
      if (event.type === "stdout") break;
    }
    const process = await sandbox.getProcess(executionId);
    expect(process?.status).toBe(onDisconnect === "kill" ? "killed" : "running");
    await process?.kill();
  }
});

test("an error that is thrown into execStream ends the command", async () => {
  const sandbox = server.sandbox();
  const executionId = `x-${unique()}`;
  const stream = sandbox.execStream("echo ready; sleep 600", { executionId });
  await stream.next();
  const failure = new Error("of the loop");
  await expect(stream.throw(failure)).rejects.toBe(failure);
  expect((await sandbox.getProcess(executionId))?.status).toBe("killed");
});

test("leaving a stream closes its connection, and a background process continues", async () => {
  const proxy = await CuttingProxy.start(server.url);
  const sandbox = server.sandbox({ baseUrl: proxy.url });
  const process = await sandbox.startProcess("echo ready; sleep 600");
  for await (const event of process.streamLogs()) if (event.type === "stdout") break;
  expect(await process.getStatus()).toBe("running");
  const controller = new AbortController();
  const reading = collect(process.streamLogs({ signal: controller.signal }));
  controller.abort();
  await aborted(reading);
  await aborted(process.waitForExit({ signal: AbortSignal.timeout(20) }));
  await aborted(process.waitForLog("never", { signal: AbortSignal.timeout(20) }));
  expect(sandbox.client.slots.used).toBe(0);
  await process.kill();
  await sandbox.close();
  await until(() => proxy.open === 0, "all connections are closed");
  await proxy.stop();
});

test("an abort outlasts a server that refuses for a moment", async () => {
  let refusals = 0;
  const refusing = async (url: string | URL | Request, init?: RequestInit) => {
    if (init?.method !== "DELETE" || refusals > 1) return fetch(url, init);
    refusals++;
    const body = { code: "SHUTTING_DOWN", message: "the server is stopping" };
    return new Response(JSON.stringify(body), { status: 503, headers: { "retry-after": "1" } });
  };
  const controller = new AbortController();
  const options = { signal: controller.signal, onOutput: () => controller.abort() };
  const running = server.sandbox({ fetch: refusing }).exec("echo ready; sleep 600", options);
  expect((await aborted(running)).result?.end.reason).toBe("killed");
  expect(refusals).toBe(2);
});

test("an abort does not wait for a server that is silent", async () => {
  const silent = (url: string | URL | Request, init?: RequestInit) => {
    if (init?.method !== "DELETE") return fetch(url, init);
    return new Promise<Response>((_, reject) => {
      init.signal?.addEventListener("abort", () => reject(init.signal?.reason));
    });
  };
  const sandbox = server.sandbox({ fetch: silent });
  const ids = [`x-${unique()}`, `x-${unique()}`] as const;
  const controller = new AbortController();
  const options = { signal: controller.signal, onOutput: () => controller.abort() };
  const running = aborted(sandbox.exec("echo ready; sleep 600", { ...options, executionId: ids[0] }));
  for await (const event of sandbox.execStream("echo ready; sleep 600", { executionId: ids[1] })) {
    if (event.type === "stdout") break;
  }
  expect((await running).result?.stdout).toBe("ready\n");
  for (const id of ids) await server.sandbox().killProcess(id);
});

test("an abort in a session keeps the shell", async () => {
  const sandbox = connect();
  await using session = await sandbox.createSession();
  const controller = new AbortController();
  const options = { signal: controller.signal, onOutput: () => controller.abort() };
  await aborted(session.exec("A=5; echo ready; sleep 600", options));
  expect((await session.exec("echo $A")).stdout).toBe("5\n");
});

test("every call takes a signal", async () => {
  const sandbox = connect();
  const signal = AbortSignal.abort();
  await aborted(sandbox.readFile("x", { signal }));
  await aborted(sandbox.listFiles(".", { signal }));
  await aborted(sandbox.createSession({ signal }));
  await aborted(sandbox.terminal({ signal }));
  await aborted(sandbox.gitStatus({ signal }));
  await aborted(sandbox.listPorts({ signal }));
  await aborted(collect(sandbox.watch(".", { signal })));
  await aborted(collect(sandbox.events({ signal })));
  await aborted(sandbox.waitForPort(9, { signal }));
});

test("an abort is not delayed by a server that is gone", async () => {
  const proxy = await CuttingProxy.start(server.url);
  const sandbox = server.sandbox({ baseUrl: proxy.url, reconnectTimeout: 600_000 });
  const controller = new AbortController();
  const [one, two] = [`x-${unique()}`, `x-${unique()}`];
  let started: () => void = () => undefined;
  const start = new Promise<void>((resolve) => {
    started = resolve;
  });
  const awaited = aborted(sandbox.exec("sleep 600", { executionId: one, signal: controller.signal }));
  const options = { executionId: two, signal: controller.signal, onOutput: () => started() };
  const streamed = aborted(sandbox.exec("echo part; sleep 600", options));
  await start;
  await until(async () => !!(await server.sandbox().getProcess(one)), "the first command is known");
  await proxy.stop();
  controller.abort();
  await awaited;
  expect((await streamed).result?.stdout).toBe("part\n");
  for (const id of [one, two]) await server.sandbox().killProcess(id);
});

test("an abort ends the command of a stream, also if its loop does not continue", async () => {
  const sandbox = server.sandbox();
  const executionId = `x-${unique()}`;
  const controller = new AbortController();
  const stream = sandbox.execStream("echo ready; sleep 600", { executionId, signal: controller.signal });
  await stream.next();
  const logs = sandbox.streamProcessLogs(executionId, { signal: controller.signal });
  await logs.next();
  controller.abort();
  const other = server.sandbox();
  await until(async () => (await other.getProcess(executionId))?.status === "killed", "the command has ended");
  await until(() => sandbox.client.slots.used === 0, "the connections are free");
});

test("closing a sandbox ends a call that waits for the connection of an unread stream", async () => {
  const sandbox = server.sandbox({ maxConnections: 1 });
  const stream = sandbox.execStream("sleep 600", { onDisconnect: "keep" });
  await stream.next();
  const waiting = expect(sandbox.ping()).rejects.toMatchObject({ message: expect.stringContaining("closed") });
  await sandbox.close();
  await waiting;
  await expect(sandbox.openSocket()).rejects.toMatchObject({ message: expect.stringContaining("closed") });
  await server.sandbox().killAllProcesses();
});

test("many calls share a signal, without a warning about listeners", async () => {
  const sandbox = server.sandbox();
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => warnings.push(warning);
  process.on("warning", onWarning);
  const { signal } = new AbortController();
  const calls = Array.from({ length: 20 }, (_, number) => [
    sandbox.exec("true", { signal, stream: number % 2 === 0 }),
    collect(sandbox.execStream("true", { signal })),
    sandbox.ping({ signal }),
  ]);
  await Promise.all(calls.flat());
  // Warnings are events of their own.
  await new Promise((resolve) => setTimeout(resolve));
  process.off("warning", onWarning);
  expect(warnings).toEqual([]);
});
