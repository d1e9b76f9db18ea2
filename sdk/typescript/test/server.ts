// A server of the test, which can be stopped, killed and started again on the same port.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { getSandbox, type Sandbox, type SandboxOptions } from "../src/index.js";

export const program =
  process.env.SANDCRAB ?? fileURLToPath(new URL("../../../target/debug/sandcrab", import.meta.url));

export class TestServer {
  readonly folder = mkdtempSync(join(tmpdir(), "sandcrab-server.ts"));
  token = "test-token-0123456789";
  url = "";
  #listen = "";
  #process: ChildProcess | undefined;

  static async start(...more: string[]): Promise<TestServer> {
    if (!existsSync(program)) throw new Error(`${program} not found: run cargo build first`);
    const server = new TestServer();
    mkdirSync(join(server.folder, "workspace"));
    mkdirSync(join(server.folder, "home"));
    writeFileSync(join(server.folder, "token"), server.token, { mode: 0o600 });
    for (let attempt = 1; ; attempt++) {
      // Not a port that the system gives to clients: it must be free again when the server is started again.
      server.#listen = `127.0.0.1:${10_000 + Math.floor(Math.random() * 20_000)}`;
      try {
        await server.launch(...more);
        return server;
      } catch (error) {
        if (attempt === 10) throw error;
      }
    }
  }

  sandbox(options: SandboxOptions = {}): Sandbox {
    return getSandbox({ baseUrl: this.url, token: this.token, ...options });
  }

  /** Starts the server, on the same port as before. */
  async launch(...more: string[]): Promise<void> {
    const giveUpAt = Date.now() + 60_000;
    for (;;) {
      try {
        return await this.#spawn(...more);
      } catch (error) {
        // The kernel may still be closing the files of a killed server.
        if (!String(error).includes("another server") || Date.now() > giveUpAt) throw error;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  }

  async #spawn(...more: string[]): Promise<void> {
    const { folder } = this;
    const paths = ["--state-dir", join(folder, "state"), "--workspace", join(folder, "workspace")];
    const options = [
      "--listen",
      this.#listen,
      "--drain-window",
      "1s",
      "--token-file",
      join(folder, "token"),
      ...paths,
      ...more,
    ];
    const env = { ...process.env, HOME: join(folder, "home") };
    const child = spawn(program, ["serve", ...options], { stdio: ["ignore", "pipe", "pipe"], env });
    this.#process = child;
    let text = "";
    this.url = await new Promise<string>((resolve, reject) => {
      const onData = (data: Buffer) => {
        text += data;
        const url = /http:\/\/127\.0\.0\.1:\d+/.exec(text);
        if (url) resolve(url[0]);
      };
      child.stdout.on("data", onData);
      child.stderr.on("data", onData);
      child.on("exit", (code) => reject(new Error(`the server exited with ${code}: ${text}`)));
    });
  }

  /** Starts the server again with another token. */
  async changeToken(token: string): Promise<void> {
    await this.stop();
    this.token = token;
    writeFileSync(join(this.folder, "token"), token);
    await this.launch();
  }

  /** Ends the server process. Its commands continue. */
  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    const child = this.#process;
    if (!child || child.exitCode !== null || child.signalCode) return;
    const exited = once(child, "exit");
    child.kill(signal);
    await exited;
  }

  /** Ends the server with everything it has started, and removes its files. */
  async remove(): Promise<void> {
    await this.stop();
    await this.launch("--stop-executions", "--stop-grace", "2s");
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
