// What Node needs: `fetch` without its timeouts, and signals without its warnings.
import { NodeWebSocket } from "./node-websocket.js";

/** False in the build for browsers, which leaves out what only Node needs. The build sets it. */
declare const HAS_NODE: boolean;

/** The WebSocket of the platform, or the small one for Node before version 22. */
export function platformWebSocket(): typeof WebSocket {
  return globalThis.WebSocket ?? (HAS_NODE && NodeWebSocket);
}

interface Dispatcher {
  destroy(): Promise<void>;
}

const GLOBAL_DISPATCHER = Symbol.for("undici.globalDispatcher.1");

/**
 * A connection pool without timeouts. Node's `fetch` gives up if a response does not begin within 300 s, or pauses for
 * 300 s, and only a dispatcher of the same undici can change this. Its class is that of the global dispatcher, which
 * exists after the first `fetch`. A dispatcher that the program has set (a proxy, a mock) is left alone.
 */
export async function ownDispatcher(connections: number): Promise<Dispatcher | undefined> {
  const scope = globalThis as Record<symbol, object | undefined> & { process?: { versions?: Record<string, string> } };
  const versions = scope.process?.versions;
  if (!HAS_NODE || !versions?.node || versions.bun || versions.deno) return undefined;
  if (!scope[GLOBAL_DISPATCHER]) await fetch("data:,").catch(() => undefined);
  const dispatcher = scope[GLOBAL_DISPATCHER] as Record<symbol, object> | undefined;
  const Agent = dispatcher?.constructor as (new (options: object) => Dispatcher) | undefined;
  if (!dispatcher || Agent?.name !== "Agent") return undefined;
  // Certificates and the like that the program has set.
  const key = Object.getOwnPropertySymbols(dispatcher).find(({ description }) => description === "options");
  return new Agent({ ...(key && dispatcher[key]), connections, headersTimeout: 0, bodyTimeout: 0 });
}

interface Builtins {
  getBuiltinModule?(name: string): { setMaxListeners(count: number, target: EventTarget): void };
}

/** Lets many calls share a signal. Node takes more than ten listeners for a leak, and warns. */
export function shareSignal(signal: AbortSignal | undefined): void {
  const { process } = globalThis as { process?: Builtins };
  if (HAS_NODE && signal) process?.getBuiltinModule?.("node:events")?.setMaxListeners(0, signal);
}
