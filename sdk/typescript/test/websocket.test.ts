// The small WebSocket for Node before version 22: no connection is left behind.

import type { AddressInfo } from "node:net";
import { createServer, type Server, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { getSandbox } from "../src/index.js";
import { NodeWebSocket } from "../src/node-websocket.js";
import { until } from "./support.js";

const servers: Server[] = [];
const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const server of servers.splice(0)) server.close();
});

/** A server that says `greeting` after a request, and nothing else. It never closes a connection. */
async function silent(greeting: string): Promise<{ url: string; open: Set<Socket>; requests: string[] }> {
  const open = new Set<Socket>();
  const requests: string[] = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    open.add(socket);
    sockets.push(socket);
    socket.on("end", () => open.delete(socket));
    socket.on("error", () => undefined);
    socket.once("data", (data) => {
      requests.push(String(data));
      socket.write(greeting);
    });
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}/ws`, open, requests };
}

test("a socket that is closed before it is open", async () => {
  const { url, open } = await silent("");
  const socket = new NodeWebSocket(url);
  await until(() => open.size === 1, "the connection is there");
  let closes = 0;
  socket.onclose = () => closes++;
  socket.close();
  await until(() => open.size === 0, "the connection is closed");
  expect([closes, socket.readyState]).toEqual([1, 3]);
});

test("a socket whose other side does not close", async () => {
  const headers = "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
  const { url, open } = await silent(`HTTP/1.1 101 Switching Protocols\r\n${headers}`);
  const socket = new NodeWebSocket(url);
  await new Promise<void>((resolve) => {
    socket.onopen = resolve;
  });
  const closed = new Promise<void>((resolve) => {
    socket.onclose = resolve;
  });
  socket.close();
  await closed;
  expect([open.size, socket.readyState]).toEqual([0, 3]);
});

test("a token that is no subprotocol is sent as base64", async () => {
  const { url, requests } = await silent("HTTP/1.1 404 Not Found\r\n\r\n");
  const baseUrl = url.replace("ws:", "http:").replace("/ws", "");
  const protocols = [];
  for (const token of ["plain-token.1~", "ab/c+d==", "??>>?"]) {
    await getSandbox({ baseUrl, token })
      .openSocket()
      .catch(() => undefined);
    protocols.push(/^sec-websocket-protocol: (.*)$/im.exec(requests.at(-1) ?? "")?.[1]);
  }
  expect(protocols).toEqual(["bearer.plain-token.1~", "bearer64.YWIvYytkPT0", "bearer64.Pz8-Pj8"]);
});
