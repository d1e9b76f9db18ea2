// Ending what a call has started, or may still start.
import { sleep } from "./abort.js";
import { AbortError, ConnectionError, SandcrabError } from "./errors.js";
import { type Client, segment } from "./http.js";

/** How long an aborted call waits for a server that cannot be reached, and for the answer of a command that was ended. */
export const ANSWER_MS = 5_000;
/** How long a request that was aborted on its way may still start something. */
const ARRIVAL_MS = 2_000;
/** The grace period of a request that names none. */
const DEFAULT_GRACE_MS = 5_000;

/** A request that ends something. */
export interface Ending {
  method: string;
  path: string;
  json?: unknown;
  /** Time before SIGKILL, in milliseconds. */
  grace?: number | undefined;
}

/** The request that ends a command or a process. */
export function endingOf(executionId: string, grace: number | undefined): Ending {
  return { method: "DELETE", path: `/api/process/${segment(executionId)}`, grace };
}

/**
 * Ends something. Its start may still be on its way, so an unknown id is tried again until `isTooLate`. A server that cannot
 * be reached, or that stops, is tried again for some seconds only: the caller waits.
 */
export async function end(client: Client, ending: Ending, isTooLate: () => boolean): Promise<void> {
  const { method, path, json, grace } = ending;
  const giveUpAt = Date.now() + ANSWER_MS;
  for (let pause = 20; ; pause *= 2) {
    try {
      // The answer comes when everything has ended.
      const signal = AbortSignal.timeout((grace ?? DEFAULT_GRACE_MS) + ANSWER_MS);
      await client.json(method, path, { json, query: { graceMs: grace }, urgent: true, signal });
      return;
    } catch (error) {
      const isUnknown = error instanceof SandcrabError && error.status === 404;
      const isTemporary = error instanceof ConnectionError || (error instanceof SandcrabError && error.isTemporary);
      if (!isUnknown && !isTemporary) throw error;
      if (client.isClosed || (isUnknown ? isTooLate() : Date.now() > giveUpAt)) return;
    }
    await sleep(pause);
  }
}

/** Ends something whose start was sent, or answered (`isKnown`). It throws nothing, which would replace the error of the caller. */
export async function endSent(client: Client, ending: Ending, isKnown = false): Promise<void> {
  const until = isKnown ? 0 : Date.now() + ARRIVAL_MS;
  await end(client, ending, () => Date.now() > until).catch(() => undefined);
}

/** Whether a request that was sent may have had an effect, although it has failed. */
function mayHaveStarted(error: unknown): boolean {
  if (error instanceof ConnectionError) return !error.refused;
  // 504: a proxy gave up waiting.
  return error instanceof AbortError || (error instanceof SandcrabError && error.status === 504);
}

/** Runs a start. If it is aborted, or its answer is lost, what it has started is ended: the caller does not get it. */
export async function start<T>(
  client: Client,
  ending: Ending | undefined,
  run: (onSend: () => void) => Promise<T>,
): Promise<T> {
  let isSent = false;
  try {
    return await run(() => {
      isSent = true;
    });
  } catch (error) {
    if (ending && isSent && mayHaveStarted(error)) await endSent(client, ending);
    throw error;
  }
}
