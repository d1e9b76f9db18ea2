// What Node needs: requests without timeouts, and a WebSocket.
import { NodeWebSocket } from "./node-websocket.js";

declare global {
  /** False in the build for browsers, which leaves out what only Node needs. The build sets it. */
  const HAS_NODE: boolean;
}

/** The WebSocket of the platform, or the small one for Node before version 22. */
export function platformWebSocket(): typeof WebSocket {
  return globalThis.WebSocket ?? (HAS_NODE && NodeWebSocket);
}

/** What the SDK uses of a dispatcher of undici, the HTTP client of Node. */
interface Dispatcher {
  dispatch: unknown;
  destroy(): Promise<void>;
  request?(options: object): Promise<{
    statusCode: number;
    headers: Record<string, unknown>;
    body: { text(): Promise<string> };
  }>;
}

type Scope = Record<symbol, Dispatcher | undefined> & { process?: { versions?: Record<string, string> } };

/** What the SDK uses of a response whose body is a text. */
export type TextResponse = Pick<Response, "status" | "text"> & { headers: Pick<Headers, "has"> };

/**
 * Connections without timeouts. Node's `fetch` gives up if a response does not begin within 300 s, or pauses for 300 s, and
 * only a dispatcher of the same undici can change this. Its class is that of the global dispatcher. A `fetch` and a
 * dispatcher that the program has set (a proxy, a mock, interceptors) are left alone.
 */
export class NodeConnections {
  #fetch: typeof fetch | undefined;
  #isNative = false;
  #global: Dispatcher | undefined;
  #own: Dispatcher | undefined;

  constructor(readonly limit: number) {}

  /** The dispatcher for requests; `undefined` if the platform is not Node, or the program has set another one. */
  get(): Dispatcher | undefined {
    const scope = globalThis as unknown as Scope;
    const versions = scope.process?.versions;
    if (!versions?.undici || versions.bun || versions.deno) return undefined;
    if (this.#fetch !== fetch) {
      this.#fetch = fetch;
      // That of Node loads its undici when it is called.
      this.#isNative = String(fetch).includes("undici");
    }
    if (!this.#isNative) return undefined;
    const name = Symbol.for(`undici.globalDispatcher.${Number.parseInt(versions.undici, 10) < 8 ? 1 : 2}`);
    // Loads undici, which sets its global dispatcher.
    if (!scope[name]) void Response;
    const dispatcher = scope[name];
    if (dispatcher !== this.#global) {
      this.#global = dispatcher;
      this.#own = dispatcher && this.#like(dispatcher);
    }
    return this.#own;
  }

  /** A dispatcher with the options of the global one, such as certificates that the program has set. */
  #like(dispatcher: Dispatcher): Dispatcher | undefined {
    const Agent = dispatcher.constructor as new (options: object) => Dispatcher;
    if (Agent.name !== "Agent" || dispatcher.dispatch !== Agent.prototype.dispatch) return undefined;
    const key = Object.getOwnPropertySymbols(dispatcher).find(({ description }) => description === "options");
    const options = key && (dispatcher as unknown as Record<symbol, object>)[key];
    const connections = Number.isFinite(this.limit) ? this.limit : null;
    return new Agent({ ...options, connections, headersTimeout: 0, bodyTimeout: 0 });
  }

  /** Ends the connections. */
  async destroy(): Promise<void> {
    await this.#own?.destroy();
  }

  /**
   * Sends a request and reads the text of the response, in two thirds of the time that `fetch` takes. `undefined` if only `fetch`
   * can do it.
   */
  async text(url: string, init: RequestInit): Promise<TextResponse | undefined> {
    const dispatcher = this.get();
    if (!dispatcher?.request || (init.body && typeof init.body !== "string")) return undefined;
    const { origin, pathname, search } = new URL(url);
    const { method, body, signal } = init;
    // Some proxies refuse a request without the headers that `fetch` sends.
    const headers = { accept: "*/*", "user-agent": "node", ...(init.headers as Record<string, string>) };
    const request = { origin, path: pathname + search, method, headers, body, signal };
    const answer = await dispatcher.request(request);
    // The body is not read after an abort, so its error must not be left to the stream.
    const text = await answer.body.text();
    return {
      status: answer.statusCode,
      headers: { has: (header) => header in answer.headers },
      text: async () => text,
    };
  }
}
