// Lost connections: every byte once, in order.
import { type AddressInfo, createServer } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Sandbox } from "../src/index.js";
import { CuttingProxy, GatewayProxy } from "./proxy.js";
import { TestServer } from "./server.js";
import { collect, unique, until } from "./support.js";

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.remove());

/** Random lengths that are the same in every run. */
function lengths(least: number, most: number): () => number {
  let state = 12345;
  return () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return least + (state % (most - least));
  };
}

/** What `seq` prints. */
function numbers(count: number): string {
  let text = "";
  for (let number = 1; number <= count; number++) text += `${number}\n`;
  return text;
}

/** A command that prints numbers until a file exists: long enough for any number of cuts, in small events. */
function counting(stop: string, prefix = ""): string {
  return `i=0; until [ -e ${stop} ]; do for ((j = 0; j < 20; j++)); do echo ${prefix}$((++i)); done; sleep 0.01; done; rm ${stop}`;
}

function lastNumber(text: string): number {
  return Number(text.trimEnd().split("\n").at(-1));
}

test("200 cut connections of a command", async () => {
  const length = lengths(600, 6_000);
  const proxy = await CuttingProxy.start(server.url, () => (proxy.cuts < 200 ? length() : Infinity));
  const sandbox = server.sandbox({ baseUrl: proxy.url });
  const [runs, stop] = [`runs-${unique()}`, `stop-${unique()}`];
  let stdout = "";
  let stderr = "";
  let isStopped = false;
  const result = await sandbox.exec(`echo run >> ${runs}; ${counting(stop)}; echo end >&2`, {
    onOutput: (stream, data) => {
      if (stream === "stdout") stdout += data;
      else stderr += data;
      if (proxy.cuts < 200 || isStopped) return;
      isStopped = true;
      void server.sandbox().writeFile(stop, "");
    },
  });
  expect(proxy.cuts).toBe(200);
  expect(result.exitCode).toBe(0);
  expect(stdout === numbers(lastNumber(stdout))).toBe(true);
  expect(result.stdout === stdout).toBe(true);
  expect(stderr).toBe("end\n");
  // The command was started once, however often its request was sent.
  expect((await server.sandbox().exec(`cat ${runs}`)).stdout).toBe("run\n");
  await proxy.stop();
});

test("cut connections of a process, as bytes", async () => {
  const length = lengths(600, 6_000);
  const proxy = await CuttingProxy.start(server.url, () => (proxy.cuts < 30 ? length() : Infinity));
  const sandbox = server.sandbox({ baseUrl: proxy.url });
  const stop = `stop-${unique()}`;
  // "é" has two bytes, which can be in different events.
  const process = await sandbox.startProcess(counting(stop, "é"));
  const bytes: Uint8Array[] = [];
  const types: string[] = [];
  let isStopped = false;
  for await (const event of process.streamLogs({ encoding: "bytes" })) {
    if (event.type === "stdout") bytes.push(event.data);
    else types.push(event.type);
    if (proxy.cuts < 30 || isStopped) continue;
    isStopped = true;
    await server.sandbox().writeFile(stop, "");
  }
  const text = Buffer.concat(bytes).toString().replaceAll("é", "");
  expect(text === numbers(lastNumber(text))).toBe(true);
  expect(types).toEqual(["process_info", "exit"]);
  await proxy.stop();
});

test("cut answers: a start happens once, and its result arrives", async () => {
  // Cuts within the headers, and within the body.
  const cuts = [1, 40, 120, 200, 260];
  const proxy = await CuttingProxy.start(server.url, (connection) => cuts[connection] ?? Infinity);
  const sandbox = server.sandbox({ baseUrl: proxy.url });
  const runs = `runs-${unique()}`;
  const result = await sandbox.exec(`echo run >> ${runs}; wc -l < ${runs}`);
  expect(result.stdout.trim()).toBe("1");
  expect(proxy.cuts).toBe(cuts.length);
  await proxy.stop();
});

test("cut answers: a session is created and forked once", async () => {
  const cuts = [1, 200, 260];
  const proxy = await CuttingProxy.start(server.url, (connection) => cuts[connection] ?? Infinity);
  const sandbox = server.sandbox({ baseUrl: proxy.url });
  const session = await sandbox.createSession({ cwd: "/usr" });
  expect((await session.exec("A=1; pwd")).stdout).toBe("/usr\n");
  const fork = await session.fork();
  expect((await fork.exec("echo $A")).stdout).toBe("1\n");
  expect(await sandbox.listSessions()).toHaveLength(2);
  expect(proxy.cuts).toBe(cuts.length);
  await Promise.all([session.delete(), fork.delete()]);
  await proxy.stop();
});

test("a write is not repeated", async () => {
  const proxy = await CuttingProxy.start(server.url, () => 1);
  const sandbox = server.sandbox({ baseUrl: proxy.url });
  await expect(sandbox.writeFile(`f-${unique()}`, "x")).rejects.toMatchObject({ code: "CONNECTION_FAILED" });
  expect(proxy.cuts).toBe(1);
  await proxy.stop();
});

test("the creation of a terminal is not repeated", async () => {
  const proxy = await CuttingProxy.start(server.url, () => 1);
  const sandbox = server.sandbox({ baseUrl: proxy.url });
  const creating = sandbox.terminal({ id: `t-${unique()}`, command: "true" });
  await expect(creating).rejects.toMatchObject({ code: "CONNECTION_FAILED" });
  expect(proxy.cuts).toBe(1);
  await proxy.stop();
});

/** A command that prints 4,000 lines, and stops in the middle until the file `go` exists. */
function paused(go: string): string {
  return `seq 2000; until [ -e ${go} ]; do sleep 0.05; done; seq 2001 4000; rm ${go}`;
}

/** `away` resolves when the server may be started again. */
async function readAcrossStop(
  sandbox: Sandbox,
  signal: NodeJS.Signals,
  away: () => Promise<void> = async () => undefined,
): Promise<void> {
  const go = `go-${unique()}`;
  const background = await sandbox.startProcess(paused(`p-${go}`));
  let stdout = "";
  let logs = "";
  let halves = 0;
  let reached: () => unknown = () => undefined;
  const half = new Promise<void>((resolve) => {
    reached = () => ++halves === 2 && resolve();
  });
  const running = sandbox.exec(paused(go), {
    onOutput: (_stream, data) => {
      stdout += data;
      if (data.endsWith("\n2000\n")) reached();
    },
  });
  const following = (async () => {
    for await (const event of background.streamLogs()) {
      if (event.type === "stdout") logs += event.data;
      if (event.type === "stdout" && event.data.endsWith("\n2000\n")) reached();
    }
  })();
  const waiting = background.waitForExit();
  await half;
  await server.stop(signal);
  await away();
  await server.launch();
  await server.sandbox().exec(`touch ${go} p-${go}`);
  const [result, , exit] = await Promise.all([running, following, waiting]);
  expect(result.exitCode).toBe(0);
  expect(exit.exitCode).toBe(0);
  expect(stdout === numbers(4_000)).toBe(true);
  expect(logs === numbers(4_000)).toBe(true);
}

test("the server is restarted in the middle of streams", () => readAcrossStop(server.sandbox(), "SIGTERM"));

test("the server is killed in the middle of streams", () => readAcrossStop(server.sandbox(), "SIGKILL"));

test.each(["SIGTERM", "SIGKILL"] as const)("behind a proxy that answers 502 meanwhile: %s", async (signal) => {
  // Longer than one request of a wait.
  const proxy = await GatewayProxy.start(server.url, 300_000);
  const sandbox = server.sandbox({ baseUrl: proxy.url });
  // A wait, a stream of a process and one of a command ask again.
  await readAcrossStop(sandbox, signal, () => until(() => proxy.refusals.length >= 3, "three requests are refused"));
  expect(new Set(proxy.refusals)).toEqual(new Set([502]));
  await sandbox.close();
  await proxy.stop();
});

test("behind a proxy that answers 504 to a long command", async () => {
  const proxy = await GatewayProxy.start(server.url, 500);
  const sandbox = server.sandbox({ baseUrl: proxy.url, reconnectTimeout: 400 });
  const [go, runs] = [`go-${unique()}`, `runs-${unique()}`];
  const running = sandbox.exec(`echo run >> ${runs}; ${paused(go)}`);
  await until(() => proxy.refusals.length >= 3, "three answers are late");
  await server.sandbox().exec(`touch ${go}`);
  expect((await running).stdout === numbers(4_000)).toBe(true);
  expect((await server.sandbox().exec(`cat ${runs}`)).stdout).toBe("run\n");
  expect(new Set(proxy.refusals)).toEqual(new Set([504]));
  await sandbox.close();
  await proxy.stop();
});

test("a proxy whose server stays away is given up, and a write is not repeated", async () => {
  const closed = await CuttingProxy.start(server.url);
  const proxy = await GatewayProxy.start(closed.url);
  await closed.stop();
  const sandbox = server.sandbox({ baseUrl: proxy.url, reconnectTimeout: 1_000 });
  const refused = { code: "INVALID_RESPONSE", status: 502, name: "ServerError" };
  await expect(sandbox.writeFile(`f-${unique()}`, "x")).rejects.toMatchObject(refused);
  expect(proxy.refusals).toHaveLength(1);
  await expect(sandbox.ping()).rejects.toMatchObject(refused);
  await expect(collect(sandbox.execStream("true"))).rejects.toMatchObject(refused);
  expect(proxy.refusals.length).toBeGreaterThan(4);
  await sandbox.close();
  await proxy.stop();
});

test("a proxy whose server hangs is given up", async () => {
  const silent = createServer((socket) => socket.on("error", () => undefined));
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const proxy = await GatewayProxy.start(`http://127.0.0.1:${(silent.address() as AddressInfo).port}`, 300);
  const sandbox = server.sandbox({ baseUrl: proxy.url, reconnectTimeout: 100 });
  await expect(sandbox.ping()).rejects.toMatchObject({ code: "INVALID_RESPONSE", status: 504 });
  expect(proxy.refusals).toEqual([504, 504]);
  await sandbox.close();
  await proxy.stop();
  silent.close();
});

test.each([
  ["SHUTTING_DOWN", 503],
  ["LIMIT_EXCEEDED", 429],
])("%s is temporary, also if its headers are hidden", async (code, status) => {
  let requests = 0;
  const refusing = async (url: string | URL | Request, init?: RequestInit) => {
    if (++requests > 1) return fetch(url, init);
    return new Response(JSON.stringify({ code, message: "later" }), { status });
  };
  await server.sandbox({ fetch: refusing }).ping();
  expect(requests).toBe(2);
});

test("the deletion of a terminal or a service is not repeated", async () => {
  let deletions = 0;
  const losing = async (url: string | URL | Request, init?: RequestInit) => {
    const response = await fetch(url, init);
    if (init?.method !== "DELETE") return response;
    deletions++;
    throw new TypeError("fetch failed");
  };
  const sandbox = server.sandbox({ fetch: losing });
  const terminal = await sandbox.terminal({ command: "sleep 600" });
  await expect(terminal.destroy()).rejects.toMatchObject({ code: "CONNECTION_FAILED" });
  // The second deletion would have removed its record.
  expect(await sandbox.getTerminal(terminal.id)).not.toBeNull();
  const service = await sandbox.startService("sleep 600");
  await expect(service.delete()).rejects.toMatchObject({ code: "CONNECTION_FAILED" });
  expect(deletions).toBe(2);
});

test("lost connections do not prolong a wait", async () => {
  const proxy = await GatewayProxy.start(server.url, 500);
  const sandbox = server.sandbox({ baseUrl: proxy.url });
  await using process = await server.sandbox().startProcess("sleep 600");
  await using terminal = await server.sandbox().terminal({ command: "cat" });
  const late = { code: "PROCESS_READY_TIMEOUT", status: 408 };
  // Each request would be given up by the proxy, if it had the whole timeout.
  await expect((await sandbox.getProcess(process.id))?.waitForExit(1_000)).rejects.toMatchObject(late);
  await expect((await sandbox.getTerminal(terminal.id))?.waitForText("never", 1_000)).rejects.toMatchObject(late);
  await sandbox.close();
  await proxy.stop();
});

test.each(["away", "silent"])("a wait ends in time, although the server is %s", async (how) => {
  const proxy = await CuttingProxy.start(server.url);
  let isSilent = false;
  const muted = (url: string | URL | Request, init?: RequestInit) =>
    isSilent ? new Promise<Response>(() => undefined) : fetch(url, init);
  const sandbox = server.sandbox({ baseUrl: proxy.url, reconnectTimeout: 600_000, fetch: muted });
  const process = await sandbox.startProcess("sleep 600");
  const terminal = await sandbox.terminal({ command: "cat" });
  if (how === "away") await proxy.stop();
  isSilent = how === "silent";
  const late = { code: "PROCESS_READY_TIMEOUT" };
  await Promise.all([
    expect(process.waitForExit(300)).rejects.toMatchObject(late),
    expect(terminal.waitForText("never", 300)).rejects.toMatchObject(late),
    expect(terminal.waitForIdle(600_000, 300)).rejects.toMatchObject(late),
  ]);
  if (how === "silent") await proxy.stop();
  await server.sandbox().killProcess(process.id);
  await (await server.sandbox().getTerminal(terminal.id))?.destroy();
});

test.each(["SIGTERM", "SIGKILL"] as const)("a watch continues after a restart of the server: %s", async (signal) => {
  const sandbox = server.sandbox();
  const path = `watched-${unique()}`;
  await sandbox.mkdir(path);
  const seen: string[] = [];
  for await (const event of sandbox.watch(path)) {
    seen.push(event.type === "resync" ? `resync ${event.reason}` : event.type);
    if (seen.length === 1) {
      await server.stop(signal);
      await server.launch();
    }
    if (event.type === "resync") await server.sandbox().writeFile(`${path}/new`, "x");
    if (event.type === "event") break;
  }
  expect(seen).toEqual(["watching", "watching", "resync reconnected", "event"]);
});

test("the server is killed while a result is awaited", async () => {
  const sandbox = server.sandbox();
  const go = `go-${unique()}`;
  const executionId = `x-${unique()}`;
  const running = sandbox.exec(paused(go), { executionId });
  for await (const event of sandbox.streamProcessLogs(await started(sandbox, executionId))) {
    if (event.type === "stdout") break;
  }
  await server.stop("SIGKILL");
  await server.launch();
  await server.sandbox().exec(`touch ${go}`);
  const result = await running;
  expect(result.stdout === numbers(4_000)).toBe(true);
});

/** Waits until an execution is known. */
async function started(sandbox: Sandbox, executionId: string): Promise<string> {
  while (!(await sandbox.getProcess(executionId))) await new Promise((resolve) => setTimeout(resolve, 20));
  return executionId;
}

test.each(["directly", "behind a proxy"])(
  "a viewer of a terminal continues after the server was killed, %s",
  async (how) => {
    const proxy = await GatewayProxy.start(server.url);
    const sandbox = server.sandbox(how === "directly" ? {} : { baseUrl: proxy.url });
    const terminal = await sandbox.terminal({ command: "stty -echo; while read line; do echo got-$line; done" });
    const connection = await terminal.connect({ cols: 80, rows: 24 });
    const seen: string[] = [];
    let output = "";
    const decoder = new TextDecoder();
    connection.write("one\n");
    let isKilled = false;
    for await (const event of connection) {
      seen.push(event.type);
      // A repaint is the whole screen.
      if (event.type === "repaint") output = "";
      if ("data" in event) output += decoder.decode(event.data);
      if (output.includes("got-one") && !isKilled) {
        isKilled = true;
        await server.stop("SIGKILL");
        if (how !== "directly") await until(() => proxy.refusals.length >= 2, "two requests are refused");
        await server.launch();
      }
      // Input that is sent while the connection breaks may be lost.
      if (event.type === "ready" && seen.includes("disconnected")) connection.write("two\n");
      if (output.includes("got-two")) break;
    }
    expect(seen).toContain("disconnected");
    expect(output.match(/got-one/g)).toHaveLength(1);
    await terminal.destroy();
    await sandbox.close();
    await proxy.stop();
  },
);

test("a server that was never reached is an error at once", async () => {
  const proxy = await CuttingProxy.start(server.url);
  const url = proxy.url;
  await proxy.stop();
  const sandbox = server.sandbox({ baseUrl: url });
  await expect(sandbox.exec("true")).rejects.toMatchObject({ code: "CONNECTION_FAILED", refused: true });
  await expect(collect(sandbox.execStream("true"))).rejects.toMatchObject({ refused: true });
});

test("a lost server is given up after the reconnect timeout", async () => {
  const proxy = await CuttingProxy.start(server.url);
  const sandbox = server.sandbox({ baseUrl: proxy.url, reconnectTimeout: 300 });
  const process = await sandbox.startProcess("echo ready; sleep 600");
  const reading = (async () => {
    for await (const event of process.streamLogs()) if (event.type === "stdout") await proxy.stop();
  })();
  await expect(reading).rejects.toMatchObject({ code: "CONNECTION_FAILED" });
  await server.sandbox().killProcess(process.id);
});

test("attempts to connect that take longer than the reconnect timeout are given up, too", async () => {
  const proxy = await CuttingProxy.start(server.url);
  let delayMs = 0;
  const slow = async (url: string | URL | Request, init?: RequestInit) => {
    await new Promise((resolve) => setTimeout(resolve, delayMs));
    return fetch(url, init);
  };
  const sandbox = server.sandbox({ baseUrl: proxy.url, reconnectTimeout: 100, fetch: slow });
  await sandbox.ping();
  await proxy.stop();
  delayMs = 150;
  await expect(sandbox.ping()).rejects.toMatchObject({ code: "CONNECTION_FAILED", refused: true });
});
