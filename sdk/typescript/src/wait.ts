// Waits: requests that the server answers when something has happened.
import { Deadline, late, waitOptions } from "./deadline.js";
import { ANSWER_MS } from "./ending.js";
import { SandcrabError } from "./errors.js";
import type { Client, RequestOptions } from "./http.js";
import { Retry } from "./retry.js";
import type { WaitOptions } from "./types.js";

/** A wait is one request of at most so long: proxies and `fetch` give up after some minutes of silence. */
export const WAIT_PIECE_MS = 60_000;

/**
 * Asks until the server answers that it has happened. Fails with PROCESS_READY_TIMEOUT after the timeout, which lost connections
 * do not prolong: the next request waits for the rest. `request` has the options of one that waits for so many milliseconds.
 */
export function wait<T>(
  client: Client,
  method: string,
  path: string,
  timeoutOrOptions: number | WaitOptions,
  what: string,
  request: (timeoutMs: number) => RequestOptions,
  pieceMs = WAIT_PIECE_MS,
): Promise<T> {
  const options = waitOptions(timeoutOrOptions);
  const { timeout = Infinity } = options;
  const giveUpAt = Date.now() + timeout;
  const rest = () => Math.max(0, Math.ceil(giveUpAt - Date.now()));
  const retry = new Retry(client.reconnectTimeoutMs, true);
  const ask = async (signal: AbortSignal) => {
    for (;;) {
      try {
        const { json, query } = request(Math.min(pieceMs, rest()));
        return await client.json<T>(method, path, { json, query, signal, repeat: false });
      } catch (error) {
        if (error instanceof SandcrabError && error.status === 408) retry.worked();
        else await retry.failed(error, client.wasReached && !client.isClosed, signal, rest());
        if (rest() === 0) throw late(what, timeout);
      }
    }
  };
  // The server keeps the time. A short timeout must not be over before its answer can arrive.
  return Deadline.run(options, what, ask, ANSWER_MS);
}
