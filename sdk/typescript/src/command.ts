// From the options of a call to the request of the API, and from its answer to a result.
import { decodeBase64, encodeBase64 } from "./bytes.js";
import { OutputBuffer } from "./output.js";
import type { BaseExecOptions, ExecResult, OutputEncoding, Schemas } from "./types.js";

/** `(command, options?)` or `(command, args, options?)`. */
export function argumentsOf<O>(argsOrOptions?: string[] | O, options?: O): [string[] | undefined, O | undefined] {
  return Array.isArray(argsOrOptions) ? [argsOrOptions, options] : [undefined, argsOrOptions ?? options];
}

/** The fields that every way to start a command has. */
export function startFields(
  command: string,
  args: string[] | undefined,
  options: BaseExecOptions<OutputEncoding>,
  sessionId: string | undefined,
): Schemas["CommandRequest"] {
  return {
    command,
    args,
    sessionId: options.sessionId ?? sessionId,
    timeoutMs: options.timeout,
    idleTimeoutMs: options.idleTimeout,
    graceMs: options.grace,
    env: options.env && variables(options.env),
    cwd: options.cwd,
    encoding: options.encoding === "bytes" ? "base64" : options.encoding,
    user: options.user,
    limits: options.limits,
    leftovers: options.leftovers,
    overflow: options.overflow,
  };
}

/** `undefined` unsets a variable, as `null` does. JSON would leave it out. */
export function variables(env: Record<string, string | null | undefined>): Record<string, string | null> {
  return Object.fromEntries(Object.entries(env).map(([name, value]) => [name, value ?? null]));
}

/** Standard input: bytes are sent as base64. */
export function stdinFields(stdin: string | Uint8Array | undefined): Partial<Schemas["CommandRequest"]> {
  if (stdin === undefined || typeof stdin === "string") return { stdin };
  return { stdin: encodeBase64(stdin), stdinEncoding: "base64" };
}

/** Output in the type that the caller has chosen. */
export function decoded(encoding: OutputEncoding | undefined, data: string): string | Uint8Array {
  return encoding === "bytes" ? decodeBase64(data) : data;
}

const TIMEOUTS = ["timeout", "idle_timeout"];

/** The result of an answer of `POST /api/execute`. */
export function resultOf(
  answer: Schemas["ExecuteResult"],
  args: string[] | undefined,
  encoding: OutputEncoding | undefined,
): ExecResult<string | Uint8Array> {
  const { type: _type, encoding: _encoding, cursor: _cursor, ...fields } = answer;
  return {
    ...fields,
    args: args ?? [],
    stdout: decoded(encoding, answer.stdout),
    stderr: decoded(encoding, answer.stderr),
    timedOut: TIMEOUTS.includes(answer.end.reason),
  };
}

/** Builds the result of a command from the events of its stream. */
export class Collector {
  readonly #kept: Record<"stdout" | "stderr", OutputBuffer>;
  readonly #started = Date.now();
  #complete: Schemas["CompleteEvent"] | undefined;
  #start: Schemas["StartEvent"] | undefined;
  #invalidUtf8 = false;

  constructor(
    readonly command: string,
    readonly args: string[] | undefined,
    readonly encoding: OutputEncoding | undefined,
    maxOutputBytes: number,
  ) {
    this.#kept = {
      stdout: new OutputBuffer(maxOutputBytes, encoding),
      stderr: new OutputBuffer(maxOutputBytes, encoding),
    };
  }

  /** Takes an event whose data is decoded. */
  push(event: { type: string; data?: unknown; invalidUtf8?: boolean }): void {
    if (event.type === "stdout" || event.type === "stderr") {
      this.#kept[event.type].push(event.data as string | Uint8Array);
      this.#invalidUtf8 ||= event.invalidUtf8 ?? false;
    } else if (event.type === "start") {
      this.#start = event as Schemas["StartEvent"];
    } else if (event.type === "complete") {
      this.#complete = event as unknown as Schemas["CompleteEvent"];
    }
  }

  /** The result so far. Before the last event it is that of a command that was killed. */
  result(executionId: string): ExecResult<string | Uint8Array> {
    const stdout = this.#kept.stdout.kept();
    const stderr = this.#kept.stderr.kept();
    const end: Schemas["End"] = this.#complete?.end ?? { reason: "killed" };
    const wallMs = Date.now() - this.#started;
    const truncated = {
      stdoutBytes: stdout.dropped,
      stdoutAfterBytes: stdout.droppedAfter,
      stderrBytes: stderr.dropped,
      stderrAfterBytes: stderr.droppedAfter,
    };
    return {
      success: false,
      exitCode: 143,
      duration: wallMs,
      timestamp: new Date().toISOString(),
      executionId: this.#start?.executionId ?? executionId,
      ...this.#complete?.result,
      command: this.command,
      args: this.args ?? [],
      stdout: stdout.data,
      stderr: stderr.data,
      end,
      usage: this.#complete?.usage ?? { userMs: 0, systemMs: 0, wallMs, maxRssBytes: 0 },
      timedOut: TIMEOUTS.includes(end.reason),
      ...(this.#invalidUtf8 && { invalidUtf8: true }),
      ...(stdout.dropped + stderr.dropped > 0 && { truncated }),
    };
  }
}
