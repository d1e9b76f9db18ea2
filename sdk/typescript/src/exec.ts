// exec and execStream: commands that belong to their caller.
import { onAbort, unlessAborted } from "./abort.js";
import { newId } from "./bytes.js";
import { atLeast } from "./check.js";
import { argumentsOf, Collector, decoded, resultOf, startFields, stdinFields } from "./command.js";
import { Core, namedSession } from "./core.js";
import { ANSWER_MS, type Ending, end, endingOf, endSent } from "./ending.js";
import { AbortError } from "./errors.js";
import type { Client } from "./http.js";
import { events } from "./stream.js";
import type {
  ExecEvent,
  ExecOptions,
  ExecResult,
  ExecStreamOptions,
  Output,
  OutputEncoding,
  OutputStream,
  Schemas,
} from "./types.js";

const DEFAULT_MAX_OUTPUT_BYTES = 10 << 20;
const noop = () => {};

export class Commands extends Core {
  /**
   * Runs a command and waits for its end: shell text, or a program and its arguments. A failing command is not an error, and
   * neither is a timeout. An abort ends the command, and rejects with the result so far.
   */
  exec<E extends OutputEncoding = "utf8">(command: string, options?: ExecOptions<E>): Promise<ExecResult<Output<E>>>;
  exec<E extends OutputEncoding = "utf8">(
    command: string,
    args: string[],
    options?: ExecOptions<E>,
  ): Promise<ExecResult<Output<E>>>;
  async exec<E extends OutputEncoding>(
    command: string,
    argsOrOptions?: string[] | ExecOptions<E>,
    lastOptions?: ExecOptions<E>,
  ): Promise<ExecResult<Output<E>>> {
    const [args, options = {}] = argumentsOf(argsOrOptions, lastOptions);
    const executionId = options.executionId ?? newId("x");
    const json: Schemas["CommandRequest"] = {
      ...startFields(command, args, options as ExecOptions<OutputEncoding>, this.boundSession),
      ...stdinFields(options.stdin),
      executionId,
    };
    let endTurn: (() => void) | undefined;
    try {
      endTurn = await this.client.turns.take(namedSession(json.sessionId), options.signal);
      // The response to a stream tells at once whether a given id was free.
      const isStreamed = options.stream || options.onOutput || (options.signal && options.executionId);
      const run = isStreamed ? this.#streamed(json, args, options, endTurn) : this.#awaited(json, args, options);
      const result = (await run) as ExecResult<Output<E>>;
      await options.onComplete?.(result);
      return result;
    } catch (error) {
      await options.onError?.(error as Error);
      throw error;
    } finally {
      endTurn?.();
    }
  }

  /**
   * Runs a command; the loop receives its output as it is written. Leaving the loop, or an abort, ends the command, unless
   * `onDisconnect` is `keep`.
   */
  execStream<E extends OutputEncoding = "utf8">(
    command: string,
    options?: ExecStreamOptions<E>,
  ): AsyncGenerator<ExecEvent<Output<E>>, void, void>;
  execStream<E extends OutputEncoding = "utf8">(
    command: string,
    args: string[],
    options?: ExecStreamOptions<E>,
  ): AsyncGenerator<ExecEvent<Output<E>>, void, void>;
  async *execStream<E extends OutputEncoding>(
    command: string,
    argsOrOptions?: string[] | ExecStreamOptions<E>,
    lastOptions?: ExecStreamOptions<E>,
  ): AsyncGenerator<ExecEvent<Output<E>>, void, void> {
    const [args, options = {}] = argumentsOf(argsOrOptions, lastOptions);
    const executionId = options.executionId ?? newId("x");
    const json: Schemas["CommandRequest"] = {
      ...startFields(command, args, options as ExecOptions<OutputEncoding>, this.boundSession),
      ...stdinFields(options.stdin),
      executionId,
    };
    const { signal } = options;
    let isSent = false;
    let isKnown = false;
    let isOver = false;
    let isOutside = false;
    const request = new AbortController();
    let patience: ReturnType<typeof setTimeout> | undefined;
    let ended: Promise<void> | undefined;
    const end = () => {
      if (!isSent || isOver || options.onDisconnect === "keep") return;
      // A given id that was not accepted is that of another command.
      if (!options.executionId || isKnown) {
        ended ??= endSent(this.client, endingOf(executionId, options.grace), isKnown);
      }
    };
    const stop = () => {
      request.abort(signal?.reason);
      end();
    };
    const endTurn = await this.client.turns.take(namedSession(json.sessionId), signal);
    // An abort ends the command at once: the loop may be busy with an event, or never continue.
    const forget = onAbort(signal, () => {
      if (isSent && !isKnown && options.executionId) patience = setTimeout(stop, ANSWER_MS);
      else stop();
    });
    const onSend = () => {
      isSent = true;
    };
    const onOpen = () => {
      isKnown = true;
      if (signal?.aborted) stop();
    };
    try {
      for await (const event of outputEvents(this.client, json, options, request.signal, onSend, onOpen)) {
        endTurn();
        isOver ||= event.type === "complete";
        isOutside = true;
        yield event as ExecEvent<Output<E>>;
        isOutside = false;
      }
    } catch (error) {
      // A refused request has started nothing, and an error event is the end of its command. An error of the loop is not.
      isOver ||= !isOutside && !(error instanceof AbortError);
      throw signal?.aborted && !isOutside ? new AbortError(signal.reason) : error;
    } finally {
      clearTimeout(patience);
      forget();
      endTurn();
      end();
      await ended;
    }
  }

  #awaited(
    json: Schemas["CommandRequest"],
    args: string[] | undefined,
    options: ExecOptions<OutputEncoding>,
  ): Promise<ExecResult<string | Uint8Array>> {
    const { client } = this;
    const body = { ...json, maxOutputBytes: options.maxOutputBytes };
    const headers = { "idempotency-key": newId("k") };
    const path = "/api/execute";
    const ending = endingOf(json.executionId ?? "", options.grace);
    return abortable(client, ending, true, options.signal, undefined, async (signal, onSend) => {
      const request = { json: body, headers, signal, queueSignal: options.signal, onSend, repeat: true, long: true };
      const answer = await client.json<Schemas["ExecuteResult"]>("POST", path, request);
      return resultOf(answer, args, options.encoding);
    });
  }

  #streamed(
    json: Schemas["CommandRequest"],
    args: string[] | undefined,
    options: ExecOptions<OutputEncoding>,
    endTurn: () => void,
  ): Promise<ExecResult<string | Uint8Array>> {
    const { client } = this;
    const id = json.executionId ?? "";
    // The server has no limit for streams: what is kept of them is up to this client.
    const ofSession = json.sessionId === this.boundSession ? this.boundOutputBytes : undefined;
    const max = atLeast(0, "maxOutputBytes", options.maxOutputBytes ?? ofSession ?? DEFAULT_MAX_OUTPUT_BYTES);
    const collector = new Collector(json.command, args, options.encoding, max);
    const partial = () => collector.result(id);
    const ending = endingOf(id, options.grace);
    const isOwn = !options.executionId;
    return abortable(client, ending, isOwn, options.signal, partial, async (signal, onSend, onOpen) => {
      for await (const event of outputEvents(client, json, options, signal, onSend, onOpen)) {
        endTurn();
        collector.push(event);
        if (event.type === "stdout" || event.type === "stderr") {
          try {
            await options.onOutput?.(event.type as OutputStream, event.data as never);
          } catch (error) {
            // The command belongs to this call, which ends here.
            await endSent(client, ending, true);
            throw error;
          }
        }
      }
      return collector.result(id);
    });
  }
}

/** The events of a command, with decoded output. The command is started once, however often the connection is lost. */
async function* outputEvents(
  client: Client,
  json: Schemas["CommandRequest"],
  options: { encoding?: OutputEncoding; signal?: AbortSignal | undefined },
  signal: AbortSignal | undefined,
  onSend: () => void,
  onOpen: () => void,
): AsyncGenerator<{ type: string; data?: unknown }, void, void> {
  const stream = events<{ type: string; data?: unknown }>(client, {
    method: "POST",
    path: "/api/execute/stream",
    json,
    headers: { "idempotency-key": newId("k") },
    signal,
    queueSignal: options.signal,
    onSend,
    onOpen,
    opening: ["start"],
    last: ["complete"],
  });
  for await (const event of stream) {
    if (options.encoding === "bytes" && typeof event.data === "string") event.data = decoded("bytes", event.data);
    yield event;
  }
}

/**
 * Runs a command that an abort ends. If its id was given (`isOwn` is false), it may be that of an older command, until the
 * server has accepted it. The answer to the first request then has the output until the end, so it is
 * awaited before the call rejects.
 */
async function abortable(
  client: Client,
  ending: Ending,
  isOwn: boolean,
  signal: AbortSignal | undefined,
  partial: (() => ExecResult<string | Uint8Array>) | undefined,
  run: (
    signal: AbortSignal | undefined,
    onSend: () => void,
    onOpen: () => void,
  ) => Promise<ExecResult<string | Uint8Array>>,
): Promise<ExecResult<string | Uint8Array>> {
  if (!signal) return run(undefined, noop, noop);
  if (signal.aborted) throw new AbortError(signal.reason);
  const request = new AbortController();
  let isSent = false;
  let isSettled = false;
  let ended: Promise<void> | undefined;
  let isKnown = isOwn;
  let onKnown = noop;
  const endCommand = async () => {
    if (!isKnown) {
      const answered = (resolve: () => void) => {
        onKnown = resolve;
        running.then(resolve, resolve);
      };
      await unlessAborted<void>(AbortSignal.timeout(ANSWER_MS), answered).catch(noop);
      if (!isKnown) return request.abort(signal.reason);
    }
    const giveUpAt = Date.now() + ANSWER_MS;
    await end(client, ending, () => isSettled || Date.now() > giveUpAt);
    const timer = setTimeout(() => request.abort(signal.reason), ANSWER_MS);
    await running.catch(noop);
    clearTimeout(timer);
  };
  const forget = onAbort(signal, () => {
    if (isSent) ended = endCommand().catch(() => request.abort(signal.reason));
  });
  const running = run(
    request.signal,
    () => {
      // Nor is a start repeated after the abort: it could arrive when nothing is left that ends it.
      if (signal.aborted) throw new AbortError(signal.reason);
      isSent = true;
    },
    () => {
      isKnown = true;
      onKnown();
    },
  );
  const onSettled = (error?: unknown) => {
    // A request that was lost may still arrive.
    isSettled = !(error instanceof AbortError);
  };
  running.then(() => onSettled(), onSettled);
  let result: ExecResult<string | Uint8Array> | undefined;
  try {
    result = await running;
  } catch (error) {
    if (!signal.aborted) throw error;
    result = isSent ? partial?.() : undefined;
  } finally {
    forget();
  }
  if (!signal.aborted) return result as ExecResult<string | Uint8Array>;
  await ended;
  throw new AbortError(signal.reason, result);
}
