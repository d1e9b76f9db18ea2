// Client: requests to one server, with a bound for connections, retries and typed errors.
import { onAbort, unlessAborted } from "./abort.js";
import { atLeast, baseUrlOf, headersOf, invalid, jsonOf, tokenOf } from "./check.js";
import { AbortError, ConnectionError, errorOf, SandcrabError } from "./errors.js";
import { NodeConnections, type TextResponse } from "./node.js";
import { Retry } from "./retry.js";
import { Slots } from "./slots.js";
import { Turns } from "./turns.js";
import type { SandboxOptions } from "./types.js";

export const DEFAULT_MAX_CONNECTIONS = 64;
export const DEFAULT_RECONNECT_TIMEOUT_MS = 30_000;
/** How much of an invalid response an error message shows. */
const SHOWN_CHARS = 120;
/** What a proxy answers while the server restarts, or when it has waited long enough. */
const GATEWAY = [502, 503, 504];
/** Refusals that a later attempt may not get. Browsers hide their `Retry-After` from pages of other origins. */
const TEMPORARY = ["SHUTTING_DOWN", "LIMIT_EXCEEDED"];

export type Query = Record<string, string | number | boolean | null | undefined>;

export interface RequestOptions {
  query?: Query | undefined;
  /** A body that is sent as JSON. */
  json?: unknown;
  /** A body that is sent as it is. */
  body?: Uint8Array | Blob | ReadableStream<Uint8Array> | undefined;
  headers?: Record<string, string | undefined> | undefined;
  signal?: AbortSignal | undefined;
  /** Aborts the request only while it waits for a slot. */
  queueSignal?: AbortSignal | undefined;
  /** Called when the request is about to be sent: from then on it may have an effect. */
  onSend?: () => void;
  /** The request has the same effect twice: it is sent again if the connection fails before an answer. Default: for reads. */
  repeat?: boolean;
  /** The server may take long to answer: an attempt that a proxy has given up after the reconnect timeout is no failure. */
  long?: boolean | undefined;
  /** May use the reserved slots. */
  urgent?: boolean;
}

/** A response whose body has not been read. `release` must be called when it is not needed any more. */
export interface Opened<R = Response> {
  response: R;
  release: () => void;
  /** Aborted when the request is, or the sandbox is closed. `fetch` of Node does not always end the body then. */
  ended: AbortSignal;
}

export class Client {
  readonly base: string;
  readonly token: string | undefined;
  readonly reconnectTimeoutMs: number;
  readonly slots: Slots;
  readonly turns = new Turns();
  readonly webSocket: SandboxOptions["WebSocket"];
  readonly #fetch: typeof fetch;
  readonly #headers: Record<string, string>;
  readonly #node: NodeConnections | undefined;
  /** Whether the server has ever answered. Then a refused connection is a server that restarts. */
  wasReached = false;
  /** Whether `close` was called. */
  isClosed = false;
  /** Ends requests and connections that are open. */
  readonly onClose = new Set<(error: ConnectionError) => void>();

  constructor(options: SandboxOptions) {
    const environment = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {};
    const { reconnectTimeout, maxConnections } = options;
    this.base = baseUrlOf(options.baseUrl ?? environment.SANDCRAB_URL ?? "http://127.0.0.1:7070");
    this.token = tokenOf(options.token ?? environment.SANDCRAB_TOKEN);
    this.#headers = headersOf(options.headers, this.token);
    this.reconnectTimeoutMs = atLeast(0, "reconnectTimeout", reconnectTimeout ?? DEFAULT_RECONNECT_TIMEOUT_MS);
    this.slots = new Slots(atLeast(1, "maxConnections", maxConnections ?? DEFAULT_MAX_CONNECTIONS));
    this.webSocket = options.WebSocket;
    this.#fetch = options.fetch ?? ((url, init) => globalThis.fetch(url, init));
    if (HAS_NODE && !options.fetch) this.#node = new NodeConnections(this.slots.total);
  }

  /** Sends a request and reads the JSON of the response. */
  async json<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
    return this.#repeated(method, options, async () => {
      const { response, release, ended } = await this.#send(method, path, options, (url, init) =>
        this.#text(url, init),
      );
      try {
        return parsed<T>(await orAborted(response.text(), ended), (text) => this.invalid(response.status, text));
      } catch (error) {
        throw this.#failure(error, options.signal);
      } finally {
        release();
      }
    });
  }

  /** Sends a request; the caller reads the response and releases it. */
  open(method: string, path: string, options: RequestOptions = {}): Promise<Opened> {
    return this.#repeated(method, options, () => this.#send(method, path, options, this.#fetched));
  }

  readonly #fetched = (url: string, init: RequestInit) => {
    const dispatcher = HAS_NODE && this.#node?.get();
    return this.#fetch(url, dispatcher ? ({ ...init, dispatcher } as RequestInit) : init);
  };

  async #text(url: string, init: RequestInit): Promise<TextResponse> {
    return (HAS_NODE && (await this.#node?.text(url, init))) || this.#fetched(url, init);
  }

  /** The body of a response as a web stream. Reading it to its end, or cancelling it, gives the connection back. */
  async bytes(path: string, options: RequestOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const { response, release, ended } = await this.open("GET", path, options);
    const reader = response.body?.getReader();
    ended.addEventListener("abort", () => reader?.cancel().catch(() => undefined));
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          try {
            const { done, value } = (await reader?.read()) ?? { done: true };
            if (ended.aborted) throw ended.reason;
            if (!done && value) return controller.enqueue(value);
            controller.close();
          } catch (error) {
            controller.error(this.#failure(error, options.signal));
          }
          release();
        },
        cancel: async (reason) => {
          release();
          await reader?.cancel(reason);
        },
      },
      { highWaterMark: 0 },
    );
  }

  url(path: string, query: Query = {}): string {
    const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
    const text = pairs.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&");
    return `${this.base}${path}${text && `?${text}`}`;
  }

  /** Ends open requests and connections. Later requests are refused. */
  async close(): Promise<void> {
    this.isClosed = true;
    for (const end of [...this.onClose]) end(this.#closed());
    if (HAS_NODE) await this.#node?.destroy();
  }

  /** Throws if the sandbox was closed. */
  assertOpen(): void {
    if (this.isClosed) throw this.#closed();
  }

  #closed(): ConnectionError {
    return new ConnectionError("the sandbox was closed; make another one with getSandbox", undefined, true);
  }

  async #repeated<T>(method: string, options: RequestOptions, attempt: () => Promise<T>): Promise<T> {
    if (!(options.repeat ?? method === "GET")) return attempt();
    const retry = new Retry(this.reconnectTimeoutMs, options.long);
    for (;;) {
      try {
        return await attempt();
      } catch (error) {
        await retry.failed(error, this.wasReached && !this.isClosed, options.signal);
      }
    }
  }

  async #send<R extends TextResponse>(
    method: string,
    path: string,
    options: RequestOptions,
    exchange: (url: string, init: RequestInit) => Promise<R>,
  ): Promise<Opened<R>> {
    const { signal } = options;
    // What cannot be sent is an error of the caller, and not of the connection.
    const url = this.url(path, options.query);
    const json = options.json === undefined ? undefined : jsonOf(options.json);
    const free = await this.slots.acquire(options.urgent ?? false, options.queueSignal ?? signal);
    const controller = new AbortController();
    const release = () => {
      forget();
      this.onClose.delete(onClose);
      free();
    };
    // The slot is given back at once: the reader of an aborted stream may never read again.
    const onClose = (reason: unknown) => {
      controller.abort(reason);
      release();
    };
    const forget = onAbort(signal, () => onClose(signal?.reason));
    this.onClose.add(onClose);
    try {
      const headers = { ...this.#headers };
      for (const [name, value] of Object.entries(options.headers ?? {})) if (value !== undefined) headers[name] = value;
      const init: RequestInit & { duplex?: "half" } = {
        method,
        headers,
        redirect: "manual",
        signal: controller.signal,
      };
      if (json !== undefined) {
        headers["content-type"] = "application/json";
        init.body = json;
      } else if (options.body) {
        headers["content-type"] ??= "application/octet-stream";
        init.body = (await sendable(options.body)) as BodyInit;
        if (init.body instanceof ReadableStream) init.duplex = "half";
      }
      this.assertOpen();
      if (signal?.aborted) throw new AbortError(signal.reason);
      options.onSend?.();
      const response = await orAborted(exchange(url, init), controller.signal);
      this.wasReached = true;
      // A redirection is refused: the token must not go elsewhere. Browsers give it the status 0.
      if (response.status < 200 || response.status >= 300) throw await this.#refusal(response);
      return { response, release, ended: controller.signal };
    } catch (error) {
      release();
      throw this.#failure(error, signal);
    }
  }

  async #refusal(response: TextResponse): Promise<SandcrabError> {
    const text = await response.text();
    const isTemporary = response.headers.has("retry-after");
    const status = response.status;
    try {
      const body = JSON.parse(text);
      if (typeof body.code === "string") {
        return errorOf({ ...body, status, isTemporary: isTemporary || TEMPORARY.includes(body.code) });
      }
    } catch {
      // Not an answer of a Sandcrab server.
    }
    return this.invalid(status, text, isTemporary || GATEWAY.includes(status));
  }

  /** The server, or a proxy before it, has answered with something else than the API does. */
  invalid(status: number, text: string, isTemporary = false): SandcrabError {
    const shown = text.slice(0, SHOWN_CHARS);
    const message = `invalid response from ${this.base}: status ${status}, ${JSON.stringify(shown)}`;
    return errorOf({ code: "INVALID_RESPONSE", message, status, isTemporary });
  }

  #failure(error: unknown, signal?: AbortSignal): unknown {
    if (signal?.aborted) return new AbortError(signal.reason);
    if (this.isClosed) return this.#closed();
    return error instanceof SandcrabError ? error : connectionError(this.base, error);
  }
}

/** The result of a promise, or an error after an abort, even if the promise is never settled then. */
function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  // After an abort nothing waits for it, so its error is ignored.
  promise.catch(() => undefined);
  return unlessAborted(signal, (resolve, reject) => void promise.then(resolve, reject));
}

/** The value of a JSON text. */
export function parsed<T>(text: string, invalid: (text: string) => SandcrabError): T {
  try {
    return JSON.parse(text) as T;
  } catch {
    throw invalid(text);
  }
}

/** A body that `fetch` sends. Browsers send no streams over HTTP/1.1, and some send the text "[object ReadableStream]". */
async function sendable(body: NonNullable<RequestOptions["body"]>): Promise<RequestOptions["body"]> {
  const isBrowser = "document" in globalThis || "importScripts" in globalThis;
  return isBrowser && body instanceof ReadableStream ? new Response(body).blob() : body;
}

/** Failures before a connection exists. */
const REFUSED =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ConnectionRefused|UND_ERR_CONNECT_TIMEOUT)$/;

/** Browsers do not tell why a connection failed. */
export function connectionError(base: string, error: unknown): ConnectionError {
  // `fetch` wraps the error of Node.
  const inner = ((error as Error | undefined)?.cause ?? error ?? {}) as Partial<AggregateError> & { code?: unknown };
  const code = String(inner.code ?? inner.errors?.[0]?.code ?? "");
  const why = inner.message || code || error;
  const refused = REFUSED.test(code);
  const text = refused ? `failed to reach the server at ${base}` : `the connection to ${base} failed`;
  return new ConnectionError(`${text}: ${why}`, error, refused);
}

/** A part of a path. URLs are normalised, so some ids would lead to another route. */
export function segment(id: string, ...reserved: string[]): string {
  if (["", ".", "..", ...reserved].includes(id)) throw invalid(`invalid id ${JSON.stringify(id)}`);
  return encodeURIComponent(id);
}
