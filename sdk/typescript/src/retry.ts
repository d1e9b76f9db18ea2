// Retry: exponential backoff, for what has the same effect twice.
import { sleep } from "./abort.js";
import { ConnectionError, SandcrabError } from "./errors.js";

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;

export class Retry {
  #failingSince: number | undefined;
  #pause = FIRST_PAUSE_MS;
  #attempt = Date.now();

  /** `isLong`: the server may take longer than the window to answer. */
  constructor(
    readonly windowMs: number,
    readonly isLong = false,
  ) {}

  /** Resets the count of failures. */
  worked(): void {
    this.#failingSince = undefined;
    this.#pause = FIRST_PAUSE_MS;
  }

  /** Waits before the next attempt, at most `longestMs`. Throws the error if another attempt is useless or too late. */
  async failed(error: unknown, wasReached: boolean, signal?: AbortSignal, longestMs = Infinity): Promise<void> {
    const isRefused = error instanceof ConnectionError && error.refused;
    const isTemporary =
      error instanceof ConnectionError ? wasReached || !isRefused : error instanceof SandcrabError && error.isTemporary;
    if (!isTemporary) throw error;
    const now = Date.now();
    // A long request that took longer than the window, and made a connection, had reached the server: a proxy or `fetch` gave
    // up waiting. After any other request the server hangs.
    if (this.isLong && !isRefused && now - this.#attempt > this.windowMs) this.worked();
    this.#failingSince ??= now;
    if (now - this.#failingSince >= this.windowMs) throw error;
    await sleep(Math.min(this.#pause, longestMs), signal);
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE_MS);
    this.#attempt = Date.now();
  }
}
