// Servers of a test, in its own process.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach } from "vitest";
import { getSandbox, type Sandbox, type SandboxOptions } from "../src/index.js";

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close().closeAllConnections();
});

/** A sandbox whose server is a function. */
export async function fake(
  handle: (request: IncomingMessage, response: ServerResponse) => void,
  options: SandboxOptions = {},
): Promise<Sandbox> {
  const server = createServer(handle);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return getSandbox({ baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, ...options });
}

export function answer(response: ServerResponse, status: number, body: unknown, headers = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}
