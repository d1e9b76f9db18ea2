// NodeWebSocket: the part of WebSocket that the SDK uses, for Node before version 22, which has none.
import type { ClientRequest, IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { concat, encodeBase64, toBytes } from "./bytes.js";

/** The longest message. A repaint of a terminal is one message. */
const MAX_MESSAGE_BYTES = 64 << 20;
/** How long a closed socket waits for the other side. */
const CLOSE_MS = 3_000;
const [TEXT, BINARY, CLOSE, PING, PONG] = [1, 2, 8, 9, 10];

interface Builtins {
  getBuiltinModule?(name: string): unknown;
}

export class NodeWebSocket {
  readyState = 0;
  binaryType = "arraybuffer";
  onopen: (() => void) | null = null;
  onclose: (() => void) | null = null;
  onerror: ((event: unknown) => void) | null = null;
  onmessage: ((event: { data: string | ArrayBuffer }) => void) | null = null;
  readonly #request: ClientRequest;
  #stream: Duplex | undefined;
  #closing: ReturnType<typeof setTimeout> | undefined;
  #rest: Uint8Array = new Uint8Array();
  #parts: Uint8Array[] = [];
  #kind = 0;

  constructor(url: string, protocols: string[] = []) {
    const { process } = globalThis as { process?: Builtins };
    // An import would make bundlers for browsers fail.
    const http = process?.getBuiltinModule?.(url.startsWith("wss:") ? "node:https" : "node:http");
    if (!http) throw new Error("this platform has no WebSocket: give a class as the option WebSocket");
    const request = (http as typeof import("node:http")).request(url.replace(/^ws/, "http"), {
      headers: {
        connection: "Upgrade",
        upgrade: "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": encodeBase64(crypto.getRandomValues(new Uint8Array(16))),
        ...(protocols.length > 0 && { "sec-websocket-protocol": protocols.join(", ") }),
      },
    });
    this.#request = request;
    request.on("upgrade", (_response: IncomingMessage, stream: Duplex, head: Uint8Array) => {
      if (this.readyState !== 0) return stream.destroy();
      this.#stream = stream;
      this.readyState = 1;
      (stream as Duplex & { setNoDelay?(on: boolean): void }).setNoDelay?.(true);
      stream.on("error", (error) => this.#end(error));
      stream.on("close", () => this.#end());
      stream.on("end", () => stream.end());
      this.onopen?.();
      // Messages are events of their own: by then the code that waited for the open socket has set its handlers.
      setTimeout(() => {
        this.#receive(head);
        stream.on("data", (bytes: Uint8Array) => this.#receive(bytes));
      });
    });
    request.on("response", (response) => {
      response.resume();
      this.#end(new Error(`status ${response.statusCode}`));
    });
    request.on("error", (error) => this.#end(error));
    request.end();
  }

  send(data: string | Uint8Array): void {
    this.#write(typeof data === "string" ? TEXT : BINARY, toBytes(data));
  }

  close(): void {
    if (this.readyState === 1) {
      this.#write(CLOSE, new Uint8Array([0x03, 0xe8]));
      this.#stream?.end();
      this.readyState = 2;
      this.#closing = setTimeout(() => this.#end(), CLOSE_MS);
    } else if (this.readyState === 0) {
      this.#end();
    }
  }

  #end(error?: unknown): void {
    if (this.readyState === 3) return;
    this.readyState = 3;
    clearTimeout(this.#closing);
    this.#stream?.destroy();
    this.#request.destroy();
    if (error) this.onerror?.({ error });
    this.onclose?.();
  }

  #write(kind: number, payload: Uint8Array): void {
    if (this.readyState !== 1 || !this.#stream) return;
    const { length } = payload;
    const extra = length < 126 ? 0 : length < 0x10000 ? 2 : 8;
    const frame = new Uint8Array(2 + extra + 4 + length);
    const view = new DataView(frame.buffer);
    frame[0] = 0x80 | kind;
    frame[1] = 0x80 | (extra === 0 ? length : extra === 2 ? 126 : 127);
    if (extra === 2) view.setUint16(2, length);
    else if (extra === 8) view.setBigUint64(2, BigInt(length));
    const mask = crypto.getRandomValues(new Uint8Array(4));
    frame.set(mask, 2 + extra);
    for (let at = 0; at < length; at++) frame[6 + extra + at] = (payload[at] as number) ^ (mask[at & 3] as number);
    this.#stream.write(frame);
  }

  #receive(bytes: Uint8Array): void {
    let rest = this.#rest.length > 0 ? concat([this.#rest, bytes]) : bytes;
    while (rest.length >= 2) {
      const view = new DataView(rest.buffer, rest.byteOffset, rest.byteLength);
      let length = view.getUint8(1) & 0x7f;
      const extra = length === 126 ? 2 : length === 127 ? 8 : 0;
      if (rest.length < 2 + extra) break;
      if (extra === 2) length = view.getUint16(2);
      else if (extra === 8) length = Number(view.getBigUint64(2));
      if (length > MAX_MESSAGE_BYTES) return this.#end(new Error("a message is too long"));
      if (rest.length < 2 + extra + length) break;
      this.#frame(view.getUint8(0), rest.slice(2 + extra, 2 + extra + length));
      rest = rest.subarray(2 + extra + length);
      if (this.readyState === 3) return;
    }
    this.#rest = rest;
  }

  #frame(first: number, payload: Uint8Array): void {
    const kind = first & 0x0f;
    if (kind === PING) return this.#write(PONG as number, payload);
    if (kind === PONG) return;
    if (kind === CLOSE) {
      this.close();
      return this.#end();
    }
    if (kind !== 0) this.#kind = kind;
    this.#parts.push(payload);
    if (!(first & 0x80)) return;
    const whole = concat(this.#parts);
    this.#parts = [];
    const data = this.#kind === TEXT ? new TextDecoder().decode(whole) : (whole.buffer as ArrayBuffer);
    if (this.readyState === 1) this.onmessage?.({ data });
  }
}
