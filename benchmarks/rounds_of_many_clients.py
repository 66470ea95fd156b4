"""How time and memory of a round grow with the number of clients: fedcli's engines, and Flower's
simulation where installed.

    python benchmarks/rounds_of_many_clients.py                  # 1,000 and 10,000 clients of 8
    images, the small CNN at 16 px
    python benchmarks/rounds_of_many_clients.py 1000 --repeats 3

Every line is a process of its own. Processor time and memory are those of it and of all that it
starts: memory is the largest sum of proportional set sizes, read every fifth of a second. All
clients take part in every round of "all"; in "100 of them" a hundred do. Flower trains the same
clients on the same batches in one ray worker; that both end at the same model is checked by
`benchmarks/peers.py`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import peers

from fedcli.bench.measuring import threads
from fedcli.federation.engines import open_engine
from fedcli.federation.server import Federation

SIDES = "in-process", "pool:2", "ray:2", "flower"
ROUNDS = 2  # the first is not measured: networks, images and workers are made in it


def clients_of(problem, device="cpu", count=1):
    """What trains the problem's clients, here and on ray's workers."""
    return peers.fedcli_clients(problem, remake=partial(clients_of, problem))


def measured(side, clients, cohort):
    """In a process of its own: start of each round after the first, and its end."""
    problem = peers.Problem(size=16, clients=clients, images=8, rounds=ROUNDS)
    marks = []
    with threads(1):
        if side == "flower":
            peers.run_flower(
                problem, lambda train: marks.extend([time.time(), train(), time.time()])
            )
            return marks[0], marks[2], ROUNDS
        engine = clients_of(problem)
        federation = Federation(
            engine,
            rounds=ROUNDS,
            participation=cohort / clients,
        )
        with open_engine(side, engine, cohort) as opened:
            state = federation.play(federation.first(), engine=opened).state
            start = time.time()
            federation.play(state, engine=opened)
            return start, time.time(), 1


def sampled(session):
    """Processor seconds and bytes of a session's processes now."""
    ticks, size = 0, 0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parts = (path / "stat").read_text().rpartition(")")[2].split()
            if int(parts[3]) == session:
                ticks += sum(map(int, parts[11:15]))
                size += (
                    int((path / "smaps_rollup").read_text().partition("\nPss:")[2].split()[0])
                    * 1024
                )
        except (OSError, IndexError):  # it ended
            continue
    return ticks / os.sysconf("SC_CLK_TCK"), size


def run(side, clients, cohort, limit):
    """Seconds and processor seconds of a round, and the peak of memory."""
    command = [sys.executable, __file__, str(clients), "--side", side, "--cohort", str(cohort)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    samples, end = [], time.time() + limit
    while process.poll() is None and time.time() < end:
        samples.append((time.time(), *sampled(process.pid)))
        time.sleep(0.2)
    if process.poll() is None:
        os.killpg(process.pid, 9)
        process.wait()
        return None
    start, stop, rounds = json.loads(process.communicate()[0].splitlines()[-1])
    inside = [cpu for at, cpu, _ in samples if start <= at <= stop]
    cpu = max(inside) - min(inside) if inside else float("nan")
    return (stop - start) / rounds, cpu / rounds, max(size for _, _, size in samples)


def main():
    asked = argparse.ArgumentParser()
    asked.add_argument("clients", nargs="*", type=int, default=[1000, 10000])
    asked.add_argument("--repeats", type=int, default=1)
    asked.add_argument(
        "--limit",
        type=float,
        default=600,
        help="seconds for each line",
    )
    asked.add_argument("--side")
    asked.add_argument("--cohort", type=int)
    asked = asked.parse_args()
    if asked.side:
        print(json.dumps(measured(asked.side, asked.clients[0], asked.cohort)))
        return
    print(
        "| engine | clients | a round of | s a round | processor s a round | ms of processor a "
        "client | peak MB |"
    )
    print("|---|---|---|---|---|---|---|")
    for _ in range(asked.repeats):
        for clients in asked.clients:
            for side in SIDES:
                for cohort in (clients,) if side == "flower" else (100, clients):
                    made = run(side, clients, cohort, asked.limit)
                    numbers = (
                        ["over the limit", "", "", ""]
                        if made is None
                        else [
                            f"{made[0]:.1f}",
                            f"{made[1]:.1f}",
                            f"{1000 * made[1] / cohort:.1f}",
                            f"{made[2] / 1e6:,.0f}",
                        ]
                    )
                    whole = "all" if cohort == clients else f"{cohort} of them"
                    print(
                        "|",
                        " | ".join([side, f"{clients:,}", whole, *numbers]),
                        "|",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
