// Opening WebSockets: those of the platform, or the small one for Node before version 22.
import { AbortError, ConnectionError } from "./errors.js";
import type { Client, Query } from "./http.js";
import { NodeWebSocket } from "./node-websocket.js";

/** Opens a WebSocket of the server. Browsers cannot set headers, so the token is a subprotocol. */
export function openSocket(client: Client, path: string, query: Query = {}, signal?: AbortSignal): Promise<WebSocket> {
  const url = client.url(path, query).replace(/^http/, "ws");
  const Socket = client.webSocket ?? globalThis.WebSocket ?? (NodeWebSocket as unknown as typeof WebSocket);
  return new Promise((resolve, reject) => {
    client.assertOpen();
    if (signal?.aborted) throw new AbortError(signal.reason);
    const socket = new Socket(url, client.token ? [`bearer.${client.token}`] : []);
    socket.binaryType = "arraybuffer";
    const onAbort = () => {
      socket.close();
      reject(new AbortError(signal?.reason));
    };
    signal?.addEventListener("abort", onAbort, { once: true });
    const settle = () => signal?.removeEventListener("abort", onAbort);
    socket.onopen = () => {
      settle();
      client.wasReached = true;
      resolve(socket);
    };
    socket.onclose = socket.onerror = () => {
      settle();
      reject(new ConnectionError(`failed to open a WebSocket to ${client.base}`));
    };
  });
}
