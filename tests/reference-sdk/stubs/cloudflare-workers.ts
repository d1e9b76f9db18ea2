// The one module that exists only inside Cloudflare's own runtime. The client needs its names to be
// there when it is loaded; `SandboxClient` uses none of them.
import { mock } from "bun:test";

class Anything {}

class DurableObject {
  constructor(
    protected ctx: unknown,
    protected env: unknown,
  ) {}
}

mock.module("cloudflare:workers", () => ({
  DurableObject,
  WorkerEntrypoint: Anything,
  RpcTarget: Anything,
  tracing: {},
  env: {},
}));
