// What belongs to the program is left alone: its signals, its `fetch`, its dispatcher.
import { getEventListeners, getMaxListeners } from "node:events";
import { afterEach, expect, test, vi } from "vitest";
import { AbortError } from "../src/index.js";
import { answer, fake } from "./fake.js";
import { collect, connect, unique, until } from "./support.js";

afterEach(() => vi.restoreAllMocks());

test("many calls that share a composed signal add one listener, and leave none", async () => {
  const sandbox = connect();
  const signal = AbortSignal.any([new AbortController().signal, new AbortController().signal]);
  const limit = getMaxListeners(signal);
  const calls = Array.from({ length: 20 }, (_, number) => [
    sandbox.exec("sleep 0.2", { signal, stream: number % 2 === 0 }),
    collect(sandbox.execStream("true", { signal })),
    sandbox.ping({ signal }),
  ]);
  await sandbox.ping();
  expect(getEventListeners(signal, "abort").length).toBe(1);
  await Promise.all(calls.flat());
  expect(getEventListeners(signal, "abort").length).toBe(0);
  expect(getMaxListeners(signal)).toBe(limit);
});

/** A signal of another class, such as those of jsdom and of older libraries. */
class OtherSignal {
  aborted = false;
  reason: unknown;
  readonly #listeners = new Set<() => void>();

  addEventListener(_type: string, listener: () => void): void {
    this.#listeners.add(listener);
  }

  removeEventListener(_type: string, listener: () => void): void {
    this.#listeners.delete(listener);
  }

  abort(reason: unknown): void {
    this.aborted = true;
    this.reason = reason;
    for (const listener of [...this.#listeners]) listener();
  }
}

test("a signal of another class works", async () => {
  const sandbox = connect();
  const other = new OtherSignal();
  const signal = other as unknown as AbortSignal;
  expect(await sandbox.exec("echo works", { signal })).toMatchObject({ stdout: "works\n" });
  const executionId = `x-${unique()}`;
  const running = sandbox.exec("sleep 600", { signal, executionId });
  await until(async () => !!(await sandbox.getProcess(executionId)), "the command is known");
  other.abort("enough");
  const error = await running.catch((error: unknown) => error);
  expect(error).toBeInstanceOf(AbortError);
  expect(error).toMatchObject({ cause: "enough", result: { end: { reason: "killed" } } });
});

test("a fetch that the program has replaced gets every request, and no others", async () => {
  const sandbox = await fake((_request, response) => response.destroy());
  const urls: unknown[] = [];
  vi.spyOn(globalThis, "fetch").mockImplementation(async (url, init) => {
    urls.push(url, Object.hasOwn(init ?? {}, "dispatcher"));
    return Response.json({ success: true, message: "mocked" });
  });
  expect(await sandbox.ping()).toMatchObject({ message: "mocked" });
  expect(await new Response(await sandbox.readBytes("x")).json()).toMatchObject({ message: "mocked" });
  expect(urls).toEqual([`${sandbox.client.base}/api/ping`, false, `${sandbox.client.base}/api/file?path=x`, false]);
});

interface Dispatcher {
  compose(interceptor: (dispatch: (options: object, handler: object) => boolean) => unknown): Dispatcher;
}

test("interceptors of the program see every request", async () => {
  const sandbox = await fake((_request, response) => answer(response, 200, { message: "pong" }));
  await sandbox.ping();
  const scope = globalThis as unknown as Record<symbol, Dispatcher>;
  const key = Symbol.for("undici.globalDispatcher.1");
  const before = scope[key] as Dispatcher;
  const paths: unknown[] = [];
  scope[key] = before.compose((dispatch) => (options: { path?: unknown }, handler: object) => {
    paths.push(options.path);
    return dispatch(options, handler);
  });
  try {
    expect(await sandbox.ping()).toMatchObject({ message: "pong" });
    await (await sandbox.readBytes("x")).cancel();
    expect(paths).toEqual(["/api/ping", "/api/file?path=x"]);
  } finally {
    scope[key] = before;
  }
  await sandbox.ping();
  expect(paths.length).toBe(2);
});

test("an answer that is cut or aborted in its body fails, and nothing is left to crash the program", async () => {
  let cut = true;
  const begun = deferred();
  const sandbox = await fake(
    (_request, response) => {
      response.writeHead(200, { "content-type": "application/json", "content-length": "100" }).write('{"a":');
      if (cut) setTimeout(() => response.destroy(), 20);
      else begun.resolve();
    },
    { reconnectTimeout: 0 },
  );
  await expect(sandbox.ping()).rejects.toMatchObject({ code: "CONNECTION_FAILED" });
  cut = false;
  const controller = new AbortController();
  const call = expect(sandbox.ping({ signal: controller.signal })).rejects.toBeInstanceOf(AbortError);
  await begun.promise;
  controller.abort();
  await call;
  // Unhandled errors are events of their own: the runner reports them.
  await new Promise((resolve) => setTimeout(resolve, 50));
});

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
