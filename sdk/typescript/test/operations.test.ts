// Every operation of openapi.json is reachable: `sdk/operations.json` names a method for each, and the method sends that request.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { getSandbox, Process, Service, Session, Terminal } from "../src/index.js";

type Methods = Record<string, (...args: unknown[]) => unknown>;

const read = (path: string) => JSON.parse(readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8"));
const names = read("sdk/operations.json") as Record<string, { typescript?: string }>;
const operations = Object.entries(
  read("openapi.json").paths as Record<string, Record<string, { operationId?: string }>>,
)
  .flatMap(([path, item]) => Object.entries(item).map(([method, { operationId }]) => ({ method, path, operationId })))
  .filter((operation) => operation.operationId !== undefined);

/** The requests of a method. Each is refused, so the arguments do not matter. */
async function requests(name: string): Promise<string[]> {
  const seen: string[] = [];
  const note = (method: string, url: string) => seen.push(`${method} ${new URL(url).pathname}`);
  class RefusedSocket {
    onerror: (() => void) | null = null;

    constructor(url: string) {
      note("get", url);
      queueMicrotask(() => this.onerror?.());
    }
  }
  const sandbox = getSandbox({
    baseUrl: "http://127.0.0.1:1",
    fetch: async (url, init) => {
      note(String(init?.method).toLowerCase(), String(url));
      return new Response('{"code": "REFUSED", "message": "refused"}', { status: 418 });
    },
    WebSocket: RefusedSocket as unknown as typeof WebSocket,
  });
  const fields = {
    id: "i",
    executionId: "i",
    command: "",
    createdAt: "",
    startTime: "",
    status: "running",
    cols: 1,
    rows: 1,
  };
  const { client } = sandbox;
  const objects: Record<string, unknown> = {
    Sandbox: sandbox,
    Session: new Session(client, fields),
    Process: new Process(client, { ...fields, status: "running" }),
    Service: new Service(client, { ...fields, state: "healthy" } as never),
    Terminal: new Terminal(client, fields),
  };
  const [type, method] = name.split(".") as [string, string];
  const call = (objects[type] as Methods | undefined)?.[method];
  if (!call) return [`${name} does not exist`];
  try {
    const result = call.call(objects[type], "a", "b");
    await (typeof (result as AsyncGenerator).next === "function" ? (result as AsyncGenerator).next() : result);
  } catch (error) {
    seen.push(String(error));
  }
  return seen;
}

test.each(operations)("$operationId: $method $path", async ({ method, path, operationId }) => {
  const name = names[operationId as string]?.typescript;
  expect(name, "sdk/operations.json names a method").toBeDefined();
  const route = path.replace(/\{\w+\}/g, "[^/]+");
  expect(await requests(name as string)).toContainEqual(expect.stringMatching(new RegExp(`^${method} ${route}$`)));
});

test("sdk/operations.json names operations that exist", () => {
  expect(Object.keys(names).sort()).toEqual(operations.map(({ operationId }) => operationId).sort());
});
