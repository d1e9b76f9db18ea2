// Core: what every call needs. Sandbox and Session have the same calls, which are in one class for each noun.
import type { Client } from "./http.js";
import type { InSession } from "./types.js";

/** The id of no session, in the API and for clients of the Sandbox SDK. */
const NO_SESSION = "__DISABLE_SESSION__";

/** The session of an id, if it names one. */
export function namedSession(sessionId: string | null | undefined): string | undefined {
  return sessionId && sessionId !== NO_SESSION ? sessionId : undefined;
}

export abstract class Core {
  /** @internal */
  readonly client: Client;
  /** The session of calls that name none. @internal */
  protected readonly boundSession: string | undefined;

  /** Most bytes of each stream in the results of the commands of that session. @internal */
  protected readonly boundOutputBytes: number | undefined;

  constructor(client: Client, boundSession?: string, boundOutputBytes?: number | null) {
    this.client = client;
    this.boundSession = boundSession;
    this.boundOutputBytes = boundOutputBytes ?? undefined;
  }

  /** The session of a call. @internal */
  protected sessionOf(options?: { sessionId?: string | null | undefined }): string | undefined {
    return options?.sessionId ?? this.boundSession;
  }

  /** Sends options as the body of a request. @internal */
  protected post<T>(path: string, body: object, repeat = false): Promise<T> {
    const { signal, ...json } = body as InSession;
    return this.client.json<T>("POST", path, { json: { ...json, sessionId: this.sessionOf(json) }, signal, repeat });
  }
}

/** Older platforms have no `Symbol.asyncDispose`; libraries that replace it use the same registered symbol. */
export const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? (Symbol.for("Symbol.asyncDispose") as typeof Symbol.asyncDispose);
