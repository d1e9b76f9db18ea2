// Waiting that a signal ends.
import { AbortError } from "./errors.js";

/** A promise that an abort rejects. `begin` starts what settles it; its result is called after an abort. */
export function unlessAborted<T>(
  signal: AbortSignal | undefined,
  begin: (resolve: (value: T) => void, reject: (error: unknown) => void) => unknown,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      reject(new AbortError(signal?.reason));
      if (typeof cancel === "function") cancel();
    };
    let cancel: unknown;
    if (signal?.aborted) return onAbort();
    signal?.addEventListener("abort", onAbort, { once: true });
    const settled =
      <V>(settle: (value: V) => void) =>
      (value: V) => {
        signal?.removeEventListener("abort", onAbort);
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
