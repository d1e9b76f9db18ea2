// Ports: readiness, and previews of the class beside those of the server, which have the same addresses.
import { afterAll, beforeAll, expect, test } from "bun:test";
import { proxyToSandbox, Sandbox, type Process } from "@cloudflare/sandbox";
import { durableObjectState } from "./stubs/durable-object";
import { baseUrl, failure, unique } from "./support";

const STATELESS = "__DISABLE_SESSION__";
const TOKEN = "sdk_token_1";
// The name of the server's sandbox, so that both make the same addresses.
const NAME = "local";
const hostname = `localhost:${new URL(baseUrl).port}`;
// Prints its port, answers with the path and the host, and redirects.
const PROGRAM = `
import http.server as h
class Program(h.BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"{self.path} {self.headers['X-Forwarded-Host']}".encode()
        self.send_response(302 if self.path == "/moved" else 200)
        if self.path == "/moved": self.send_header("Location", "/there")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = h.ThreadingHTTPServer(("127.0.0.1", 0), Program)
print("port", server.server_port, flush=True)
server.serve_forever()
`;

let sandbox: Sandbox;
let program: Process;
let port: number;
beforeAll(async () => {
  sandbox = new Sandbox(durableObjectState(unique("ports")) as never, {} as never);
  await sandbox.setSandboxName(NAME, false);
  const quoted = PROGRAM.replaceAll("'", "'\\''");
  program = await sandbox.startProcess(`exec python3 -c '${quoted}'`, {}, STATELESS);
  const { match } = await program.waitForLog(/port (\d+)/, 30_000);
  port = Number(match?.[1]);
});
afterAll(async () => {
  await program.kill();
});

/** Calls the server itself. */
async function post(path: string, body: unknown): Promise<Response> {
  return await fetch(`${baseUrl}${path}`, { method: "POST", body: JSON.stringify(body) });
}

test("waitForPort is ready when the program answers", async () => {
  await program.waitForPort(port, { mode: "tcp", timeout: 30_000 });
  await program.waitForPort(port, { mode: "http", path: "/", status: 200, timeout: 30_000 });
});

test("exposePort, getExposedPorts, isPortExposed, unexposePort", async () => {
  const exposed = await sandbox.exposePort(port, { hostname, name: "web", token: TOKEN });
  expect(exposed).toMatchObject({ port, name: "web" });
  expect(await sandbox.getExposedPorts(hostname)).toEqual([{ url: exposed.url, port, status: "active" }]);
  expect(await sandbox.isPortExposed(port)).toBe(true);
  expect(await sandbox.validatePortToken(port, TOKEN)).toBe(true);
  await sandbox.unexposePort(port);
  expect(await sandbox.isPortExposed(port)).toBe(false);
  const error = await failure(sandbox.exposePort(port, { hostname, token: "Not-Allowed" }));
  expect(error.message).toContain("lowercase letters");
});

test("the preview of the class and that of the server have the same address", async () => {
  const { url } = await sandbox.exposePort(port, { hostname, token: TOKEN });
  const answer = await post("/api/port/expose", { port, token: TOKEN });
  expect(await answer.json()).toMatchObject({ success: true, port, token: TOKEN, status: "active", url });
  const host = new URL(url).host;
  const through = async (path: string) =>
    await fetch(`${baseUrl}${path}`, { headers: { host }, redirect: "manual" });
  expect(await (await through("/api/ping?a=b")).text()).toBe(`/api/ping?a=b ${host}`);
  const moved = await through("/moved");
  expect([moved.status, moved.headers.get("location")]).toEqual([302, "/there"]);

  // Through the class, whose own proxy reaches the same program.
  const environment = { Sandbox: { idFromName: (name: string) => name, get: () => sandbox } };
  const request = new Request(`${url}page?x=1`);
  const previewed = await proxyToSandbox(request, environment as never);
  expect(await previewed?.text()).toBe(`/page?x=1 ${new URL(url).hostname}`);

  expect((await post("/api/port/unexpose", { port })).status).toBe(200);
  expect((await through("/")).status).toBe(404);
  await sandbox.unexposePort(port);
});
