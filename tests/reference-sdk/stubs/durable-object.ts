// As much of a Durable Object's surroundings as `Sandbox`, the class above `SandboxClient`, needs: a
// storage, and a container that is up, whose port is the server under test.
import { Database } from "bun:sqlite";
import { baseUrl } from "../support";

/** A pass-through that takes what comes after its reader has left: the class does not look at how its pipe ends. */
class IdentityTransformStream {
  private left = false;
  private output!: ReadableStreamDefaultController<Uint8Array>;
  readonly readable = new ReadableStream<Uint8Array>({
    start: (controller) => void (this.output = controller),
    cancel: () => void (this.left = true),
  });
  readonly writable = new WritableStream<Uint8Array>({
    write: (chunk) => void (this.left || this.output.enqueue(chunk)),
    close: () => void (this.left || this.output.close()),
    abort: (reason) => void (this.left || this.output.error(reason)),
  });
}
Object.assign(globalThis, { IdentityTransformStream });

class Storage extends Map<string, unknown> {
  private database = new Database(":memory:");

  // The base class keeps its schedules in SQL and its settings in `kv`; both are in memory here.
  readonly sql = { exec: (query: string, ...values: never[]) => this.database.query(query).all(...values) };
  readonly kv = { get: (key: string) => this.get(key), put: (key: string, value: unknown) => this.set(key, value) };

  put = async (key: string, value: unknown) => void this.set(key, value);
  setAlarm = async () => {};
  getAlarm = async () => null;
  deleteAlarm = async () => {};
  sync = async () => {};
  transaction = async <T>(body: (storage: Storage) => Promise<T>) => body(this);
}

/** Sends what is meant for the container to the server under test. */
async function forward(target: string | Request, init?: RequestInit): Promise<Response> {
  const request = new Request(target, init);
  const { pathname, search } = new URL(request.url);
  const response = await fetch(`${baseUrl}${pathname}${search}`, {
    method: request.method,
    headers: request.headers,
    body: request.body,
    signal: request.signal,
  });
  // Where this class runs, every response says whether it is a WebSocket.
  return Object.defineProperty(response, "webSocket", { value: null });
}

export function durableObjectState(name: string) {
  return {
    id: { toString: () => name, name },
    storage: new Storage(),
    blockConcurrencyWhile: <T>(body: () => Promise<T>) => body(),
    waitUntil: () => {},
    abort: (reason: unknown) => {
      throw new Error(`The Durable Object was aborted: ${reason}`);
    },
    // Nothing stands between this container and the network.
    exports: { ContainerProxy: () => ({}) },
    container: {
      interceptAllOutboundHttp: async () => {},
      running: true,
      start: () => {},
      signal: () => {},
      destroy: async () => {},
      monitor: () => new Promise<never>(() => {}),
      getTcpPort: () => ({ fetch: forward }),
    },
  };
}
