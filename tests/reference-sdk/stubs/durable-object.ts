// As much of a Durable Object's surroundings as `Sandbox`, the class above `SandboxClient`, needs: a
// storage, and a container that is up, whose port is the server under test.
import { Database } from "bun:sqlite";
import { timingSafeEqual } from "node:crypto";
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

// The class compares tokens with a function that only its own runtime has.
const subtle = crypto.subtle as unknown as { timingSafeEqual?: typeof timingSafeEqual };
subtle.timingSafeEqual ??= (a, b) => a.byteLength === b.byteLength && timingSafeEqual(a, b);

/** The port of the server in the container. */
const CONTROL_PORT = 3000;

const forward = (target: string | Request, init?: RequestInit) => send(baseUrl, target, init);
const forwardTo = (port: number) => (target: string | Request, init?: RequestInit) =>
  send(`http://127.0.0.1:${port}`, target, init);

/** Sends what is meant for a port of the container to this server. */
async function send(base: string, target: string | Request, init?: RequestInit): Promise<Response> {
  const request = new Request(target, init);
  const { pathname, search } = new URL(request.url);
  const response = await fetch(`${base}${pathname}${search}`, {
    redirect: request.redirect,
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
      // The class reaches the server through one port, and the programs of previews through theirs.
      getTcpPort: (port: number) => ({ fetch: port === CONTROL_PORT ? forward : forwardTo(port) }),
    },
  };
}
