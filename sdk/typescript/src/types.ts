// The public types: those of the API, and the options of calls.
import type { components } from "./generated.js";

type Schemas = components["schemas"];

export interface SandboxOptions {
  /** Address of the server. Default: the variable SANDCRAB_URL, else http://127.0.0.1:7070. */
  baseUrl?: string | URL | undefined;
  /** Token of the server. Default: the variable SANDCRAB_TOKEN. */
  token?: string | undefined;
  /**
   * Most connections at a time, streams included. Further requests wait in order. With fewer than 4 there may be one more,
   * which ends commands. Default: 64.
   */
  maxConnections?: number | undefined;
  /** How long a lost connection is tried again, in milliseconds. Default: 30,000. */
  reconnectTimeout?: number | undefined;
  /** Headers of every request. */
  headers?: Record<string, string> | undefined;
  /** Another `fetch`, for example one with a proxy. */
  fetch?: typeof fetch | undefined;
  /** Another WebSocket class. Default: that of the platform; Node before version 22 has none, and a small one is used. */
  WebSocket?: (new (url: string, protocols?: string[]) => WebSocket) | undefined;
}

/** An option of every call. */
export interface CallOptions {
  /** Aborts the call. */
  signal?: AbortSignal | undefined;
}

/** Options of calls that wait. */
export interface WaitOptions extends CallOptions {
  /** Give up after this time, in milliseconds. */
  timeout?: number | undefined;
}

/** An option of calls on files, git, backups: relative paths are relative to the working directory of the session. */
export interface InSession extends CallOptions {
  sessionId?: string | undefined;
}

/** `utf8`: text. `base64`: text that encodes the exact bytes. `bytes`: a Uint8Array with the exact bytes. */
export type OutputEncoding = "utf8" | "base64" | "bytes";
export type Output<E extends OutputEncoding> = E extends "bytes" ? Uint8Array : string;

export type OutputStream = "stdout" | "stderr";
export type Limits = Optional<Schemas["Limits"]>;
export type ProcessStatus = Schemas["ProcessStatus"];
export type End = Schemas["End"];
export type Usage = Schemas["Usage"];

export interface BaseExecOptions<E extends OutputEncoding = "utf8"> extends CallOptions {
  sessionId?: string | undefined;
  /** Maximum run time in milliseconds. */
  timeout?: number | undefined;
  /** Ends the command if it writes nothing for so long, in milliseconds. */
  idleTimeout?: number | undefined;
  /** Time between SIGTERM and SIGKILL, in milliseconds. Default: 1,000 after a timeout, 5,000 after an abort. */
  grace?: number | undefined;
  /** Variables; `null` or `undefined` unsets one. */
  env?: Record<string, string | null | undefined> | undefined;
  cwd?: string | undefined;
  encoding?: E | undefined;
  /** User that runs the command. */
  user?: string | undefined;
  limits?: Limits | undefined;
  /** What happens to processes that the command leaves behind. Default: `keep`. */
  leftovers?: Schemas["Leftovers"] | undefined;
  /** `wait`: the command waits for a slow reader, and no output is dropped. Only for streams and processes. */
  overflow?: Schemas["Overflow"] | undefined;
}

export interface ExecOptions<E extends OutputEncoding = "utf8"> extends BaseExecOptions<E> {
  /** Standard input. */
  stdin?: string | Uint8Array | undefined;
  /** Id of the execution. Default: a random one. */
  executionId?: string | undefined;
  /** Most bytes of each stream in the result; the rest is left out in the middle. Default: 10 MiB. */
  maxOutputBytes?: number | undefined;
  /** Receive output while the command runs. Implied by `onOutput`. */
  stream?: boolean | undefined;
  /** A promise that a function returns is awaited. If a function fails, the call does, and its command is ended. */
  onOutput?: ((stream: OutputStream, data: Output<E>) => void) | undefined;
  onComplete?: ((result: ExecResult<Output<E>>) => void) | undefined;
  onError?: ((error: Error) => void) | undefined;
}

export interface ExecStreamOptions<E extends OutputEncoding = "utf8">
  extends Omit<ExecOptions<E>, "stream" | "maxOutputBytes" | "onOutput" | "onComplete" | "onError"> {
  /** `keep`: the command continues if the loop is left. Default: `kill`. */
  onDisconnect?: "keep" | "kill" | undefined;
}

type ResultFields = Omit<Schemas["ExecuteResult"], "stdout" | "stderr" | "args" | "type" | "encoding" | "cursor">;

/** The end of a command, also after a timeout. */
export interface ExecResult<D = string> extends ResultFields {
  stdout: D;
  stderr: D;
  args: string[];
  /** Whether `timeout` or `idleTimeout` ended the command. */
  timedOut: boolean;
}

/** An event with the position after it, from which a later stream can continue (`since`). */
type Positioned<T> = T & { cursor?: string };
/** `data` is there for every type, so that it can be read without a check of the type. */
type Event<T> = Positioned<T> & { data?: undefined };
export type OutputEvent<D = string> = Positioned<
  Omit<Schemas["StdoutEvent"] | Schemas["StderrEvent"], "data" | "type"> & { type: OutputStream; data: D }
>;

/** An event of `execStream`. A newer server may send other types. */
export type ExecEvent<D = string> =
  | OutputEvent<D>
  | Event<Schemas["StartEvent"]>
  | Event<Schemas["GapEvent"]>
  | Event<Schemas["CompleteEvent"]>;

/** An event of `streamLogs`. A newer server may send other types. */
export type LogEvent<D = string> =
  | OutputEvent<D>
  | Event<Schemas["ProcessInfoEvent"]>
  | Event<Schemas["GapEvent"]>
  | Positioned<Schemas["ExitEvent"]>
  | Event<Schemas["CaughtUpEvent"]>;

/** An event of `streamOutput` of a service. A newer server may send other types. */
export type ServiceEvent<D = string> =
  | OutputEvent<D>
  | Event<Schemas["ServiceExecutionEvent"]>
  | Event<Schemas["ServiceGapEvent"]>
  | Positioned<Schemas["ServiceExitEvent"]>
  | Event<Schemas["ServiceEndEvent"]>
  | Event<Schemas["ServiceCaughtUpEvent"]>;

export type ServerEvent = Schemas["ServerEvent"];
export type SearchEvent = Exclude<Schemas["SearchEvent"], Schemas["SearchErrorEvent"]>;
export type FileEvent = Exclude<Schemas["FileEvent"], Schemas["FileErrorEvent"]>;
export type WatchEvent = Exclude<Schemas["WatchEvent"], Schemas["WatchErrorEvent"]>;
export type GitEvent = Exclude<Schemas["GitEvent"], Schemas["GitErrorEvent"]>;
export type PortWatchEvent = Exclude<Schemas["PortWatchEvent"], Schemas["PortErrorEvent"]>;

/** A request of the API without the fields that the SDK sets. */
export type Options<Name extends keyof Schemas, Fields extends string = never> = Optional<
  Omit<Schemas[Name], Fields | "sessionId">
> &
  InSession;

/** Fields that may be left out may also be `undefined`, whatever `exactOptionalPropertyTypes` is. */
export type Optional<T> = { [K in keyof T]: Record<never, never> extends Pick<T, K> ? T[K] | undefined : T[K] };

export type { Schemas };
