"""Who is measured: programs that answer requests line by line, and ours, which is started for every measurement."""

import json
import os
import select
import subprocess
import time

PATIENCE = 300
"""Seconds that an answer may take: torch.compile of a network takes tens."""


class Gone(Exception):
    """A program ended or did not answer; the message says how."""


class Lines:
    """A program that reads a line of JSON and answers with one. It says first who it is."""

    def __init__(self, argv, environment, log):
        self.log = log
        self.buffer = b""
        with open(log, "wb") as errors:
            self.process = subprocess.Popen(
                argv, env=os.environ | environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        self.greeting = self.answer()

    def ask(self, request):
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it ended: reading its answer says so
        return self.answer()

    def answer(self):
        deadline = time.monotonic() + PATIENCE
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                self.stop()
                raise Gone(f"no answer in {PATIENCE} s")
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            if not more:
                code = self.process.wait()
                self.close()
                with open(self.log, errors="replace") as errors:
                    last = errors.read().strip().splitlines()[-1:]
                raise Gone(f"it ended with status {code}: {' '.join(last)[:200]}")
            self.buffer += more
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.close()

    def close(self):
        try:
            self.process.stdin.close()
        except OSError:
            pass  # it ended before it had read all
        self.process.stdout.close()


class Peer:
    """A peer at one instruction set: its program is started when it is first asked, and again after it ended."""

    def __init__(self, name, argv, environment, log):
        self.name, self.argv, self.environment, self.log = name, argv, environment, log
        self.program = None
        self.head = {"framework": name, "version": "", "mode": ""}
        self.failed = None

    def measure(self, workload, quick):
        """Answers by row head. Once a workload has failed it is not tried again in later rounds."""
        if self.failed and self.failed[0] == workload:
            return [(self.head, self.failed[1])]
        try:
            if self.program is None:
                self.program = Lines(self.argv, self.environment, self.log)
                self.head = self.program.greeting
            answer = self.program.ask({"workload": workload, "quick": quick})
        except Gone as how:
            self.program = None
            answer = {"note": f"failed: {how}"}
        if answer.get("median_us") is None:
            self.failed = workload, answer
        return [(self.head, answer)]

    def stop(self):
        if self.program is not None:
            self.program.stop()


class Ours:
    """`straightline bench`: a process for each measurement, which measures eager and compiled calls."""

    def __init__(self, binary, isa, threads, minilm):
        self.argv = [binary, "bench", "--threads", str(threads), "--json"]
        if minilm:
            self.argv += ["--minilm", minilm]
        self.environment = {"STRAIGHTLINE_ISA": isa}

    def measure(self, workload, quick):
        # the beginning of a name chooses the longer ones too; a pattern chooses whole names
        pattern = workload[:-1] + "?"
        argv = self.argv + ["--workload", pattern] + (["--quick"] if quick else [])
        done = subprocess.run(argv, env=os.environ | self.environment, capture_output=True, text=True)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        keep = ("framework", "version", "mode")
        answers = [({k: r[k] for k in keep}, r) for r in found if r["workload"] == workload]
        # compiled first: the peers are compared with it
        answers.sort(key=lambda a: a[0]["mode"])
        if answers:
            return answers
        note = f"failed: {' '.join(done.stderr.split())[-200:]}"
        return [({"framework": "straightline", "version": "", "mode": m}, {"note": note}) for m in ("compiled", "eager")]

    def stop(self):
        pass
