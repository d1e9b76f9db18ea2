// A bundle of the package in a page of a real browser, of another origin than the server.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { expect, test } from "vitest";
import { Project } from "./packed.js";
import { TestServer } from "./server.js";

const browser = ["chromium", "chromium-browser", "google-chrome"].find(
  (name) => spawnSync(name, ["--version"]).status === 0,
);

/** Reports what worked to the server of the page. */
const script = (url: string, token: string) => `
import { getSandbox } from "sandcrab";
const lines = [];
try {
  const sandbox = getSandbox({ baseUrl: ${JSON.stringify(url)}, token: ${JSON.stringify(token)} });
  lines.push((await sandbox.exec("echo", ["executed"])).stdout.trim());
  for await (const event of sandbox.execStream("echo streamed")) if (event.type === "stdout") lines.push(event.data.trim());
  const controller = new AbortController();
  const options = { signal: controller.signal, onOutput: () => controller.abort() };
  const error = await sandbox.exec("echo part; sleep 600", options).catch((error) => error);
  lines.push(error.name, error.result?.stdout.trim());
  await sandbox.writeFile("browser", new Uint8Array([1, 2, 3]));
  lines.push((await sandbox.stat("browser")).size);
  await sandbox.writeFile("browser", new Blob(["streamed"]).stream());
  lines.push((await sandbox.stat("browser")).size);
  const terminal = await sandbox.terminal({ command: "read line; echo got-$line; exit 3" });
  const connection = await terminal.connect();
  connection.write("key\\r");
  let screen = "";
  for await (const event of connection) {
    if ("data" in event) screen += new TextDecoder().decode(event.data);
    if (event.type === "exit") lines.push(/got-key/.exec(screen)?.[0], event.exitCode);
  }
  const missing = await sandbox.readFile("missing").catch((error) => error);
  lines.push(missing.name, missing.code);
} catch (error) {
  lines.push(String(error.stack));
}
await fetch("/result", { method: "POST", body: lines.join(" ") });
`;

/** Shows a page until it has reported. */
async function report(program: string, page: string, profile: string, result: Promise<string>): Promise<string> {
  const options = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    `--user-data-dir=${profile}`,
  ];
  const child: ChildProcess = spawn(program, [...options, page], {
    stdio: "ignore",
    env: { ...process.env, HOME: profile, TMPDIR: profile },
  });
  const exited = once(child, "exit");
  const failed = exited.then(([code]) => Promise.reject(new Error(`the browser exited with ${code}`)));
  try {
    return await Promise.race([result, failed]);
  } finally {
    failed.catch(() => undefined);
    child.kill();
    await exited;
  }
}

test("a bundle works in a page of a browser", async () => {
  if (!browser) {
    // The suite counts this test as not run.
    const note = "a browser is not installed\tthe TypeScript SDK in a page\n";
    if (process.env.SANDCRAB_NOT_RUN) appendFileSync(process.env.SANDCRAB_NOT_RUN, note);
    console.log("Not run: no browser is installed.");
    return;
  }
  let bundle = "";
  let done: (text: string) => void;
  const result = new Promise<string>((resolve) => {
    done = resolve;
  });
  const pages = createServer(async (request, response) => {
    if (request.url === "/result") {
      let text = "";
      for await (const part of request) text += part;
      response.end();
      done(text);
    } else if (request.url === "/bundle.js") {
      response.writeHead(200, { "content-type": "text/javascript" }).end(bundle);
    } else {
      response.writeHead(200, { "content-type": "text/html" }).end('<script type="module" src="/bundle.js"></script>');
    }
  });
  await new Promise<void>((resolve) => pages.listen(0, "127.0.0.1", resolve));
  const page = `http://127.0.0.1:${(pages.address() as AddressInfo).port}`;
  const profile = mkdtempSync(join(tmpdir(), "sandcrab-browser-"));
  const project = await Project.install();
  const server = await TestServer.start("--allow-origin", page);
  try {
    const stdin = { contents: script(server.url, server.token), resolveDir: project.folder };
    const built = await build({ stdin, bundle: true, write: false, format: "esm", platform: "browser" });
    bundle = built.outputFiles[0]?.text as string;
    const text = await report(browser, page, profile, result);
    expect(text).toBe("executed streamed AbortError part 3 8 got-key 3 NotFoundError FILE_NOT_FOUND");
  } finally {
    pages.close();
    pages.closeAllConnections();
    await server.remove();
    rmSync(project.folder, { recursive: true });
    rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 200 });
  }
});
