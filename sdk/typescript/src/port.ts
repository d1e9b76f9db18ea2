// Waiting for a port.
import { Deadline } from "./deadline.js";
import { errorOf } from "./errors.js";
import type { Client } from "./http.js";
import { events } from "./stream.js";
import type { CallOptions, PortWatchEvent } from "./types.js";

export interface PortOptions extends CallOptions {
  /** `http`: the port answers a GET request. `tcp`: it accepts connections. Default: `http`. */
  mode?: "http" | "tcp" | undefined;
  /** Path of the request. Default: `/`. */
  path?: string | undefined;
  /** The status, or the lowest and the highest, that means ready. Default: 200 to 399. */
  status?: number | { min: number; max: number } | undefined;
  /** Give up after this time, in milliseconds. */
  timeout?: number | undefined;
  /** Time between two attempts, in milliseconds. */
  interval?: number | undefined;
}

export interface WatchPortOptions extends Omit<PortOptions, "timeout"> {
  /** Stop when this process ends. */
  processId?: string | undefined;
}

/** The events until a port is ready. */
export function watchPort(
  client: Client,
  port: number,
  options: WatchPortOptions = {},
): AsyncGenerator<PortWatchEvent, void, void> {
  const { mode, path, status, interval, processId, signal } = options;
  const [statusMin, statusMax] = typeof status === "object" ? [status.min, status.max] : [status, status];
  return events<PortWatchEvent>(client, {
    method: "POST",
    path: "/api/port-watch",
    json: { port, mode, path, statusMin, statusMax, interval, processId },
    signal,
    opening: ["watching"],
    last: ["ready", "process_exited"],
  });
}

/** Waits until a port is ready. */
export function waitForPort(
  client: Client,
  port: number,
  options: WatchPortOptions & { timeout?: number | undefined } = {},
): Promise<void> {
  return Deadline.run(options, `port ${port} was not ready`, async (signal) => {
    for await (const event of watchPort(client, port, { ...options, signal })) {
      if (event.type !== "process_exited") continue;
      const message = `the process ended before port ${port} was ready`;
      const context = { port, processId: options.processId, exitCode: event.exitCode };
      throw errorOf({ code: "PROCESS_ENDED", message, context });
    }
  });
}
