// TerminalConnection: a viewer of a terminal over a WebSocket that reconnects.
import { onAbort } from "./abort.js";
import { toBytes } from "./bytes.js";
import { asyncDispose } from "./core.js";
import { AbortError, ConnectionError, type ErrorCode, errorOf } from "./errors.js";
import { type Client, segment } from "./http.js";
import { Retry } from "./retry.js";
import type { CallOptions, End, Schemas } from "./types.js";
import { openSocket } from "./websocket.js";

/** Output that waits for a slow reader. Beyond it the connection is closed, and resumed when the reader has caught up. */
const MAX_WAITING_BYTES = 8 << 20;
/** Input that waits for a connection. */
const MAX_QUEUED_INPUT_BYTES = 16 << 20;
/** Errors about one message. After them the viewer stays attached. */
const HARMLESS =
  /^(TERMINAL_INPUT_FULL|VALIDATION_FAILED|PROCESS_ENDED|EXECUTION_LOST|LIMIT_EXCEEDED|NOT_SUPPORTED|INTERNAL_ERROR|NO_SPACE)$/;

export interface ConnectOptions extends CallOptions {
  /** Size of the viewer, which becomes that of the terminal. */
  cols?: number | undefined;
  rows?: number | undefined;
  /** The viewer neither types nor resizes. */
  readOnly?: boolean | undefined;
}

export type TerminalEvent =
  /** Output of the program. */
  | { type: "output"; data: Uint8Array }
  /** The whole screen. It begins with a reset. */
  | { type: "repaint"; data: Uint8Array }
  /** Everything that was missed has been delivered. */
  | { type: "ready"; cols: number; rows: number }
  | { type: "resize"; cols: number; rows: number }
  | { type: "exit"; exitCode: number; end: End }
  /** The connection was lost, and is made again. Input that was sent last may be lost. */
  | { type: "disconnected" }
  /** A message was refused. The viewer stays attached. */
  | { type: "error"; code: ErrorCode; message: string };

type Frame = Schemas["TerminalFrame"];

/** A viewer. Iterate over it for its events; leaving the loop closes it. The terminal continues. */
export class TerminalConnection implements AsyncIterable<TerminalEvent> {
  /**
   * Resolves when the program has ended. Rejects if the connection is closed or fails before. A program that writes more
   * than 8 MiB needs a loop that reads its output.
   */
  readonly exited: Promise<{ exitCode: number; end: End }>;
  readonly #client: Client;
  readonly #id: string;
  readonly #options: ConnectOptions;
  readonly #retry: Retry;
  readonly #events: TerminalEvent[] = [];
  readonly #input: Uint8Array[] = [];
  #inputBytes = 0;
  #waitingBytes = 0;
  #socket: WebSocket | undefined;
  #cursor: number | undefined;
  #incarnation: string | undefined;
  #size: { cols: number; rows: number } | undefined;
  /** The cursor of a repaint whose bytes have not arrived. */
  #repaint: number | undefined;
  #isPaused = false;
  #end: { error?: unknown } | undefined;
  /** Ends an attempt to connect. */
  readonly #ended = new AbortController();
  #wake: (() => void) | undefined;
  #exit!: { resolve(exit: { exitCode: number; end: End }): void; reject(error: unknown): void };

  readonly #forget: () => void;
  readonly #onClose = (error: ConnectionError) => this.#finish(error);

  private constructor(client: Client, id: string, options: ConnectOptions) {
    this.#client = client;
    this.#id = id;
    this.#options = options;
    this.#retry = new Retry(client.reconnectTimeoutMs);
    if (options.cols && options.rows) this.#size = { cols: options.cols, rows: options.rows };
    this.exited = new Promise((resolve, reject) => {
      this.#exit = { resolve, reject };
    });
    this.exited.catch(() => undefined);
    this.#forget = onAbort(options.signal, () => this.#finish(new AbortError(options.signal?.reason)));
    client.onClose.add(this.#onClose);
  }

  /** @internal */
  static async open(client: Client, id: string, options: ConnectOptions): Promise<TerminalConnection> {
    if (options.signal?.aborted) throw new AbortError(options.signal.reason);
    const connection = new TerminalConnection(client, id, options);
    try {
      await connection.#connect();
    } catch (error) {
      connection.#finish(error);
    }
    // Also if it was aborted, or the sandbox was closed, while the socket was opened.
    if (connection.#end?.error) throw connection.#end.error;
    return connection;
  }

  /** The number of output bytes so far; a later connection of another viewer can start from it. */
  get cursor(): number | undefined {
    return this.#cursor;
  }

  /** Types. Input waits while the connection is lost. */
  write(data: string | Uint8Array): void {
    if (this.#end) throw new ConnectionError("the connection to the terminal is closed");
    const bytes = toBytes(data);
    if (this.#inputBytes + bytes.length > MAX_QUEUED_INPUT_BYTES) {
      const message = `more than ${MAX_QUEUED_INPUT_BYTES} bytes of input wait for the connection`;
      throw errorOf({ code: "TERMINAL_INPUT_FULL", message });
    }
    this.#input.push(bytes);
    this.#inputBytes += bytes.length;
    this.#flush();
  }

  /** Changes the size of the viewer, and of the terminal. */
  resize(cols: number, rows: number): void {
    this.#size = { cols, rows };
    if (this.#socket?.readyState === 1) this.#socket.send(JSON.stringify({ type: "resize", cols, rows }));
  }

  /** Ends the connection. The terminal continues. */
  close(): void {
    this.#finish();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TerminalEvent, void, void> {
    try {
      for (;;) {
        const event = this.#events.shift();
        if (event) {
          if ("data" in event) this.#waitingBytes -= event.data.length;
          yield event;
          if (event.type === "exit") return;
        } else if (this.#end) {
          if (this.#end.error) throw this.#end.error;
          return;
        } else {
          if (this.#isPaused) void this.#reconnect();
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
      }
    } finally {
      this.close();
    }
  }

  async [asyncDispose](): Promise<void> {
    this.close();
  }

  async #connect(): Promise<void> {
    const { readOnly } = this.#options;
    const { signal } = this.#ended;
    const incarnation = this.#cursor === undefined ? undefined : this.#incarnation;
    const query = { terminalId: this.#id, ...(!readOnly && this.#size), since: this.#cursor, incarnation, readOnly };
    let socket: WebSocket;
    try {
      socket = await openSocket(this.#client, "/ws/terminal", query, signal);
    } catch (error) {
      // A WebSocket does not tell why it was refused. The terminal itself does.
      const path = `/api/terminal/${segment(this.#id, "list")}`;
      await this.#client.json("GET", path, { signal, repeat: false });
      throw error;
    }
    if (this.#end) return socket.close();
    this.#socket = socket;
    this.#repaint = undefined;
    this.#isPaused = false;
    socket.onmessage = ({ data }) => {
      if (socket === this.#socket) this.#receive(data);
    };
    socket.onclose = () => this.#lost(socket);
    socket.onerror = () => undefined;
    this.#flush();
  }

  async #reconnect(): Promise<void> {
    this.#isPaused = false;
    for (;;) {
      try {
        return await this.#connect();
      } catch (error) {
        if (this.#end) return;
        try {
          await this.#retry.failed(error, true, this.#ended.signal);
        } catch (final) {
          return this.#finish(final);
        }
      }
    }
  }

  #lost(socket: WebSocket): void {
    if (socket !== this.#socket) return;
    this.#socket = undefined;
    if (this.#end) return;
    this.#push({ type: "disconnected" });
    void this.#reconnect();
  }

  #flush(): void {
    while (this.#socket?.readyState === 1) {
      const bytes = this.#input.shift();
      if (!bytes) return;
      this.#inputBytes -= bytes.length;
      this.#socket.send(bytes as Uint8Array<ArrayBuffer>);
    }
  }

  #receive(message: unknown): void {
    if (this.#end) return;
    if (typeof message === "string") {
      let frame: Frame;
      try {
        frame = JSON.parse(message);
      } catch (cause) {
        return this.#finish(
          errorOf({ code: "INVALID_RESPONSE", message: "invalid frame of a terminal", status: 0, cause }),
        );
      }
      return this.#control(frame);
    }
    const data = new Uint8Array(message as ArrayBuffer);
    const type = this.#repaint === undefined ? "output" : "repaint";
    if (this.#repaint !== undefined) this.#cursor = this.#repaint;
    else if (this.#cursor !== undefined) this.#cursor += data.length;
    this.#repaint = undefined;
    this.#waitingBytes += data.length;
    this.#push({ type, data });
    if (this.#waitingBytes > MAX_WAITING_BYTES) {
      // The reader may continue before this socket is closed: what it still reports belongs to no connection.
      this.#isPaused = true;
      const socket = this.#socket;
      this.#socket = undefined;
      socket?.close();
    }
  }

  #control(frame: Frame): void {
    switch (frame.type) {
      case "repaint":
        // Its bytes are the next message. If the connection is lost before, the screen was not drawn.
        this.#repaint = frame.cursor;
        return;
      case "ready":
        this.#retry.worked();
        this.#cursor = frame.cursor;
        this.#incarnation = frame.incarnation || undefined;
        return this.#push({ type: "ready", cols: frame.cols, rows: frame.rows });
      case "resize":
        return this.#push({ type: "resize", cols: frame.cols, rows: frame.rows });
      case "exit": {
        const exit = { exitCode: frame.exitCode, end: frame.end };
        this.#push({ type: "exit", ...exit });
        this.#exit.resolve(exit);
        return this.#finish();
      }
      case "error":
        if (HARMLESS.test(frame.code)) return this.#push({ type: "error", code: frame.code, message: frame.message });
        return this.#finish(errorOf({ code: frame.code, message: frame.message }));
    }
  }

  #push(event: TerminalEvent): void {
    this.#events.push(event);
    this.#wake?.();
  }

  #finish(error?: unknown): void {
    if (this.#end) return;
    this.#forget();
    this.#client.onClose.delete(this.#onClose);
    this.#end = { error };
    this.#ended.abort();
    this.#exit.reject(error ?? new ConnectionError("the connection to the terminal is closed"));
    this.#socket?.close();
    this.#socket = undefined;
    this.#wake?.();
  }
}
