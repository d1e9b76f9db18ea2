// Service: a process that the server restarts and checks.
import { newId } from "./bytes.js";
import { argumentsOf, startFields } from "./command.js";
import { asyncDispose, namedSession } from "./core.js";
import { Deadline, waitOptions } from "./deadline.js";
import { type Client, segment } from "./http.js";
import {
  getLogs,
  ignoreMissing,
  type KillOptions,
  kill,
  type LogsOptions,
  Process,
  type ProcessExit,
  type ProcessFields,
  type ProcessLogs,
  type StreamLogsOptions,
  streamLogs,
  unlessUnknown,
} from "./process.js";
import { begin, type ProcessOptions } from "./processes.js";
import { Searches } from "./search.js";
import type {
  CallOptions,
  End,
  Optional,
  Output,
  OutputEncoding,
  Schemas,
  ServiceEvent,
  WaitOptions,
} from "./types.js";

export type ServiceInfo = Schemas["Service"];
export type ServiceHealth = Schemas["ServiceHealthResponse"];
export type ServiceStopped = Schemas["ServiceStopped"];

type HealthCheckOptions = Optional<Schemas["HealthCheck"]> & { interval?: number | undefined };

export interface ServiceOptions<E extends OutputEncoding = "utf8">
  extends Omit<ProcessOptions<E>, "stdin" | "leftovers" | "overflow"> {
  /** Id of the service. Default: a random one. */
  serviceId?: string | undefined;
  /** The same as `serviceId`. */
  processId?: string | undefined;
  /** Has no effect: the record of a service stays until `delete`. */
  autoCleanup?: boolean | undefined;
  /** The service has stopped or failed: the exit code of its last execution, or `null` if it is unknown. */
  onExit?: ((exitCode: number | null) => void) | undefined;
  name?: string | undefined;
  /** How its health is checked. `interval` is in milliseconds. */
  healthCheck?: HealthCheckOptions | undefined;
  /** When it is started again. Default: never. */
  restart?: Optional<Schemas["RestartPolicy"]> | Schemas["RestartCondition"] | undefined;
  /** Resolve when the health check has succeeded. */
  waitForReady?: boolean | undefined;
  /** Give up waiting after this time, in milliseconds. */
  readyTimeout?: number | undefined;
}

const RESERVED = ["list", "start"];

type StateFields = Pick<ProcessFields, "status" | "exitCode" | "endTime">;

/** The fields that a process with this state has. */
function stateFields({ state, executions }: Pick<ServiceInfo, "state" | "executions">): StateFields {
  if (state !== "stopped" && state !== "failed") {
    return { status: state === "starting" || state === "restarting" ? "starting" : "running" };
  }
  const { exitCode, endTime, end } = executions?.[0] ?? {};
  const stopped = end?.reason === "exited" && exitCode === 0 ? "completed" : "killed";
  return { status: state === "failed" ? "failed" : stopped, exitCode, endTime };
}

function processFields(service: ServiceInfo) {
  const { id, pid, command, sessionId, createdAt, startedAt } = service;
  return { id, pid, command, sessionId, startTime: startedAt ?? createdAt, ...stateFields(service) };
}

/** A service. `kill` stops it, the methods of Process for one run use the current execution. */
export class Service extends Process {
  /** The current execution. */
  executionId: string | undefined;

  /** @internal */
  constructor(client: Client, info: Parameters<typeof processFields>[0], args?: string[]) {
    super(client, { ...processFields(info), args });
    this.executionId = info.executionId ?? undefined;
  }

  get #service(): string {
    return `/api/service/${segment(this.id, ...RESERVED)}`;
  }

  protected override get path(): string {
    return `/api/process/${segment(this.executionId ?? this.id)}`;
  }

  /** State, health, and current and earlier executions. Updates the fields of this object. */
  async getService(options: CallOptions = {}): Promise<ServiceInfo> {
    const answer = await this.client.json<Schemas["ServiceResponse"]>("GET", this.#service, options);
    this.executionId = answer.service.executionId ?? this.executionId;
    this.pid = answer.service.pid ?? undefined;
    this.update(stateFields(answer.service));
    return answer.service;
  }

  override async getStatus(options: CallOptions = {}): Promise<Process["status"]> {
    await this.getService(options);
    return this.status;
  }

  getHealth(options: CallOptions = {}): Promise<ServiceHealth> {
    return this.client.json("GET", `${this.#service}/health`, options);
  }

  /** Follows the output of all executions. */
  streamOutput<E extends OutputEncoding = "utf8">(
    options: StreamLogsOptions<E> = {},
  ): AsyncGenerator<ServiceEvent<Output<E>>, void, void> {
    return streamLogs(this.client, `${this.#service}/stream`, options, ["end", "caught_up"]);
  }

  override allOutput(
    options: StreamLogsOptions<OutputEncoding>,
  ): AsyncGenerator<{ type: string; data?: unknown }, void, void> {
    return this.streamOutput(options);
  }

  /** The output of the current or last execution so far. Earlier executions are processes with their own ids. */
  override getLogs<E extends OutputEncoding = "utf8">(options: LogsOptions<E> = {}): Promise<ProcessLogs<Output<E>>> {
    return getLogs(this.client, `${this.#service}/logs`, options);
  }

  /** Ends the program. It is not started again. */
  stop(options: string | KillOptions = {}): Promise<ServiceStopped> {
    return this.#end("stop", options);
  }

  override kill(signalOrOptions: string | KillOptions = {}): Promise<ServiceStopped> {
    return this.stop(signalOrOptions);
  }

  /** Starts the next execution at once. */
  async restart(options: string | KillOptions = {}): Promise<void> {
    const started = await this.#end<Schemas["ServiceStarted"]>("restart", options);
    this.executionId = started.executionId;
    this.pid = started.pid ?? undefined;
    this.update(stateFields({ state: started.health.status, executions: [] }));
  }

  /** Stops the service and removes it from the list. */
  delete(options: string | KillOptions = {}): Promise<ServiceStopped> {
    // Not repeated: a second request would not find the service that the first one has removed.
    return kill<ServiceStopped>(this.client, this.#service, options, false);
  }

  /** Waits until the service has stopped or failed. Fails with PROCESS_READY_TIMEOUT after `timeout` milliseconds. */
  override async waitForExit(timeoutOrOptions: number | WaitOptions = {}): Promise<ProcessExit> {
    return Deadline.run(waitOptions(timeoutOrOptions), `service ${this.id} has not ended`, async (signal) => {
      let end: End | undefined;
      for await (const event of this.streamOutput({ signal })) {
        if (event.type !== "exit") continue;
        this.exitCode = event.exitCode;
        end = event.end;
      }
      await this.getService({ signal });
      return { exitCode: this.exitCode ?? -1, end, status: this.status };
    });
  }

  #end<T>(verb: string, how: string | KillOptions): Promise<T> {
    const { signalName, grace, signal } = typeof how === "string" ? { signalName: how } : how;
    const json = { signal: signalName, graceMs: grace };
    return this.client.json("POST", `${this.#service}/${verb}`, { json, signal, urgent: true });
  }

  /** Stops and removes the service. */
  override async [asyncDispose](): Promise<void> {
    await this.delete().catch(ignoreMissing);
  }
}

export class Services extends Searches {
  /** Starts a program that the server keeps running. */
  startService<E extends OutputEncoding = "utf8">(command: string, options?: ServiceOptions<E>): Promise<Service>;
  startService<E extends OutputEncoding = "utf8">(
    command: string,
    args: string[],
    options?: ServiceOptions<E>,
  ): Promise<Service>;
  async startService<E extends OutputEncoding>(
    command: string,
    argsOrOptions?: string[] | ServiceOptions<E>,
    lastOptions?: ServiceOptions<E>,
  ): Promise<Service> {
    const [args, options = {}] = argumentsOf(argsOrOptions, lastOptions);
    const { name, restart, healthCheck, waitForReady, readyTimeout, onSessionEnd, signal } = options;
    const { interval, ...check } = healthCheck ?? {};
    const givenId = options.serviceId ?? options.processId;
    const serviceId = givenId ?? newId("svc");
    const {
      leftovers: _leftovers,
      overflow: _overflow,
      ...fields
    } = startFields(command, args, options as ServiceOptions<OutputEncoding>, this.boundSession);
    const json: Schemas["ServiceRequest"] = {
      ...fields,
      serviceId,
      name,
      onSessionEnd,
      waitForReady,
      readyTimeoutMs: readyTimeout,
      restart: typeof restart === "string" ? { policy: restart } : restart,
      healthCheck: healthCheck && { ...check, intervalMs: interval ?? check.intervalMs },
    };
    const request = { json, headers: { "idempotency-key": newId("k") }, signal, repeat: true, long: waitForReady };
    const ending = { method: "DELETE", path: `/api/service/${segment(serviceId, ...RESERVED)}`, grace: options.grace };
    // A given id may be that of a service that runs already.
    const aborted = givenId === undefined ? ending : undefined;
    return begin(this.client, options as ServiceOptions<OutputEncoding>, ending, aborted, async (onSend) => {
      const path = "/api/service/start";
      const started = await this.client.json<Schemas["ServiceStarted"]>("POST", path, { ...request, onSend });
      const info = {
        id: started.serviceId,
        executionId: started.executionId,
        pid: started.pid,
        sessionId: namedSession(json.sessionId),
      };
      const state = { state: started.health.status, createdAt: started.timestamp, command };
      return new Service(this.client, { ...info, ...state } as ServiceInfo, args);
    });
  }

  async listServices(options: CallOptions = {}): Promise<Service[]> {
    const list = await this.client.json<Schemas["ServiceList"]>("GET", "/api/service/list", options);
    return list.services.map((info) => new Service(this.client, info));
  }

  /** A service, or `null` if it is unknown. */
  getService(id: string, options: CallOptions = {}): Promise<Service | null> {
    return unlessUnknown("SERVICE_NOT_FOUND", async () => {
      const path = `/api/service/${segment(id, ...RESERVED)}`;
      const answer = await this.client.json<Schemas["ServiceResponse"]>("GET", path, options);
      return new Service(this.client, answer.service);
    });
  }
}
