// Session: a shell that keeps its state between commands.
import { newId } from "./bytes.js";
import { variables } from "./command.js";
import { asyncDispose } from "./core.js";
import { start } from "./ending.js";
import { SandcrabError } from "./errors.js";
import { type Client, segment } from "./http.js";
import { ignoreMissing } from "./process.js";
import { Terminals } from "./terminals.js";
import type { CallOptions, Schemas } from "./types.js";

export type SessionInfo = Schemas["Session"];
export type SessionEnded = Schemas["SessionEnded"];

export interface SessionOptions extends CallOptions {
  /** Id of the session. Default: a random one. */
  id?: string | undefined;
  name?: string | undefined;
  env?: Record<string, string | null | undefined> | undefined;
  cwd?: string | undefined;
  user?: string | undefined;
  /** Timeout of commands that give none, in milliseconds. */
  commandTimeoutMs?: number | undefined;
  /**
   * Most bytes of each stream in the results of its commands. For commands with `onOutput` or `stream`, which the client
   * collects, only in calls on the object that `createSession` or `fork` gives.
   */
  maxOutputSizeBytes?: number | undefined;
  /**
   * What a command that ends the shell (`exit`) answers. `restore`: its result. `terminate`: the error SESSION_TERMINATED.
   * In both cases the next command finds the shell restored. Default: `restore`.
   */
  onShellExit?: "restore" | "terminate" | undefined;
}

/** A session. It has the calls of Sandbox, bound to its id. */
export class Session extends Terminals {
  readonly id: string;
  /** Working directory at the time of the creation or of `getInfo`. */
  cwd: string | undefined;
  readonly createdAt: Date;

  /** @internal */
  constructor(
    client: Client,
    fields: { id: string; cwd?: string | null; createdAt: string },
    maxOutputSizeBytes?: number | null,
  ) {
    super(client, fields.id, maxOutputSizeBytes);
    this.id = fields.id;
    this.cwd = fields.cwd ?? undefined;
    this.createdAt = new Date(fields.createdAt);
  }

  get #path(): string {
    return `/api/session/${segment(this.id, "list", "create", "delete")}`;
  }

  /** Whether it runs a command, how many wait, and its working directory. */
  async getInfo(options: CallOptions = {}): Promise<SessionInfo> {
    const answer = await this.client.json<Schemas["SessionResponse"]>("GET", this.#path, options);
    this.cwd = answer.session.cwd ?? undefined;
    return answer.session;
  }

  /** Sets variables of the shell; `null` unsets one. */
  async setEnvVars(vars: Record<string, string | null | undefined>, options: CallOptions = {}): Promise<void> {
    const endTurn = await this.client.turns.take(this.id, options.signal);
    try {
      await this.client.json("POST", `${this.#path}/env`, { json: { vars: variables(vars) }, ...options });
    } finally {
      endTurn();
    }
  }

  /** Ends the running command, and keeps the shell and its state. */
  interrupt(
    options: CallOptions & { signalName?: string | undefined; grace?: number | undefined } = {},
  ): Promise<SessionEnded> {
    const { signalName, grace, signal } = options;
    const json = { signal: signalName, graceMs: grace };
    return this.client.json("POST", `${this.#path}/interrupt`, { json, signal, urgent: true });
  }

  /** A new session with the state after the last command. */
  fork(options: CallOptions & { id?: string | undefined } = {}): Promise<Session> {
    const { id, signal } = options;
    return createSession(this.client, `${this.#path}/fork`, { id }, signal, this.boundOutputBytes);
  }

  /** A fresh shell; with `restore`, with the state of the old one. */
  async reset(options: CallOptions & { restore?: boolean | undefined } = {}): Promise<void> {
    const { restore, signal } = options;
    await this.client.json("POST", `${this.#path}/reset`, { json: { restore }, signal, urgent: true });
  }

  /** Ends the shell and everything that runs in it. */
  delete(options: CallOptions = {}): Promise<SessionEnded> {
    return deleteSession(this.client, this.id, options);
  }

  /** Ends the session. */
  async [asyncDispose](): Promise<void> {
    await this.delete().catch(ignoreMissing);
  }
}

export function deleteSession(client: Client, sessionId: string, options: CallOptions): Promise<SessionEnded> {
  return client.json("POST", "/api/session/delete", { json: { sessionId }, ...options, urgent: true });
}

/**
 * Creates a session. If the SDK chooses the id, the request can be repeated: a session that exists then is that of an earlier
 * attempt whose answer was lost.
 */
export async function createSession(
  client: Client,
  path: string,
  fields: Schemas["SessionRequest"],
  signal: AbortSignal | undefined,
  outputBytes = fields.maxOutputSizeBytes,
): Promise<Session> {
  const id = fields.id ?? newId("s");
  const repeat = fields.id === undefined;
  // A given id may be that of a session that exists already.
  const ending = repeat ? { method: "POST", path: "/api/session/delete", json: { sessionId: id } } : undefined;
  return start(client, ending, async (onSend) => {
    try {
      const request = { json: { ...fields, id }, signal, repeat, onSend };
      const { data } = await client.json<Schemas["SessionCreated"]>("POST", path, request);
      return new Session(client, data, outputBytes);
    } catch (error) {
      if (!repeat || !(error instanceof SandcrabError && error.code === "SESSION_ALREADY_EXISTS")) throw error;
    }
    const answer = await client.json<Schemas["SessionResponse"]>("GET", `/api/session/${id}`, { signal });
    return new Session(client, answer.session, outputBytes);
  });
}
