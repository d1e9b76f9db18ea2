// Proxies: one of TCP that cuts connections, and one of HTTP that answers for a server that is away.
import { createServer as createHttpServer, type Server as HttpServer, type IncomingMessage, request } from "node:http";
import { type AddressInfo, createServer, connect as open, type Server, type Socket } from "node:net";

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

/**
 * An HTTP proxy as reverse proxies are: while the server is away it answers 502, and after a silent time 504, both with a
 * page of its own.
 */
export class GatewayProxy {
  /** The statuses of the answers that are not those of the server. */
  readonly refusals: number[] = [];
  readonly #server: HttpServer;

  private constructor(target: URL, timeoutMs: number) {
    const forward = (incoming: IncomingMessage) => {
      const { method, url: path, headers } = incoming;
      const upstream = request({ host: target.hostname, port: target.port, agent: false, method, path, headers });
      incoming.pipe(upstream);
      return upstream;
    };
    this.#server = createHttpServer((incoming, response) => {
      const upstream = forward(incoming);
      const refuse = (status: number) => {
        clearTimeout(timer);
        upstream.destroy();
        // A response that has begun can only be cut.
        if (response.headersSent) return void response.destroy();
        this.refusals.push(status);
        response.writeHead(status, { "content-type": "text/html" }).end(`<html><h1>${status}</h1></html>`);
      };
      const timer = setTimeout(() => refuse(504), timeoutMs);
      upstream.on("error", () => refuse(502));
      upstream.on("response", (answer) => {
        clearTimeout(timer);
        response.writeHead(answer.statusCode ?? 0, answer.headers);
        answer.pipe(response);
        answer.on("error", () => response.destroy());
      });
      response.on("close", () => {
        clearTimeout(timer);
        upstream.destroy();
      });
    });
    this.#server.on("upgrade", (incoming: IncomingMessage, client: Socket) => {
      const upstream = forward(incoming);
      client.on("error", () => upstream.destroy());
      const refuse = (status: number) => {
        this.refusals.push(status);
        client.end(`HTTP/1.1 ${status} Away\r\nContent-Length: 0\r\n\r\n`);
      };
      upstream.on("error", () => refuse(502));
      upstream.on("response", (answer) => refuse(answer.statusCode ?? 0));
      upstream.on("upgrade", (answer, server: Socket) => {
        const protocol = answer.headers["sec-websocket-protocol"];
        const headers = [
          "HTTP/1.1 101 Switching Protocols",
          "Connection: Upgrade",
          "Upgrade: websocket",
          `Sec-WebSocket-Accept: ${answer.headers["sec-websocket-accept"]}`,
          ...(protocol ? [`Sec-WebSocket-Protocol: ${protocol}`] : []),
        ];
        client.write(`${headers.join("\r\n")}\r\n\r\n`);
        server.pipe(client).pipe(server);
        server.on("error", () => client.destroy());
        server.on("close", () => client.destroy());
      });
    });
  }

  static async start(url: string, timeoutMs = 60_000): Promise<GatewayProxy> {
    const proxy = new GatewayProxy(new URL(url), timeoutMs);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }
}
