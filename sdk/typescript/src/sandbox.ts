// Sandbox: a server and a token.
import { variables } from "./command.js";
import { asyncDispose } from "./core.js";
import { Client, segment } from "./http.js";
import { unlessUnknown } from "./process.js";
import {
  createSession,
  deleteSession,
  Session,
  type SessionEnded,
  type SessionInfo,
  type SessionOptions,
} from "./session.js";
import { events } from "./stream.js";
import { Terminals } from "./terminals.js";
import type { CallOptions, SandboxOptions, Schemas, ServerEvent } from "./types.js";

export type Health = Schemas["Health"];
export type Version = Schemas["Version"];

/** A sandbox. It holds no state of the server; a call is without a session, unless `sessionId` is given. */
export class Sandbox extends Terminals {
  constructor(options: SandboxOptions = {}) {
    super(new Client(options));
  }

  /** Creates a shell that keeps its state between commands. */
  createSession(options: SessionOptions = {}): Promise<Session> {
    const { signal, env, onShellExit = "restore", ...rest } = options;
    const fields = { ...rest, onShellExit, env: env && variables(env) };
    return createSession(this.client, "/api/session/create", fields, signal);
  }

  /** A session, or `null` if it is unknown. */
  getSession(id: string, options: CallOptions = {}): Promise<Session | null> {
    return unlessUnknown("SESSION_NOT_FOUND", async () => {
      const path = `/api/session/${segment(id, "list")}`;
      const answer = await this.client.json<Schemas["SessionResponse"]>("GET", path, options);
      return new Session(this.client, answer.session);
    });
  }

  async listSessions(options: CallOptions = {}): Promise<SessionInfo[]> {
    return (await this.client.json<Schemas["SessionList"]>("GET", "/api/session/list", options)).sessions;
  }

  /** Ends a session and everything that runs in it. */
  deleteSession(id: string, options: CallOptions = {}): Promise<SessionEnded> {
    return deleteSession(this.client, id, options);
  }

  /** Sets variables for later commands and sessions of this sandbox; `null` unsets one. */
  async setEnvVars(vars: Record<string, string | null | undefined>, options: CallOptions = {}): Promise<void> {
    await this.client.json("POST", "/api/env", { json: { vars: variables(vars) }, ...options });
  }

  /** What starts, changes and ends in the sandbox. A `hello` event after a lost connection tells that events may be missing. */
  events(options: CallOptions = {}): AsyncGenerator<ServerEvent, void, void> {
    return events<ServerEvent>(this.client, { method: "GET", path: "/api/events", ...options, last: [] });
  }

  ping(options: CallOptions = {}): Promise<Schemas["Pong"]> {
    return this.client.json("GET", "/api/ping", options);
  }

  version(options: CallOptions = {}): Promise<Version> {
    return this.client.json("GET", "/api/version", options);
  }

  /** What works on this server, and its counts. */
  health(options: CallOptions = {}): Promise<Health> {
    return this.client.json("GET", "/api/health", options);
  }

  /** The metrics of the server, in the text format of Prometheus. */
  async metrics(options: CallOptions = {}): Promise<string> {
    return new Response(await this.client.bytes("/metrics", options)).text();
  }

  /** The OpenAPI document of the server. */
  openapi(options: CallOptions = {}): Promise<Record<string, unknown>> {
    return this.client.json("GET", "/openapi.json", options);
  }

  /** Closes all connections; open calls and streams reject, and later calls too. Nothing ends on the server. */
  close(): Promise<void> {
    return this.client.close();
  }

  async [asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** A sandbox: the server at `baseUrl`, with `token`. Does not connect yet. */
export function getSandbox(options: SandboxOptions = {}): Sandbox {
  return new Sandbox(options);
}
