// Streams of events that resume after a lost connection.
import { AbortError, ConnectionError, errorOf, SandcrabError } from "./errors.js";
import { type Client, connectionError, parsed, type RequestOptions } from "./http.js";
import { Retry } from "./retry.js";
import { serverSentEvents } from "./sse.js";

export interface StreamRequest extends RequestOptions {
  method: string;
  path: string;
  /** Cursor after which the stream begins. */
  since?: string | undefined;
  /** Types of events that begin a stream. They are delivered once, also if the stream is resumed. */
  opening?: string[];
  /** Types of events that end a stream. */
  last: string[];
  /** Called when the server has accepted the request. */
  onOpen?: (() => void) | undefined;
  /** False: a lost connection is an error, because a second request would begin from the start. */
  resume?: boolean;
}

interface AnyEvent {
  type: string;
  code?: string;
  error?: string;
  exitCode?: number | null;
  executionId?: string | null;
  cursor?: string;
}

/** What the `error` event of a stream means. */
function errorOfEvent(event: AnyEvent): SandcrabError {
  const { code = "INTERNAL_ERROR", error = "the stream failed", exitCode, executionId } = event;
  return errorOf({ code, message: error, context: { exitCode, executionId }, isTemporary: code === "SHUTTING_DOWN" });
}

/**
 * The events of a stream, each once and in order. After a lost connection it asks again from the cursor of the last event
 * that was delivered. Leaving the loop closes the connection. An `error` event is thrown.
 */
export async function* events<T>(client: Client, request: StreamRequest): AsyncGenerator<T, void, void> {
  const { method, path, opening = [], last, resume = true, signal } = request;
  const retry = new Retry(client.reconnectTimeoutMs, true);
  let cursor = request.since;
  let hasBegun = false;
  for (;;) {
    try {
      const headers = { ...request.headers, accept: "text/event-stream", "last-event-id": cursor };
      const { response, release, ended } = await client.open(method, path, { ...request, headers, repeat: false });
      request.onOpen?.();
      try {
        const type = response.headers.get("content-type");
        if (!type?.startsWith("text/event-stream")) {
          response.body?.cancel().catch(() => undefined);
          throw client.invalid(response.status, `content type ${type}`);
        }
        if (!response.body) throw new ConnectionError("the response has no body");
        for await (const { id, data } of serverSentEvents(response.body, ended)) {
          const event = parsed<AnyEvent>(data, (text) => client.invalid(response.status, text));
          if (event.type === "error") throw errorOfEvent(event);
          retry.worked();
          if (id) {
            cursor = id;
            event.cursor = id;
          }
          if (opening.includes(event.type)) {
            if (hasBegun) continue;
            hasBegun = true;
          }
          yield event as T;
          if (last.includes(event.type)) return;
        }
        throw new ConnectionError("the stream ended before its last event");
      } finally {
        release();
      }
    } catch (error) {
      if (signal?.aborted) throw new AbortError(signal.reason);
      const failure = error instanceof SandcrabError ? error : connectionError(client.base, error);
      if (!resume) throw failure;
      await retry.failed(failure, client.wasReached && !client.isClosed, signal);
    }
  }
}
