// Servers of other versions, and what the HTTP layer does by itself. The servers are fakes.
import { expect, test } from "vitest";
import { getSandbox, LimitError, NotFoundError, SandcrabError, ServerError } from "../src/index.js";
import { SseParser } from "../src/sse.js";
import { answer, fake } from "./fake.js";
import { collect, connect } from "./support.js";

test("an unknown error code has the class of its status", async () => {
  const sandbox = await fake((_request, response) =>
    answer(response, 404, { code: "NEW_CODE", message: "new", context: { a: 1 } }),
  );
  const error = await sandbox.readFile("x").catch((error: unknown) => error);
  expect(error).toBeInstanceOf(NotFoundError);
  expect(error).toMatchObject({ code: "NEW_CODE", status: 404, message: "new", context: { a: 1 } });
});

test("an unknown status, and an answer that is not of a Sandcrab server", async () => {
  const teapot = await fake((_request, response) => answer(response, 418, { code: "TEAPOT", message: "short" }));
  const error = (await teapot.ping().catch((error: unknown) => error)) as SandcrabError;
  expect(error.constructor).toBe(SandcrabError);
  const proxy = await fake((_request, response) => response.writeHead(502).end("<html>bad gateway</html>"));
  const bad = (await proxy.ping().catch((error: unknown) => error)) as SandcrabError;
  expect(bad).toBeInstanceOf(ServerError);
  expect(bad.message).toContain("bad gateway");
});

test("unknown events and fields are passed through", async () => {
  const events = [
    { type: "start", command: "x", executionId: "e", newField: true },
    { type: "weather", data: "sunny" },
    { type: "stdout", data: "out", colour: "red" },
    { type: "complete", exitCode: 0, end: { reason: "teleported" }, usage: {}, result: { success: true, exitCode: 0 } },
  ];
  const sandbox = await fake((_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const event of events)
      response.write(`event: x\r\nid: 1\r\ndata: ${JSON.stringify(event)}\r\n\r\n: comment\n`);
    response.end();
  });
  const cursors = events.map((event) => ({ ...event, cursor: "1" }));
  expect(await collect(sandbox.execStream("x", { onDisconnect: "keep" }))).toEqual(cursors);
  const result = await sandbox.exec("x", { stream: true });
  expect(result).toMatchObject({ stdout: "out", end: { reason: "teleported" }, timedOut: false });
});

test("a server that is stopping, or is busy, is asked again", async () => {
  let requests = 0;
  const sandbox = await fake((_request, response) => {
    if (++requests < 3) answer(response, 503, { code: "SHUTTING_DOWN", message: "stopping" }, { "retry-after": "1" });
    else answer(response, 200, { success: true });
  });
  expect(await sandbox.ping()).toEqual({ success: true });
  expect(requests).toBe(3);
  const busy = await fake(
    (_request, response) => answer(response, 429, { code: "LIMIT_EXCEEDED", message: "busy" }, { "retry-after": "1" }),
    {
      reconnectTimeout: 100,
    },
  );
  await expect(busy.ping()).rejects.toBeInstanceOf(LimitError);
  await expect(busy.mkdir("x")).rejects.toBeInstanceOf(LimitError);
});

test("a wait that `fetch` gives up is repeated with the same key", async () => {
  const keys: (string | null)[] = [];
  // As Node's fetch does after 300 s without headers.
  const impatient: typeof fetch = (url, init) => {
    keys.push(new Headers(init?.headers).get("idempotency-key"));
    const failure = new TypeError("fetch failed", {
      cause: Object.assign(new Error("Headers Timeout Error"), { code: "UND_ERR_HEADERS_TIMEOUT" }),
    });
    const late = new Promise<Response>((_, reject) => setTimeout(() => reject(failure), 1_000));
    return Promise.race([fetch(url, init), late]);
  };
  const sandbox = connect({ fetch: impatient });
  const result = await sandbox.exec("echo begin; sleep 2.5; echo end");
  expect(result.stdout).toBe("begin\nend\n");
  expect(keys.length).toBeGreaterThan(1);
  expect(new Set(keys).size).toBe(1);
});

test("the options of the program's own connection pool are kept", async () => {
  await fetch("data:,");
  const scope = globalThis as unknown as Record<symbol, { constructor: new (options: object) => never }>;
  const key = Symbol.for("undici.globalDispatcher.1");
  const before = scope[key] as { constructor: new (options: object) => never };
  let connections = 0;
  const refuse = (_options: object, callback: (error: Error) => void) => {
    connections++;
    callback(Object.assign(new Error("the connector of the program"), { code: "ECONNREFUSED" }));
  };
  scope[key] = new before.constructor({ connect: refuse });
  try {
    await expect(connect().ping()).rejects.toMatchObject({ message: expect.stringContaining("of the program") });
    expect(connections).toBe(1);
  } finally {
    scope[key] = before;
  }
});

test("redirects are refused: the token must not go elsewhere", async () => {
  let authorization: string | undefined;
  const target = await fake((request, response) => {
    authorization = request.headers.authorization;
    answer(response, 200, {});
  });
  const location = `${target.client.base}/api/ping`;
  const sandbox = await fake((_request, response) => response.writeHead(307, { location }).end(), {
    token: "secret",
  });
  const refused = { code: "INVALID_RESPONSE", status: 307 };
  await expect(sandbox.ping()).rejects.toMatchObject(refused);
  await expect(sandbox.readBytes("x")).rejects.toMatchObject(refused);
  expect(authorization).toBeUndefined();
});

test("ids cannot lead to another route", async () => {
  const sandbox = connect();
  for (const id of ["", ".", "..", "list", "kill-all"])
    await expect(sandbox.getProcess(id)).rejects.toMatchObject({ code: "VALIDATION_FAILED" });
  expect(await sandbox.getProcess("a/../list")).toBeNull();
  expect(() => getSandbox({ baseUrl: "ftp://x" })).toThrow(/base URL/);
});

test("events are the same, however they are split", () => {
  const text = ': hi\n\nid: 1\ndata: {"a":\ndata: 1}\n\nretry: 5\nevent: x\r\nid:2\r\ndata:b\r\n\r\nid\ndata\n\n';
  const expected = [
    { id: "1", data: '{"a":\n1}' },
    { id: "2", data: "b" },
    { id: "", data: "" },
  ];
  for (let size = 1; size <= text.length; size++) {
    const parser = new SseParser();
    const events = [];
    for (let at = 0; at < text.length; at += size) events.push(...parser.push(text.slice(at, at + size)));
    expect(events).toEqual(expected);
  }
});

test("an answer that is not of a Sandcrab server is an error at once", async () => {
  let requests = 0;
  const page = await fake((_request, response) => {
    requests++;
    response.writeHead(200, { "content-type": "text/html" }).end("<html>sign in</html>");
  });
  const invalid = (text: string) => ({ code: "INVALID_RESPONSE", message: expect.stringContaining(text) });
  await expect(page.ping()).rejects.toMatchObject(invalid("sign in"));
  await expect(collect(page.events())).rejects.toMatchObject(invalid("text/html"));
  const broken = await fake((_request, response) => {
    requests++;
    response.writeHead(200, { "content-type": "text/event-stream" }).write("data: {\n\n");
  });
  await expect(collect(broken.events())).rejects.toMatchObject(invalid("{"));
  expect(requests).toBe(3);
});

test("a watch of a server that stops is resumed, and tells that changes may be missing", async () => {
  let requests = 0;
  const timestamp = new Date().toISOString();
  const sandbox = await fake((_request, response) => {
    const last =
      ++requests === 1
        ? { type: "error", error: "the server is stopping", data: "", code: "SHUTTING_DOWN", timestamp }
        : { type: "stopped", reason: "timeout", timestamp };
    const watching = { type: "watching", path: "p", watchId: `w-${requests}`, timestamp };
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end([watching, last].map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""));
  });
  expect(await collect(sandbox.watch("p"))).toMatchObject([
    { type: "watching", watchId: "w-1" },
    { type: "watching", watchId: "w-2" },
    { type: "resync", reason: "reconnected" },
    { type: "stopped", reason: "timeout" },
  ]);
});
