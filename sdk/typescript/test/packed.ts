// The package in an empty project, installed as a user would.
import { execFile } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

export const root = fileURLToPath(new URL("../", import.meta.url));
// Not synchronously, which would block the test runner.
const execute = promisify(execFile);

export class Project {
  /** The files of the package. */
  files: string[] = [];
  readonly folder = mkdtempSync(join(tmpdir(), "sandcrab-package-"));

  static async install(): Promise<Project> {
    const project = new Project();
    const { folder } = project;
    const pack = await execute("npm", ["pack", "--json", "--pack-destination", folder], { cwd: root });
    const [packed] = JSON.parse(pack.stdout);
    project.files = packed.files.map(({ path }: { path: string }) => path);
    writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "empty", private: true }));
    await project.run("npm", "install", "--offline", "--no-audit", "--no-fund", join(folder, packed.filename));
    return project;
  }

  /** Runs a program in the project. */
  async run(program: string, ...args: string[]): Promise<string> {
    const env = { ...process.env, DENO_DIR: join(this.folder, "deno"), DENO_NO_UPDATE_CHECK: "1" };
    try {
      return (await execute(program, args, { cwd: this.folder, env })).stdout;
    } catch (error) {
      const { stdout, stderr } = error as { stdout: string; stderr: string };
      throw new Error(`${program} ${args.join(" ")}: ${stdout}${stderr}`, { cause: error });
    }
  }
}
