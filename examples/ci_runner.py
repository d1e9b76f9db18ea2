"""A CI runner: 50 jobs at once, each in a session of its own, with steps that share the state of their shell.

Usage: SANDCRAB_URL=… SANDCRAB_TOKEN=… python3 examples/ci_runner.py
"""

import asyncio

from sandcrab import AsyncSandbox

JOBS = 50
# A step sees the directory and the variables of the steps before it. Every tenth job fails in its tests.
STEPS = [
    ("checkout", 'work=$(mktemp -d) && cd "$work" && seq 1 "$JOB" > numbers'),
    ("build", "total=$(awk '{ sum += $1 } END { print sum }' numbers)"),
    ("test", '[ "$total" = $((JOB * (JOB + 1) / 2)) ] && [ $((JOB % 10)) != 0 ]'),
]


async def run(sandbox: AsyncSandbox, job: int) -> str | None:
    """Runs the steps of a job until one fails. Returns the name of that step."""
    async with await sandbox.create_session(env={"JOB": str(job)}) as session:
        try:
            for name, command in STEPS:
                result = await session.exec(command, timeout=120)
                if result.exit_code != 0:
                    return name
            return None
        finally:
            await session.exec('cd / && rm -rf "$work"')


async def main() -> None:
    """Runs all jobs, and prints which failed."""
    async with AsyncSandbox() as sandbox:
        failures = await asyncio.gather(*(run(sandbox, job) for job in range(1, JOBS + 1)))
    failed = {job: step for job, step in enumerate(failures, 1) if step}
    for job, step in failed.items():
        print(f"job {job}: failed in {step}")
    print(f"{JOBS - len(failed)} of {JOBS} jobs passed")
    assert failed == dict.fromkeys(range(10, JOBS + 1, 10), "test")


asyncio.run(main())
