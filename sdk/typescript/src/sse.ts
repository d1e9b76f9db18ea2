// Server-sent events: a parser, and the events of one connection.
import { ConnectionError } from "./errors.js";

/** Timeout of a silent connection. The server sends a comment every 15 seconds. */
const LONGEST_SILENCE_MS = 60_000;
/** The longest event. The server splits output into events of at most 64 KiB. */
const MAX_EVENT_CHARS = 64 << 20;

export interface ServerSentEvent {
  id: string | undefined;
  data: string;
}

/** Splits text that arrives in pieces into events. */
export class SseParser {
  #rest = "";
  #data: string[] = [];
  #size = 0;
  #id: string | undefined;

  push(text: string): ServerSentEvent[] {
    const events: ServerSentEvent[] = [];
    // The second half of a CR LF may be in the next piece.
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() as string;
    for (const line of lines) this.#line(line, events);
    if (this.#rest.length + this.#size > MAX_EVENT_CHARS) throw new ConnectionError("an event is too long");
    return events;
  }

  #line(line: string, events: ServerSentEvent[]): void {
    if (line === "") {
      if (this.#data.length > 0) events.push({ id: this.#id, data: this.#data.join("\n") });
      this.#data = [];
      this.#size = 0;
      this.#id = undefined;
      return;
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") {
      this.#data.push(value);
      this.#size += value.length;
    } else if (name === "id") {
      this.#id = value;
    }
  }
}

/** The events of a body until it ends. A connection that is silent for too long is an error, and so is an abort. */
export async function* serverSentEvents(
  body: ReadableStream<Uint8Array>,
  ended: AbortSignal,
): AsyncGenerator<ServerSentEvent, void, void> {
  const reader = body.getReader();
  ended.addEventListener("abort", () => reader.cancel().catch(() => undefined));
  const decoder = new TextDecoder();
  const parser = new SseParser();
  let isSilent = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    for (;;) {
      timer = setTimeout(() => {
        isSilent = true;
        reader.cancel().catch(() => undefined);
      }, LONGEST_SILENCE_MS);
      const { done, value } = await reader.read();
      clearTimeout(timer);
      if (ended.aborted) throw ended.reason;
      if (isSilent) throw new ConnectionError("the connection was silent for too long");
      if (done) return;
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    clearTimeout(timer);
    // Closes the connection if events were left unread.
    reader.cancel().catch(() => undefined);
  }
}
