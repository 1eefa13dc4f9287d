#!/usr/bin/env python3
# test: slow waits timeout=600
"""top_cases_test.py SOURCE BUILD: jobs in random trouble, each explained by `tutti top`.

A seed determines the number of ranks (2 to 8), on one host or on two (TUTTI_HOST), what happens to one of them, the victim:
it is stopped, computes, sleeps (is late), dies, sleeps after all ranks have closed all their descriptors (on one host: on two
that would end their connections), or waits in another call; and whether its job
is asked for by the pid of `tutti run` or of a rank. Seeds 0 to 5, or 0 to 99 if TEST_LONG is set; TEST_SEED=n: that one.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

build = os.path.realpath(sys.argv[2])
tutti, troubled = build + "/tutti", build + "/tests/troubled"
RSH = "#!/bin/sh\nexport TUTTI_HOST=$1\nshift\nexec sh -c \"$*\"\n"
TROUBLES = ("stopped", "computes", "sleeps", "dies", "closes", "receives")


class Case:
    def __init__(self, seed, folder):
        draw = random.Random(seed)
        self.seed = seed
        self.ranks = draw.randint(2, 8)
        self.hosts = 2 if self.ranks >= 3 and draw.random() < 0.4 else 1
        self.trouble = draw.choice(TROUBLES)
        if self.trouble == "closes":
            self.hosts = 1
        self.victim = draw.randrange(self.ranks)
        self.by_rank = draw.random() < 0.3
        self.there = os.path.join(folder, f"there.{seed}")
        self.folder = folder

    def __str__(self):
        return f"seed {self.seed}: {self.ranks} ranks on {self.hosts} hosts, rank {self.victim} {self.trouble}"

    def start(self):
        environment = dict(os.environ, TUTTI_RSH=self.folder + "/rsh")
        where = ["-n", str(self.ranks)]
        if self.hosts == 2:
            first = self.ranks // 2
            where = ["--hosts", f"a:{first},b:{self.ranks - first}"]
        # The shell goes on when its rank dies, so that the job goes on.
        command = ["bash", "-c", '"$@"; exec sleep 1000', "-", troubled, self.trouble, str(self.victim), self.there]
        self.job = subprocess.Popen([tutti, "run", *where, "--", *command], env=environment,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def look(self):
        pid = self.job.pid
        if self.by_rank and self.pid_of_rank:
            pid = self.pid_of_rank
        said = subprocess.run([tutti, "top", "--json", str(pid)], capture_output=True, text=True, check=False)
        if said.returncode != 0:
            return None, said.stderr
        job = json.loads(said.stdout)["jobs"][0]
        alive = [r["pid"] for r in job["ranks"] if r["life"] == "lives"]
        self.pid_of_rank = alive[0] if alive else None
        return job, said.stdout

    def wrong(self, job):
        """Returns what is wrong with the explanation; None: nothing."""
        if job["size"] != self.ranks or job["seen"] != self.ranks:
            return f"{job['seen']} of {job['size']} ranks are seen"
        victim = [r for r in job["ranks"] if r["rank"] == self.victim][0]
        if self.trouble == "dies":
            if victim["life"] != "dead":
                return f"the victim is {victim['life']}"
            if not any(f"rank {self.victim} " in f["message"] for f in job["failures"]):
                return "no failure names the victim"
            return None
        if self.trouble == "receives":
            # It waits for the next rank, which waits for it, perhaps through others.
            if self.victim in job["circle"] and (self.victim + 1) % self.ranks in job["circle"]:
                return None
            return f"the circle is {job['circle']}, and to blame are {[w['rank'] for w in job['why']]}"
        if job["waiting"] != self.ranks - 1:
            return f"{job['waiting']} ranks wait"
        blamed = [(w["rank"], w["reason"], w["waiters"]) for w in job["why"]]
        reason = "stopped" if self.trouble == "stopped" else "not started"
        if blamed != [(self.victim, reason, self.ranks - 1)]:
            return f"to blame are {blamed}"
        state = {"stopped": "stopped", "computes": "runs"}.get(self.trouble, "sleeps")
        return None if victim["state"] == state else f"the victim {victim['state']}"

    def run(self):
        self.pid_of_rank = None
        self.start()
        why, said = "the job did not come to its trouble", ""
        deadline = time.monotonic() + 30  # a wait is published after 10 ms; on a busy machine, later
        while time.monotonic() < deadline and why:
            time.sleep(0.05)
            if not os.path.exists(self.there):
                continue
            job, said = self.look()
            why = self.wrong(job) if job else said
        self.job.send_signal(signal.SIGTERM)
        self.job.wait()
        return f"{self}: {why}\n{said}" if why else None


def main():
    seeds = range(100 if os.environ.get("TEST_LONG") else 6)
    if os.environ.get("TEST_SEED"):
        seeds = [int(os.environ["TEST_SEED"])]
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/rsh", "w", encoding="utf-8") as file:
            file.write(RSH)
        os.chmod(folder + "/rsh", 0o755)
        for seed in seeds:
            wrong = Case(seed, folder).run()
            if wrong:
                failed.append(wrong)
                print("  " + wrong)
    print(f"  {len(seeds)} cases, {len(failed)} explained wrongly")
    print("FAILED cases" if failed else "ok cases")
    print(f"{0 if failed else 1} passed, {1 if failed else 0} failed")
    return 1 if failed else 0


sys.exit(main())
