// A TCP proxy that cuts connections.
import { createServer, connect as open, type Server, type Socket } from "node:net";

export class CuttingProxy {
  /** Connections that were cut in the middle. */
  cuts = 0;
  /** Connections that are open, and the most at one time. */
  open = 0;
  mostOpen = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  /** `cutAfter` tells for each connection after how many bytes of the response it is cut. */
  private constructor(target: URL, cutAfter: (connection: number) => number) {
    let connection = 0;
    this.#server = createServer((client) => {
      let left = cutAfter(connection++);
      const server = open(Number(target.port), target.hostname);
      this.open++;
      this.mostOpen = Math.max(this.mostOpen, this.open);
      for (const socket of [client, server]) {
        this.#sockets.add(socket);
        socket.on("error", () => undefined);
      }
      const end = () => {
        if (!this.#sockets.delete(client)) return;
        this.#sockets.delete(server);
        this.open--;
        client.destroy();
        server.destroy();
      };
      client.on("close", end);
      server.on("close", end);
      client.on("data", (data) => server.write(data));
      server.on("data", (data) => {
        const part = data.subarray(0, left);
        left -= part.length;
        if (left > 0) {
          client.write(part);
          return;
        }
        // What was sent before the cut arrives.
        this.cuts++;
        server.destroy();
        client.end(part, end);
      });
    });
  }

  static async start(url: string, cutAfter: (connection: number) => number = () => Infinity): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(new URL(url), cutAfter);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  get url(): string {
    const address = this.#server.address();
    if (!address || typeof address === "string") throw new Error("the proxy does not listen");
    return `http://127.0.0.1:${address.port}`;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }
}
