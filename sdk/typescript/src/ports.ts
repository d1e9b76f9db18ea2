// Ports, and their previews.
import { Backups } from "./backups.js";
import { type PortOptions, type WatchPortOptions, waitForPort, watchPort } from "./port.js";
import type { CallOptions, Optional, PortWatchEvent, Schemas } from "./types.js";

export type ExposedPort = Schemas["ExposedPort"];
export type Port = Schemas["Port"];

export class Ports extends Backups {
  /** The ports on which programs listen. */
  async listPorts(options: CallOptions = {}): Promise<Port[]> {
    return (await this.client.json<Schemas["PortList"]>("GET", "/api/ports", options)).ports;
  }

  /** Gives a port a URL. `processId`: until that process ends. */
  exposePort(
    port: number,
    options: Optional<Omit<Schemas["ExposePortRequest"], "port">> & CallOptions = {},
  ): Promise<Schemas["ExposePortResponse"]> {
    const { signal, ...rest } = options;
    return this.client.json("POST", "/api/port/expose", { json: { ...rest, port }, signal });
  }

  async unexposePort(port: number, options: CallOptions = {}): Promise<void> {
    await this.client.json("POST", "/api/port/unexpose", { json: { port }, ...options });
  }

  async getExposedPorts(options: CallOptions = {}): Promise<ExposedPort[]> {
    return (await this.client.json<Schemas["ExposedPortList"]>("GET", "/api/port/exposed", options)).ports;
  }

  /** Waits until a port is ready. Fails with PROCESS_READY_TIMEOUT after `timeout` milliseconds. */
  waitForPort(port: number, options: PortOptions & { processId?: string | undefined } = {}): Promise<void> {
    return waitForPort(this.client, port, options);
  }

  /** The events until a port is ready, or the process has ended. */
  watchPort(port: number, options: WatchPortOptions = {}): AsyncGenerator<PortWatchEvent, void, void> {
    return watchPort(this.client, port, options);
  }
}
