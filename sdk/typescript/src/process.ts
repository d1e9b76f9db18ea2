// Process: a command in the background.
import { toBytes } from "./bytes.js";
import { decoded } from "./command.js";
import { asyncDispose } from "./core.js";
import { Deadline, waitOptions } from "./deadline.js";
import { AbortError, type ErrorCode, errorOf, SandcrabError } from "./errors.js";
import { type Client, segment } from "./http.js";
import { LineSearch, type LogMatch } from "./lines.js";
import { type PortOptions, waitForPort } from "./port.js";
import { events } from "./stream.js";
import type {
  CallOptions,
  End,
  LogEvent,
  Output,
  OutputEncoding,
  OutputStream,
  ProcessStatus,
  Schemas,
  Usage,
  WaitOptions,
} from "./types.js";
import { wait } from "./wait.js";

/** Names of routes, which are not ids. */
export const RESERVED_IDS = ["list", "kill-all", "cleanup"];

export interface KillOptions extends CallOptions {
  /** First signal. Default: SIGTERM. */
  signalName?: string | undefined;
  /** Time before SIGKILL, in milliseconds. */
  grace?: number | undefined;
}

export interface LogsOptions<E extends OutputEncoding = "utf8"> extends CallOptions {
  encoding?: E | undefined;
  /** Only the last lines of each stream. */
  tail?: number | undefined;
  /** Only output after this cursor. */
  since?: string | number | undefined;
}

export interface StreamLogsOptions<E extends OutputEncoding = "utf8"> extends CallOptions {
  encoding?: E | undefined;
  /** Only output after this cursor. */
  since?: string | number | undefined;
  /** False: ends with the output so far. */
  follow?: boolean | undefined;
}

export type ProcessLogs<D = string> = Omit<Schemas["ProcessLogs"], "stdout" | "stderr"> & { stdout: D; stderr: D };
export type KillResult = Schemas["KillResponse"];
/** The processes that were ended, and those that could not be. */
export type Killed = Pick<KillResult, "killed" | "survivors">;

/** How a process ended. */
export interface ProcessExit {
  exitCode: number;
  end?: End | null;
  usage?: Usage | null;
  status: ProcessStatus;
}

export interface ProcessFields {
  id: string;
  pid?: number | null | undefined;
  command: string;
  args?: string[] | undefined;
  status: ProcessStatus;
  startTime: string;
  endTime?: string | null | undefined;
  exitCode?: number | null | undefined;
  sessionId?: string | null | undefined;
}

/** A process of the server. The object is a handle: losing it ends nothing. */
export class Process {
  readonly id: string;
  readonly command: string;
  readonly args: string[];
  readonly startTime: Date;
  readonly sessionId: string | undefined;
  pid: number | undefined;
  status!: ProcessStatus;
  endTime: Date | undefined;
  exitCode: number | undefined;
  /** @internal */
  protected readonly client: Client;

  /** @internal */
  constructor(client: Client, fields: ProcessFields) {
    this.client = client;
    this.id = fields.id;
    this.command = fields.command;
    this.args = fields.args ?? [];
    this.startTime = new Date(fields.startTime);
    this.sessionId = fields.sessionId ?? undefined;
    this.update(fields);
  }

  /** The execution that the routes of processes name. @internal */
  protected get path(): string {
    return `/api/process/${segment(this.id, ...RESERVED_IDS)}`;
  }

  /** @internal */
  protected update<F extends Pick<ProcessFields, "status" | "pid" | "endTime" | "exitCode">>(fields: F): F {
    this.status = fields.status;
    this.pid = fields.pid ?? this.pid;
    this.endTime = fields.endTime ? new Date(fields.endTime) : undefined;
    this.exitCode = fields.exitCode ?? undefined;
    return fields;
  }

  /** Ends the process and everything it has started. Resolves when they have ended. */
  kill(signalOrOptions: string | KillOptions = {}): Promise<Killed> {
    return kill(this.client, this.path, signalOrOptions);
  }

  /** Sends a signal, by name or number. */
  async signal(signal: string | number, options: CallOptions = {}): Promise<void> {
    await this.client.json("POST", `${this.path}/signal`, { json: { signal }, urgent: true, ...options });
  }

  /** Writes to standard input, which must be open (`stdin: true`). Resolves when the process can read it. */
  async write(data: string | Uint8Array, options: CallOptions = {}): Promise<number> {
    const request = { body: toBytes(data), urgent: true, ...options };
    return (await this.client.json<Schemas["StdinResponse"]>("POST", `${this.path}/stdin`, request)).written;
  }

  /** Closes standard input. */
  async closeStdin(options: CallOptions = {}): Promise<void> {
    await this.client.json("POST", `${this.path}/stdin`, { query: { close: true }, urgent: true, ...options });
  }

  /** The status now. Updates the fields of this object. */
  async getStatus(options: CallOptions = {}): Promise<ProcessStatus> {
    return (await this.getInfo(options)).status;
  }

  /** All fields of the process on the server. Updates the fields of this object. */
  async getInfo(options: CallOptions & { metrics?: boolean | undefined } = {}): Promise<Schemas["Process"]> {
    const { signal, metrics } = options;
    const request = { signal, query: { metrics } };
    return this.update((await this.client.json<Schemas["ProcessResponse"]>("GET", this.path, request)).process);
  }

  /** The output so far. */
  getLogs<E extends OutputEncoding = "utf8">(options: LogsOptions<E> = {}): Promise<ProcessLogs<Output<E>>> {
    return getLogs(this.client, `${this.path}/logs`, options);
  }

  /** Follows the output from the beginning, or from a cursor. Leaving the loop does not end the process. */
  streamLogs<E extends OutputEncoding = "utf8">(
    options: StreamLogsOptions<E> = {},
  ): AsyncGenerator<LogEvent<Output<E>>, void, void> {
    return streamLogs(this.client, `${this.path}/stream`, options);
  }

  /** The output of all executions. @internal */
  allOutput(options: StreamLogsOptions<OutputEncoding>): AsyncGenerator<{ type: string; data?: unknown }, void, void> {
    return this.streamLogs(options);
  }

  /** The exact bytes of one stream so far, from an offset on. */
  output(
    stream: OutputStream = "stdout",
    options: CallOptions & { from?: number | undefined } = {},
  ): Promise<ReadableStream<Uint8Array>> {
    const { from, signal } = options;
    const headers = { range: from ? `bytes=${from}-` : undefined };
    return this.client.bytes(`${this.path}/output`, { query: { stream }, headers, signal });
  }

  /** The output with its times, as an asciicast of version 2. */
  getRecording(options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.client.bytes(`${this.path}/recording`, options);
  }

  /**
   * Waits for a line that contains a text or matches a regular expression, in the output from the beginning on. Fails with
   * PROCESS_READY_TIMEOUT after `timeout` milliseconds, and with PROCESS_ENDED if the process ends first.
   */
  async waitForLog(pattern: string | RegExp, timeoutOrOptions: number | WaitOptions = {}): Promise<LogMatch> {
    const options = waitOptions(timeoutOrOptions);
    const what = `the output of process ${this.id} had no line that matches ${String(pattern)}`;
    return Deadline.run(options, what, async (signal) => {
      const search = new LineSearch(pattern);
      for await (const event of this.streamLogs({ signal })) {
        const isOutput = event.type === "stdout" || event.type === "stderr";
        const found = isOutput ? search.push(event.type, event.data) : event.type === "exit" ? search.end() : undefined;
        if (found) return found;
      }
      throw errorOf({
        code: "PROCESS_ENDED",
        message: `${what}, and the process has ended`,
        context: { processId: this.id },
      });
    });
  }

  /** Waits until the process serves a port. Options as for `Sandbox.waitForPort`. */
  waitForPort(port: number, options: PortOptions = {}): Promise<void> {
    return waitForPort(this.client, port, { processId: this.id, ...options });
  }

  /** Waits for the end, also across a restart of the server. Fails with PROCESS_READY_TIMEOUT after `timeout` milliseconds. */
  async waitForExit(timeoutOrOptions: number | WaitOptions = {}): Promise<ProcessExit> {
    const what = `process ${this.id} has not ended`;
    const request = (timeoutMs: number) => ({ query: { timeoutMs } });
    const path = `${this.path}/wait`;
    const answer = await wait<Schemas["ProcessResponse"]>(this.client, "GET", path, timeoutOrOptions, what, request);
    const { end, usage, status, exitCode } = this.update(answer.process);
    return { exitCode: exitCode ?? -1, end, usage, status };
  }

  /** Calls a function when the process has ended, with `null` if its exit code is unknown. The result cancels it. */
  onExit(listener: (exitCode: number | null) => void): () => void {
    const waiting = new AbortController();
    this.waitForExit({ signal: waiting.signal })
      .then(knownExitCode, (error) => {
        // A record that was removed is that of a process that has ended.
        ignoreMissing(error);
        return null;
      })
      .then((exitCode) => waiting.signal.aborted || listener(exitCode))
      .catch((error) => {
        if (!(waiting.signal.aborted && error instanceof AbortError)) reportFailure(this.client, error);
      });
    return () => waiting.abort();
  }

  /** Ends the process. */
  async [asyncDispose](): Promise<void> {
    await this.kill().catch(ignoreMissing);
  }
}

/** The exit code, or `null` if unknown. */
export function knownExitCode({ end, exitCode }: ProcessExit): number | null {
  return end?.reason === "lost" || exitCode < 0 ? null : exitCode;
}

/** A function of the program has thrown, or cannot be called any more, and no call is left that could reject. */
export function reportFailure(client: Client, error: unknown): void {
  if (!isClosing(client, error)) console.error("the callbacks of a process failed:", error);
}

/** Whether an error only means that the program has closed the sandbox. */
export function isClosing(client: Client, error: unknown): boolean {
  return client.isClosed && error instanceof SandcrabError;
}

/** The answer of a call, or `null` if what it asks for is unknown. */
export async function unlessUnknown<T>(code: ErrorCode, call: () => Promise<T>): Promise<T | null> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof SandcrabError && error.code === code) return null;
    throw error;
  }
}

/** What was removed meanwhile needs no removal. */
export function ignoreMissing(error: unknown): void {
  if (!(error instanceof SandcrabError && error.status === 404)) throw error;
}

export function kill<T = KillResult>(
  client: Client,
  path: string,
  how: string | KillOptions,
  repeat = true,
): Promise<T> {
  const { signalName, grace, signal } = typeof how === "string" ? { signalName: how } : how;
  const query = { signal: signalName, graceMs: grace };
  return client.json<T>("DELETE", path, { query, signal, urgent: true, repeat, long: true });
}

export async function getLogs<E extends OutputEncoding>(
  client: Client,
  path: string,
  options: LogsOptions<E>,
): Promise<ProcessLogs<Output<E>>> {
  const { tail, since, signal } = options;
  const encoding: OutputEncoding | undefined = options.encoding;
  const query = { tail, since, encoding: encoding === "bytes" ? "base64" : encoding };
  const logs = await client.json<Schemas["ProcessLogs"]>("GET", path, { query, signal });
  const output = { stdout: decoded(encoding, logs.stdout), stderr: decoded(encoding, logs.stderr) };
  return { ...logs, ...output } as ProcessLogs<Output<E>>;
}

export async function* streamLogs<T>(
  client: Client,
  path: string,
  options: StreamLogsOptions<OutputEncoding>,
  last = ["exit", "caught_up"],
): AsyncGenerator<T, void, void> {
  const { encoding, follow, since, signal } = options;
  const query = { encoding: encoding === "bytes" ? "base64" : encoding, follow };
  const request = { method: "GET", path, query, signal, since: since?.toString(), opening: ["process_info"], last };
  for await (const event of events<{ type: string; data?: unknown }>(client, request)) {
    if (encoding === "bytes" && /^std(out|err)$/.test(event.type)) event.data = decoded("bytes", event.data as string);
    yield event as T;
  }
}
