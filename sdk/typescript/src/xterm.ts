// An addon that shows a terminal of the sandbox in xterm.js.
import type { ConnectOptions, TerminalConnection, TerminalEvent } from "./connection.js";

/** The part of a terminal of xterm.js that the addon uses. */
export interface XtermTerminal {
  readonly cols: number;
  readonly rows: number;
  write(data: Uint8Array | string, callback?: () => void): void;
  resize(cols: number, rows: number): void;
  onData(listener: (data: string) => void): { dispose(): void };
  onBinary(listener: (data: string) => void): { dispose(): void };
  onResize(listener: (size: { cols: number; rows: number }) => void): { dispose(): void };
}

/** A terminal of the sandbox. */
export interface Connectable {
  connect(options?: ConnectOptions): Promise<TerminalConnection>;
}

export interface SandcrabAddonOptions {
  /** Shows the terminal, and sends neither keys nor the size. */
  readOnly?: boolean | undefined;
  /** Called for every event: the exit, lost connections, errors. */
  onEvent?: ((event: TerminalEvent) => void) | undefined;
  /** The connection failed, and is not made again. */
  onError?: ((error: unknown) => void) | undefined;
}

/** `xterm.loadAddon(new SandcrabAddon(await sandbox.terminal()))` */
export class SandcrabAddon {
  readonly #terminal: Connectable;
  readonly #options: SandcrabAddonOptions;
  readonly #listeners: { dispose(): void }[] = [];
  #connection: TerminalConnection | undefined;
  #isDisposed = false;

  constructor(terminal: Connectable, options: SandcrabAddonOptions = {}) {
    this.#terminal = terminal;
    this.#options = options;
  }

  /** Called by xterm.js. */
  activate(xterm: XtermTerminal): void {
    this.#show(xterm).catch((error: unknown) => {
      if (!this.#isDisposed) this.#options.onError?.(error);
    });
  }

  /** Detaches. The terminal of the sandbox continues. */
  dispose(): void {
    this.#isDisposed = true;
    this.#stopInput();
    this.#connection?.close();
  }

  #stopInput(): void {
    for (const listener of this.#listeners.splice(0)) listener.dispose();
  }

  async #show(xterm: XtermTerminal): Promise<void> {
    const { readOnly = false, onEvent, onError } = this.#options;
    const connection = await this.#terminal.connect({ cols: xterm.cols, rows: xterm.rows, readOnly });
    if (this.#isDisposed) return connection.close();
    this.#connection = connection;
    const send = (data: string | Uint8Array) => {
      try {
        connection.write(data);
      } catch (error) {
        // Too much input waits, or the program has just ended. xterm.js could only report it as uncaught.
        onError?.(error);
      }
    };
    if (!readOnly) {
      this.#listeners.push(
        xterm.onData(send),
        xterm.onBinary((data) => send(Uint8Array.from(data, (char) => char.charCodeAt(0)))),
        xterm.onResize(({ cols, rows }) => connection.resize(cols, rows)),
      );
    }
    try {
      for await (const event of connection) {
        if (event.type === "output" || event.type === "repaint") {
          // The next output is taken when xterm.js has shown this one.
          await new Promise<void>((resolve) => xterm.write(event.data, resolve));
        } else if (event.type === "resize" || event.type === "ready") {
          if (event.cols !== xterm.cols || event.rows !== xterm.rows) xterm.resize(event.cols, event.rows);
        }
        if (event.type === "exit") this.#stopInput();
        onEvent?.(event);
      }
    } finally {
      this.#stopInput();
    }
  }
}
