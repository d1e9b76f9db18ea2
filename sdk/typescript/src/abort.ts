// Waiting that a signal ends.
import { AbortError } from "./errors.js";

interface Waiting {
  calls: Set<() => void>;
  /** The listener of the signal. */
  run: () => void;
}

/** What waits for the signals of the program. Each gets one listener, however many calls share it. */
const waitingFor = new WeakMap<AbortSignal, Waiting>();

/**
 * Calls a function after an abort; the result cancels this. Node takes more than ten listeners of a signal for a leak, and
 * warns. That limit is the program's, and so is the signal, which may be of another class than the platform's.
 */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (!signal) return () => undefined;
  let waiting = waitingFor.get(signal);
  if (!waiting) {
    const calls = new Set<() => void>();
    waiting = { calls, run: () => calls.forEach((call) => void call()) };
    waitingFor.set(signal, waiting);
    signal.addEventListener("abort", waiting.run);
  }
  const { calls, run } = waiting;
  calls.add(listener);
  return () => {
    if (!calls.delete(listener) || calls.size > 0) return;
    // A composed signal that is listened to stays in memory as long as its sources.
    signal.removeEventListener("abort", run);
    waitingFor.delete(signal);
  };
}

/** A promise that an abort rejects. `begin` starts what settles it; its result is called after an abort. */
export function unlessAborted<T>(
  signal: AbortSignal | undefined,
  begin: (resolve: (value: T) => void, reject: (error: unknown) => void) => unknown,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      reject(new AbortError(signal?.reason));
      if (typeof cancel === "function") cancel();
    };
    let cancel: unknown;
    if (signal?.aborted) return abort();
    const forget = onAbort(signal, abort);
    const settled =
      <V>(settle: (value: V) => void) =>
      (value: V) => {
        forget();
        settle(value);
      };
    cancel = begin(settled(resolve), settled(reject));
  });
}

export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return unlessAborted(signal, (resolve) => {
    const timer = setTimeout(resolve, ms);
    return () => clearTimeout(timer);
  });
}
