"""A long job with progress, and its result fetched as a file.

The job draws a plot as SVG with the standard library of Python, so that it runs everywhere.

Usage: SANDCRAB_URL=… SANDCRAB_TOKEN=… python3 examples/data_job.py [FILE]
"""

import os
import pathlib
import sys

from sandcrab import Sandbox

JOB = """
import math
STEPS = 200
points = []
for step in range(STEPS + 1):
    x = step / STEPS * 4 * math.pi
    points.append((step * 2, 60 - 50 * math.sin(x) * math.exp(-x / 8)))
    if step % 50 == 0:
        print(f"progress {step * 100 // STEPS}", flush=True)
line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
with open("plot.svg", "w") as file:
    file.write('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 120">')
    file.write(f'<polyline points="{line}" fill="none" stroke="teal"/></svg>')
"""

target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "plot.svg")
with Sandbox() as sandbox:
    folder = f"job-{os.getpid()}"
    sandbox.mkdir(folder)
    sandbox.write_text(f"{folder}/job.py", JOB)

    # The process continues if this program is stopped; the stream resumes if the connection is lost.
    process = sandbox.start_process(f"cd {folder} && exec python3 job.py", timeout=300)
    text, seen = "", []
    for event in process.stream_logs():
        if event.type != "stdout":
            continue
        *lines, text = (text + event.data).split("\n")
        for line in lines:
            seen.append(int(line.removeprefix("progress ")))
            print(f"{seen[-1]:3} %", "#" * (seen[-1] // 5))
    assert process.wait_for_exit().exit_code == 0, process.get_logs().stderr

    size = sandbox.download(f"{folder}/plot.svg", target)
    print(f"{target}: {size} bytes")
    sandbox.delete_file(folder, recursive=True)
assert seen == [0, 25, 50, 75, 100] and target.read_text().endswith("</svg>")
