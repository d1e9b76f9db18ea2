// Terminal: a program with a screen.

import { type ConnectOptions, TerminalConnection } from "./connection.js";
import { asyncDispose } from "./core.js";
import { type Client, segment } from "./http.js";
import { ignoreMissing } from "./process.js";
import type { CallOptions, Schemas, WaitOptions } from "./types.js";
import { WAIT_PIECE_MS, wait } from "./wait.js";

export type TerminalInfo = Schemas["Terminal"];
export type Screen = Schemas["ScreenResponse"];
export type TerminalMatch = Schemas["TerminalWaitResponse"];
export type TerminalDeleted = Schemas["TerminalDeleted"];

/** Text, bytes, or text and then keys: `enter`, `tab`, `up`, `f5`, `ctrl-c`, `alt-x`, … */
export type TerminalInput = string | Uint8Array | { text?: string | undefined; keys?: string[] | undefined };

/** A terminal of the server. The object is a handle: losing it ends nothing. */
export class Terminal {
  readonly id: string;
  readonly executionId: string;
  readonly pid: number | undefined;
  /** False if the terminal existed before. */
  readonly created: boolean;
  cols: number;
  rows: number;
  readonly #client: Client;

  /** @internal */
  constructor(
    client: Client,
    fields: Pick<TerminalInfo, "id" | "executionId" | "pid" | "cols" | "rows"> & { created?: boolean },
  ) {
    this.#client = client;
    this.id = fields.id;
    this.executionId = fields.executionId;
    this.pid = fields.pid ?? undefined;
    this.created = fields.created ?? false;
    this.cols = fields.cols;
    this.rows = fields.rows;
  }

  get #path(): string {
    return `/api/terminal/${segment(this.id, "list", "create")}`;
  }

  /** Attaches a viewer over a WebSocket. It reconnects and continues with what it missed. */
  connect(options: ConnectOptions = {}): Promise<TerminalConnection> {
    return TerminalConnection.open(this.#client, this.id, options);
  }

  async getInfo(options: CallOptions = {}): Promise<TerminalInfo> {
    return (await this.#client.json<Schemas["TerminalResponse"]>("GET", this.#path, options)).terminal;
  }

  async resize(cols: number, rows: number, options: CallOptions = {}): Promise<void> {
    await this.#client.json("POST", `${this.#path}/resize`, { json: { cols, rows }, ...options, repeat: true });
    this.cols = cols;
    this.rows = rows;
  }

  /** Types. Resolves to the number of bytes when the terminal has accepted them. */
  async send(input: TerminalInput, options: CallOptions = {}): Promise<number> {
    const isObject = typeof input === "object" && !(input instanceof Uint8Array);
    const json = isObject ? input : typeof input === "string" ? { text: input } : undefined;
    const body = input instanceof Uint8Array ? { body: input } : { json };
    const request = { ...body, ...options, urgent: true };
    return (await this.#client.json<Schemas["TerminalInputResponse"]>("POST", `${this.#path}/input`, request)).written;
  }

  /** The screen: text, cursor, size, title; with `format: "cells"` also colours and attributes. */
  screen(
    options: CallOptions & { scrollback?: number | undefined; format?: "text" | "cells" | undefined } = {},
  ): Promise<Screen> {
    const { scrollback, format, signal } = options;
    return this.#client.json("GET", `${this.#path}/screen`, { query: { scrollback, format }, signal });
  }

  /**
   * Waits until the screen has a text, or a line that matches a regular expression. Fails with PROCESS_READY_TIMEOUT after
   * `timeout` milliseconds. The server matches, with the syntax of the Rust crate `regex`.
   */
  waitForText(text: string | RegExp, timeoutOrOptions: number | WaitOptions = {}): Promise<TerminalMatch> {
    if (typeof text === "string") return this.#wait({ text }, timeoutOrOptions);
    const flags = text.flags.replace(/[^ims]/g, "");
    return this.#wait({ regex: flags ? `(?${flags})${text.source}` : text.source }, timeoutOrOptions);
  }

  /** Waits until nothing has changed for so many milliseconds. */
  async waitForIdle(idleMs: number, timeoutOrOptions: number | WaitOptions = {}): Promise<void> {
    await this.#wait({ idleMs }, timeoutOrOptions);
  }

  async #wait(what: Schemas["TerminalWaitRequest"], timeoutOrOptions: number | WaitOptions): Promise<TerminalMatch> {
    const message = `the screen of terminal ${this.id} has not changed as expected`;
    const request = (timeoutMs: number) => ({ json: { ...what, timeoutMs } });
    // A request that is shorter than the idle time could never succeed.
    const pieceMs = WAIT_PIECE_MS + (what.idleMs ?? 0);
    return wait(this.#client, "POST", `${this.#path}/wait`, timeoutOrOptions, message, request, pieceMs);
  }

  /** The output with its times, as an asciicast of version 2. */
  getRecording(options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#client.bytes(`${this.#path}/recording`, options);
  }

  /**
   * Ends the program and everything it has started. The screen and the recording can still be read. If the program has ended
   * before, removes the terminal.
   */
  destroy(options: CallOptions = {}): Promise<TerminalDeleted> {
    // Not repeated: a second request would remove the terminal that the first one has ended.
    return this.#client.json("DELETE", this.#path, { ...options, urgent: true });
  }

  /** Ends the terminal. */
  async [asyncDispose](): Promise<void> {
    await this.destroy().catch(ignoreMissing);
  }
}
