// Calls on processes.
import { newId } from "./bytes.js";
import { argumentsOf, startFields, stdinFields } from "./command.js";
import { namedSession } from "./core.js";
import { type Ending, endingOf, endSent, start } from "./ending.js";
import { Commands } from "./exec.js";
import { type Client, segment } from "./http.js";
import {
  getLogs,
  isClosing,
  type KillOptions,
  type KillResult,
  kill,
  knownExitCode,
  type LogsOptions,
  Process,
  type ProcessLogs,
  RESERVED_IDS,
  reportFailure,
  type StreamLogsOptions,
  streamLogs,
  unlessUnknown,
} from "./process.js";
import type {
  BaseExecOptions,
  CallOptions,
  InSession,
  LogEvent,
  Output,
  OutputEncoding,
  OutputStream,
  ProcessStatus,
  Schemas,
} from "./types.js";

export interface ProcessOptions<E extends OutputEncoding = "utf8"> extends BaseExecOptions<E> {
  /** Id of the process. Default: a random one. */
  processId?: string | undefined;
  /** `true`: standard input stays open for `write`. Otherwise: the whole input. */
  stdin?: boolean | string | Uint8Array | undefined;
  /** False: the record of the finished process stays until `cleanupCompletedProcesses`. */
  autoCleanup?: boolean | undefined;
  /** `keep`: the process continues when its session is deleted. */
  onSessionEnd?: "kill" | "keep" | undefined;
  onStart?: ((process: Process) => void) | undefined;
  onOutput?: ((stream: OutputStream, data: Output<E>, process: Process) => void) | undefined;
  /** The exit code, or `null` if it is unknown. */
  onExit?: ((exitCode: number | null) => void) | undefined;
  /** The start, the stream of output, or one of the functions has failed. No other function is called after it. */
  onError?: ((error: Error, process?: Process) => void) | undefined;
}

export class Processes extends Commands {
  /** Starts a process in the background: shell text, or a program and its arguments. Resolves when the program runs. */
  startProcess<E extends OutputEncoding = "utf8">(command: string, options?: ProcessOptions<E>): Promise<Process>;
  startProcess<E extends OutputEncoding = "utf8">(
    command: string,
    args: string[],
    options?: ProcessOptions<E>,
  ): Promise<Process>;
  async startProcess<E extends OutputEncoding>(
    command: string,
    argsOrOptions?: string[] | ProcessOptions<E>,
    lastOptions?: ProcessOptions<E>,
  ): Promise<Process> {
    const [args, options = {}] = argumentsOf(argsOrOptions, lastOptions);
    const { stdin, signal } = options;
    const processId = options.processId ?? newId("p");
    const json: Schemas["CommandRequest"] = {
      ...startFields(command, args, options as ProcessOptions<OutputEncoding>, this.boundSession),
      ...(typeof stdin === "boolean" ? { keepStdinOpen: stdin } : stdinFields(stdin)),
      processId,
      autoCleanup: options.autoCleanup,
      onSessionEnd: options.onSessionEnd,
    };
    const request = { json, headers: { "idempotency-key": newId("k") }, signal, repeat: true };
    const ending = endingOf(processId, options.grace);
    // A given id may be that of a process that runs already.
    const aborted = options.processId === undefined ? ending : undefined;
    return begin(this.client, options as ProcessOptions<OutputEncoding>, ending, aborted, async (onSend) => {
      const path = "/api/process/start";
      const started = await this.client.json<Schemas["ProcessStarted"]>("POST", path, { ...request, onSend });
      return new Process(this.client, {
        ...{ id: started.processId, pid: started.pid, command, args, status: "running" },
        ...{ startTime: started.timestamp, sessionId: namedSession(json.sessionId) },
      });
    });
  }

  /** The processes that were started in the background, the oldest first; `all`: also other executions. */
  async listProcesses(
    options: InSession & { status?: ProcessStatus | undefined; all?: boolean | undefined } = {},
  ): Promise<Process[]> {
    const { status, all, signal } = options;
    const request = { query: { status, all, sessionId: this.sessionOf(options) }, signal };
    const list = await this.client.json<Schemas["ProcessList"]>("GET", "/api/process/list", request);
    return list.processes.map((fields) => new Process(this.client, fields));
  }

  /** A process, or `null` if it is unknown, or of another session than the given one. */
  getProcess(id: string, options: InSession = {}): Promise<Process | null> {
    const sessionId = namedSession(this.sessionOf(options));
    return unlessUnknown("PROCESS_NOT_FOUND", async () => {
      const path = `/api/process/${segment(id, ...RESERVED_IDS)}`;
      const request = { signal: options.signal };
      const { process } = await this.client.json<Schemas["ProcessResponse"]>("GET", path, request);
      return sessionId && process.sessionId !== sessionId ? null : new Process(this.client, process);
    });
  }

  /** Ends a process, or any other execution, and everything it has started. */
  killProcess(id: string, signalOrOptions: string | KillOptions = {}): Promise<KillResult> {
    return kill(this.client, `/api/process/${segment(id, ...RESERVED_IDS)}`, signalOrOptions);
  }

  /** Ends all processes, or those of the session. Resolves to their number. */
  async killAllProcesses(options: InSession = {}): Promise<number> {
    const request = { query: { sessionId: this.sessionOf(options) }, signal: options.signal, urgent: true };
    return (await this.client.json<Schemas["CleanupResponse"]>("DELETE", "/api/process/kill-all", request))
      .cleanedCount;
  }

  /** Removes the records of finished processes. Resolves to their number. */
  async cleanupCompletedProcesses(options: CallOptions = {}): Promise<number> {
    const request = { json: {}, signal: options.signal };
    return (await this.client.json<Schemas["CleanupResponse"]>("POST", "/api/process/cleanup", request)).cleanedCount;
  }

  /** The output of a process so far. */
  getProcessLogs<E extends OutputEncoding = "utf8">(
    id: string,
    options: LogsOptions<E> = {},
  ): Promise<ProcessLogs<Output<E>>> {
    return getLogs(this.client, `/api/process/${segment(id, ...RESERVED_IDS)}/logs`, options);
  }

  /** Follows the output of a process. */
  streamProcessLogs<E extends OutputEncoding = "utf8">(
    id: string,
    options: StreamLogsOptions<E> = {},
  ): AsyncGenerator<LogEvent<Output<E>>, void, void> {
    return streamLogs(this.client, `/api/process/${segment(id, ...RESERVED_IDS)}/stream`, options);
  }
}

/**
 * Starts a process or a service, and calls the functions of the options. `aborted` ends what an aborted start may have
 * started. If `onStart` throws, the process is ended with `ending`: the caller does not get it.
 */
export async function begin<P extends Process>(
  client: Client,
  options: ProcessOptions<OutputEncoding>,
  ending: Ending,
  aborted: Ending | undefined,
  run: (onSend: () => void) => Promise<P>,
): Promise<P> {
  try {
    const process = await start(client, aborted, run);
    try {
      await options.onStart?.(process);
    } catch (error) {
      await endSent(client, ending, true);
      throw error;
    }
    if (options.onOutput || options.onExit) {
      follow(client, process, options).catch((error) => reportFailure(client, error));
    }
    return process;
  } catch (error) {
    await options.onError?.(error as Error);
    throw error;
  }
}

/** Calls the functions of the options as the process writes and ends, until one of them throws or the sandbox is closed. */
async function follow(client: Client, process: Process, options: ProcessOptions<OutputEncoding>): Promise<void> {
  const { onOutput, onExit, onError, encoding } = options;
  try {
    if (onOutput) {
      for await (const { type, data } of process.allOutput({ encoding: encoding ?? "utf8" })) {
        if (type === "stdout" || type === "stderr") await onOutput(type, data as never, process);
      }
    }
    if (onExit) await onExit(knownExitCode(await process.waitForExit()));
  } catch (error) {
    if (!onError || isClosing(client, error)) throw error;
    await onError(error as Error, process);
  }
}
