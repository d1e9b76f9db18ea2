// Deadline: a signal that a caller or a timeout aborts.
import { onAbort } from "./abort.js";
import { atLeast } from "./check.js";
import { errorOf, type SandcrabError } from "./errors.js";
import type { CallOptions, WaitOptions } from "./types.js";

/** The longest time that `setTimeout` takes; a longer one would be over at once. It is 24 days. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export const Deadline = {
  /** Runs a call with a signal. After the timeout, but not before `leastMs`, it fails with PROCESS_READY_TIMEOUT. */
  async run<T>(
    options: CallOptions & { timeout?: number | undefined },
    what: string,
    call: (signal: AbortSignal) => Promise<T>,
    leastMs = 0,
  ): Promise<T> {
    const { signal, timeout } = options;
    const controller = new AbortController();
    let isLate = false;
    if (timeout !== undefined) atLeast(0, "timeout", timeout);
    const abort = () => controller.abort(signal?.reason);
    if (signal?.aborted) abort();
    const forget = onAbort(signal, abort);
    const onLate = () => {
      isLate = true;
      controller.abort();
    };
    const timer =
      timeout === undefined || timeout > MAX_TIMER_MS ? undefined : setTimeout(onLate, Math.max(timeout, leastMs));
    try {
      return await call(controller.signal);
    } catch (error) {
      if (!isLate || signal?.aborted) throw error;
      throw late(what, timeout);
    } finally {
      clearTimeout(timer);
      forget();
    }
  },
};

/** The error of a wait that took too long. */
export function late(what: string, timeout: number | undefined): SandcrabError {
  return errorOf({ code: "PROCESS_READY_TIMEOUT", message: `${what} within ${timeout} ms` });
}

/** The options of a wait: its timeout may be given alone. */
export function waitOptions(timeoutOrOptions: number | WaitOptions): WaitOptions {
  return typeof timeoutOrOptions === "number" ? { timeout: timeoutOrOptions } : timeoutOrOptions;
}
