// Opening WebSockets.
import { unlessAborted } from "./abort.js";
import { encodeBase64, toBytes } from "./bytes.js";
import { NAME } from "./check.js";
import { ConnectionError } from "./errors.js";
import type { Client, Query } from "./http.js";
import { platformWebSocket } from "./node.js";

/** The subprotocol that carries a token. One with other characters, such as base64, is encoded. */
function subprotocol(token: string): string {
  if (NAME.test(token)) return `bearer.${token}`;
  const encoded = encodeBase64(toBytes(token)).replace(/=/g, "").replace(/\+/g, "-").replace(/\//g, "_");
  return `bearer64.${encoded}`;
}

/** Opens a WebSocket of the server. Browsers cannot set headers, so the token is a subprotocol. */
export function openSocket(client: Client, path: string, query: Query = {}, signal?: AbortSignal): Promise<WebSocket> {
  const url = client.url(path, query).replace(/^http/, "ws");
  const Socket = client.webSocket ?? platformWebSocket();
  return unlessAborted(signal, (resolve, reject) => {
    client.assertOpen();
    const socket = new Socket(url, client.token ? [subprotocol(client.token)] : []);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      client.wasReached = true;
      resolve(socket);
    };
    socket.onclose = socket.onerror = () => reject(new ConnectionError(`failed to open a WebSocket to ${client.base}`));
    return () => socket.close();
  });
}
