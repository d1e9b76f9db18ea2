// Shared setup: the unmodified client, over HTTP and over its WebSocket transport.
import { afterAll, beforeAll, describe } from "bun:test";
import { parseSSEStream, SandboxClient, type ExecEvent, type LogEvent } from "@cloudflare/sandbox";

export type Transport = "http" | "websocket";

/** Address of the server under test. */
export const baseUrl = (() => {
  const url = process.env.SANDCRAB_URL;
  if (!url) throw new Error("Set SANDCRAB_URL to the server's base URL, or use scripts/reference-sdk.");
  return url.replace(/\/$/, "");
})();

/** A client that does not retry after 503, which it does for two minutes by default. */
export function connect(transport: Transport): SandboxClient {
  return new SandboxClient({
    baseUrl,
    transportMode: transport,
    wsUrl: `${baseUrl.replace(/^http/, "ws")}/ws`,
    retryTimeoutMs: 0,
  });
}

/** The same tests over both transports. */
export function overBothTransports(name: string, tests: (client: () => SandboxClient, transport: Transport) => void) {
  describe.each<Transport>(["http", "websocket"])(`${name} over %s`, (transport) => {
    let client: SandboxClient;
    beforeAll(async () => {
      client = connect(transport);
      // While its socket is connecting, the client sends requests over HTTP.
      await client.connect();
    });
    afterAll(() => client.disconnect());
    tests(() => client, transport);
  });
}

let count = 0;
/** A unique id. */
export function unique(word: string): string {
  count += 1;
  return `${word}-${process.pid}-${Date.now().toString(36)}-${count}`;
}

/** A session that is deleted after the body. */
export async function withSession<T>(
  client: SandboxClient,
  body: (id: string) => Promise<T>,
  options: { env?: Record<string, string>; cwd?: string; commandTimeoutMs?: number } = {},
): Promise<T> {
  const id = unique("session");
  await client.utils.createSession({ id, ...options });
  try {
    return await body(id);
  } finally {
    await client.utils.deleteSession(id);
  }
}

/** All events of a stream of a command, read with the package's own parser. */
export async function execEvents(stream: ReadableStream<Uint8Array>): Promise<ExecEvent[]> {
  return Array.fromAsync(parseSSEStream<ExecEvent>(stream));
}

/** All events of a stream of a process. */
export async function logEvents(stream: ReadableStream<Uint8Array>): Promise<LogEvent[]> {
  return Array.fromAsync(parseSSEStream<LogEvent>(stream));
}

/** The concatenated data of the events of a type. */
export function text(events: { type: string; data?: string }[], type: string): string {
  return events.filter((event) => event.type === type).map((event) => event.data ?? "").join("");
}

/** The fields of the client's errors that tests check. */
export interface Failure extends Error {
  code: string;
  httpStatus: number;
  context: Record<string, unknown>;
  timestamp: string;
  [field: string]: unknown;
}

/** The error of a call. A successful call fails the test. */
export async function failure(call: Promise<unknown>): Promise<Failure> {
  const answer = await call.then(
    (value) => ({ value }),
    (error) => ({ error }),
  );
  if ("error" in answer) return answer.error as Failure;
  throw new Error(`The call should have failed, and answered ${JSON.stringify(answer.value)}.`);
}

/** The error of a refused stream: over HTTP it has a class, over the WebSocket it is text with the body. */
export function refusal(error: Failure, transport: Transport): { code: string; httpStatus: number } {
  if (transport === "http") return error;
  const [, status, body] = /^Stream error: (\d+) - (.*)$/s.exec(error.message) ?? [];
  if (body === undefined) throw new Error(`This is no refused stream: ${error.message}`);
  return { code: JSON.parse(body).code, httpStatus: Number(status) };
}
