// A coding agent: a model writes a program, runs its tests, reads the failure, and corrects it. The model is a script here, so
// that the example always does the same; replace `model` by a call to yours.
//
// Usage: SANDCRAB_URL=… SANDCRAB_TOKEN=… npx tsx examples/coding-agent.ts
import { getSandbox } from "sandcrab";

type Call =
  | { tool: "write"; path: string; content: string }
  | { tool: "run"; command: string }
  | { tool: "edit"; path: string; before: string; after: string }
  | { tool: "done"; summary: string };
type Turn = { call: Call; result: string };

/** Chooses the next call from what has happened so far. */
function model(turns: Turn[]): Call {
  const last = turns.at(-1);
  if (!last) {
    const content = "def median(values):\n    values = sorted(values)\n    return values[len(values) // 2]\n";
    return { tool: "write", path: "stats.py", content };
  }
  if (last.call.tool === "write" && last.call.path === "stats.py") {
    const content = "from stats import median\nassert median([3, 1, 2]) == 2\nassert median([1, 2, 3, 4]) == 2.5, median([1, 2, 3, 4])\n";
    return { tool: "write", path: "test_stats.py", content };
  }
  if (last.call.tool === "run" && last.result.includes("AssertionError: 3")) {
    const before = "return values[len(values) // 2]";
    return { tool: "edit", path: "stats.py", before, after: "half = len(values) // 2\n    return (values[half] + values[~half]) / 2" };
  }
  if (last.call.tool === "run") return { tool: "done", summary: last.result };
  return { tool: "run", command: "python3 test_stats.py" };
}

const sandbox = getSandbox();
const folder = `agent-${Date.now()}`;
await sandbox.mkdir(folder);
const session = await sandbox.createSession();
await session.exec(`cd ${folder}`);

/** Does what the model asks for, and returns what it is told. Paths are relative to the directory of the session. */
async function perform(call: Call): Promise<string> {
  switch (call.tool) {
    case "write":
      await session.writeFile(call.path, call.content);
      return "written";
    case "edit": {
      const { content } = await session.readFile(call.path);
      if (!content.includes(call.before)) return `the text is not in ${call.path}`;
      await session.writeFile(call.path, content.replace(call.before, call.after));
      return "changed";
    }
    case "run": {
      // A command that does not end must not stop the agent.
      const result = await session.exec(call.command, { timeout: 60_000, maxOutputBytes: 10_000 });
      return `exit code ${result.exitCode}\n${result.stdout}${result.stderr}`;
    }
    case "done":
      return "";
  }
}

const turns: Turn[] = [];
let summary: string | undefined;
while (summary === undefined && turns.length < 20) {
  const call = model(turns);
  if (call.tool === "done") summary = call.summary;
  const result = await perform(call);
  turns.push({ call, result });
  console.log(call.tool, result.trim().split("\n").at(-1));
}
await session.delete();
await sandbox.deleteFile(folder, { recursive: true });
if (!summary?.startsWith("exit code 0")) throw new Error(`the tests still fail: ${summary}`);
