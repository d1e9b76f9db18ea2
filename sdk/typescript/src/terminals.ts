// Calls on terminals, and raw WebSockets.
import { newId } from "./bytes.js";
import { variables } from "./command.js";
import { start } from "./ending.js";
import { segment } from "./http.js";
import { Ports } from "./ports.js";
import { unlessUnknown } from "./process.js";
import { Terminal, type TerminalInfo } from "./terminal.js";
import type { CallOptions, Options, Schemas } from "./types.js";
import { openSocket } from "./websocket.js";

export type TerminalOptions = Options<"TerminalRequest", "env" | "timeoutMs" | "idleTimeoutMs"> & {
  env?: Record<string, string | null | undefined> | undefined;
  /** Ends the terminal after this time, in milliseconds. */
  timeout?: number | undefined;
  /** Ends the terminal if it writes nothing for so long, in milliseconds. */
  idleTimeout?: number | undefined;
};

export class Terminals extends Ports {
  /**
   * Creates a terminal: a bash, or the given command. An id that exists is the same terminal. With `sessionId` it starts
   * from the state of that session.
   */
  async terminal(options: TerminalOptions = {}): Promise<Terminal> {
    const { signal, env, timeout, idleTimeout, ...rest } = options;
    const id = options.id ?? newId("t");
    const json = {
      ...rest,
      id,
      env: env && variables(env),
      timeoutMs: timeout,
      idleTimeoutMs: idleTimeout,
      sessionId: this.sessionOf(options),
    };
    // Not repeated: an id whose terminal has exited is replaced, so a short command would run twice.
    const request = { json, signal };
    // A given id may be that of a terminal that exists already.
    const ending = id === options.id ? undefined : { method: "DELETE", path: `/api/terminal/${id}` };
    const created = await start(this.client, ending, (onSend) =>
      this.client.json<Schemas["TerminalCreated"]>("POST", "/api/terminal/create", { ...request, onSend }),
    );
    return new Terminal(this.client, created);
  }

  /** A terminal, or `null` if it is unknown. */
  getTerminal(id: string, options: CallOptions = {}): Promise<Terminal | null> {
    return unlessUnknown("TERMINAL_NOT_FOUND", async () => {
      const path = `/api/terminal/${segment(id, "list", "create")}`;
      const answer = await this.client.json<Schemas["TerminalResponse"]>("GET", path, options);
      return new Terminal(this.client, answer.terminal);
    });
  }

  async listTerminals(options: CallOptions = {}): Promise<TerminalInfo[]> {
    return (await this.client.json<Schemas["TerminalList"]>("GET", "/api/terminal/list", options)).terminals;
  }

  /** The WebSocket that carries any number of requests. Its frames are those of the API; this SDK does not need it. */
  openSocket(options: CallOptions = {}): Promise<WebSocket> {
    return openSocket(this.client, "/ws", {}, options.signal);
  }

  /** The WebSocket of a session's own terminal, for clients of the Sandbox SDK. `terminal` is the native way. */
  openPtySocket(
    sessionId: string,
    options: CallOptions & { cols?: number | undefined; rows?: number | undefined; shell?: string | undefined } = {},
  ): Promise<WebSocket> {
    const { signal, ...rest } = options;
    return openSocket(this.client, "/ws/pty", { sessionId, ...rest }, signal);
  }
}
