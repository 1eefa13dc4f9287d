"""sides.py: the libraries under test (this library and its peers), their settings, and how to build and start them."""
import glob
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field

# Keep freed memory: page faults on temporary buffers cost MPI libraries a third of their speed on long vectors.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "4294967296", "MALLOC_TOP_PAD_": "268435456"}
SHARED_MEMORY = {"UCX_TLS": "posix,self"}
# Without network hardware, Open MPI uses UCX only if it may use any transport and device.
OPENMPI_UCX = ("pml", "ucx", "pml_ucx_tls", "any", "pml_ucx_devices", "any")


class Failure(Exception):
    """An error of the environment or the command line; the text is one sentence."""


@dataclass(frozen=True)
class Side:
    """One library in one setting. `mca`: Open MPI's parameters, alternating names and values."""
    peer: str
    setting: str
    mca: tuple = ()
    env: dict = field(default_factory=dict, compare=False)
    collectives: tuple = ()  # supported collectives; empty: all
    low: int = 0  # minimum size, bytes
    high: int = 1 << 62  # upper bound of the size, exclusive
    ranks: int = 0  # supported number of ranks; 0: any
    unbound: bool = False  # not bound to CPUs, because it has threads of its own
    polls: bool = False  # never yields: with more ranks than CPUs, an operation takes many ms

    @property
    def name(self):
        return f"{self.peer}:{self.setting}"

    @property
    def ours(self):
        return self.peer == "tutti"

    def crowded(self, ranks):
        """Returns true if polling ranks outnumber the CPUs. Then only one short run of the default setting is useful."""
        return self.polls and ranks > cpu_count()

    def takes(self, cell):
        if self.crowded(cell.ranks) and self.setting != "default":
            return False
        if self.ranks not in (0, cell.ranks):
            return False
        return (not self.collectives or cell.collective in self.collectives) and self.low <= cell.bytes < self.high


def tuned(number, *more):
    return ("coll_tuned_use_dynamic_rules", "1", "coll_tuned_allreduce_algorithm", str(number)) + more


PRIVATE = Side("tutti", "private")
HEAP = Side("tutti", "heap")

# Settings that were the best for some cell on some machine. A setting far from the best is run only once.
SETTINGS = [
    Side("openmpi", "default"),
    Side("openmpi", "ucx", OPENMPI_UCX, SHARED_MEMORY),
    Side("openmpi", "malloc", (), KEEP_MEMORY, low=1 << 20),
    *[Side("openmpi", f"ucx+tuned{k}", OPENMPI_UCX + tuned(k), SHARED_MEMORY, ("allreduce",), high=1 << 20)
      for k in range(1, 7)],
    *[Side("openmpi", f"malloc+tuned{k}", tuned(k), KEEP_MEMORY, ("allreduce",), low=64 << 10) for k in range(1, 7)],
    *[Side("openmpi", f"malloc+tuned5/{size >> 10}K", tuned(5, "coll_tuned_allreduce_algorithm_segmentsize", str(size)),
           KEEP_MEMORY, ("allreduce",), low=4 << 20) for size in (128 << 10, 1 << 20)],
    Side("mpich", "default", polls=True),
    Side("mpich", "ucx", (), SHARED_MEMORY, polls=True),
    Side("mpich", "malloc", (), KEEP_MEMORY, low=1 << 20, polls=True),
    Side("gloo", "default", unbound=True),
    Side("gloo", "bcube", (), {"GLOO_SETTING": "bcube"}, ("allreduce",), unbound=True),
    Side("gloo", "sync", (), {"GLOO_SETTING": "sync"}, ("allreduce", "broadcast", "reduce_scatter", "barrier"), polls=True),
]
PEERS = ["openmpi", "mpich", "gloo"]


def by_name(name):
    """Returns the side with this name; None: the name is unknown, or from an older version."""
    return next((side for side in [PRIVATE, HEAP, *SETTINGS] if side.name == name), None)


def choose(words, settings):
    """Returns those of the settings with a name such as "openmpi" or "openmpi:ucx"."""
    chosen = []
    for word in words:
        found = [side for side in settings if word in (side.peer, side.name)]
        if not found:
            names = ", ".join(PEERS + [side.name for side in settings])
            raise Failure(f"--peers: unknown peer '{word}'; expected some of {names}")
        chosen += [side for side in found if side not in chosen]
    return chosen


def cpu_count():
    return len(os.sched_getaffinity(0))


class Machine:
    """Builds the programs in BUILD/bench-peers, and returns the commands that start them."""
    binds = True  # bind each rank to a CPU, if there are enough


    def __init__(self, source, build):
        self.source, self.build = source, build
        self.folder = os.path.join(build, "bench-peers")
        self.tutti = os.path.join(build, "tutti")
        self.launchers = {}
        self.help = None  # of `tutti bench`; None: not read yet
        self.scratch = None  # temporary folder of the program that runs now

    def check_build(self):
        for path in (self.tutti, *(os.path.join(self.build, name) for name in ("libtutti.a", "libtutti_bench.a"))):
            if not os.path.exists(path):
                raise Failure(f"{path} not found: run make first")
        with open(os.path.join(self.build, "CMakeCache.txt"), encoding="utf-8") as cache:
            if any(line.startswith("TUTTI_SANITIZE:STRING=") and line.strip()[-1] != "=" for line in cache):
                raise Failure(f"{self.build} is built with sanitizers; expected a build without them")
        os.makedirs(self.folder, exist_ok=True)

    def has_option(self, option):
        if self.help is None:
            said = subprocess.run([self.tutti, "bench", "--help"], capture_output=True, text=True, check=False)
            self.help = said.stdout + said.stderr
        return option in self.help

    def has_heap(self):
        return self.has_option("--heap")

    def our_program(self):
        """Returns the command of this library's side. Peers are not measured in place, so that is left out."""
        return [self.tutti, "bench", *(["--out-of-place"] if self.has_option("--out-of-place") else [])]

    def program(self, name):
        return os.path.join(self.folder, name)

    # ---- building ----

    def _compile(self, output, command, source, libraries=()):
        """Compiles and links one source file, if the output is older than the source, the headers or the libraries."""
        output, source = self.program(output), os.path.join(self.source, "bench", source)
        headers = [path for folder in ("bench", "bench/core", "cli", "include/tutti")
                   for path in glob.glob(os.path.join(self.source, folder, "*.h"))]
        parts = [source, *(word for word in libraries if not word.startswith("-"))]
        newest = max(os.path.getmtime(path) for path in [*parts, *headers])
        if os.path.exists(output) and os.path.getmtime(output) > newest:
            return
        folders = [f"-I{os.path.join(self.source, folder)}" for folder in ("include", "src", ".")]
        # Another run of the tool may build or start the same program now.
        fresh = f"{output}.{os.getpid()}"
        whole = [*command, "-D_GNU_SOURCE", "-O2", *folders, source, *libraries, "-o", fresh]
        done = subprocess.run(whole, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure(f"cannot build {output}:\n{done.stderr}")
        os.replace(fresh, output)

    def _libraries(self):
        """Returns the benchmark's core, the library, and its dependencies as pkg-config lists them."""
        command = ["pkg-config", "--static", "--libs", os.path.join(self.build, "tutti.pc")]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        if said.returncode != 0:
            raise Failure(f"cannot list the dependencies of {self.build}/libtutti.a: {' '.join(command)} failed:\n{said.stderr}")
        needed = [word for word in said.stdout.split() if word != "-ltutti" and not word.startswith("-L")]
        return [os.path.join(self.build, name) for name in ("libtutti_bench.a", "libtutti.a")] + needed

    def build_peer(self, peer):
        """Builds the program of a peer; returns False if the peer is not installed."""
        if peer == "gloo":
            if not os.path.exists("/usr/include/gloo/allreduce.h"):
                return False
            self._compile("gloo_side.o", ["c++", "-std=c++17", "-c"], "gloo_side.cpp")
            self._compile("gloo_bench", ["cc", "-std=c17"], "gloo_bench.c",
                          [self.program("gloo_side.o"), *self._libraries(), "-lgloo", "-lstdc++"])
            return True
        if peer == "sockets":
            self._compile("sockets_bench", ["cc", "-std=c17"], "sockets_bench.c", self._libraries())
            return True
        compiler, launcher = self._find_mpi(peer)
        if not compiler:
            return False
        self.launchers[peer] = launcher
        self._compile(f"{peer}_bench", [compiler, "-std=c17"], "mpi_bench.c", self._libraries())
        return True

    @staticmethod
    def _find_mpi(peer):
        """Returns the compiler and launcher of an MPI library. Debian's names end in the library's name; other systems use plain
        names, so the version output is checked."""
        sign = {"openmpi": "Open MPI", "mpich": "HYDRA"}[peer]
        for ending in (f".{peer}", ""):
            compiler, launcher = shutil.which(f"mpicc{ending}"), shutil.which(f"mpirun{ending}")
            if not compiler or not launcher:
                continue
            said = subprocess.run([launcher, "--version"], capture_output=True, text=True, check=False).stdout
            if sign in said:
                return compiler, launcher
        return None, None

    def version(self, peer):
        if peer == "gloo":
            said = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "libgloo-dev"], capture_output=True, text=True,
                                  check=False)
            return f"Gloo {said.stdout or '(unknown version)'}"
        if peer == "sockets":
            return "bare sockets"
        said = subprocess.run([self.launchers[peer], "--version"], capture_output=True, text=True, check=False).stdout
        if peer == "openmpi":
            return said.splitlines()[0].replace("mpirun (Open MPI)", "Open MPI")
        found = [line.split(":")[1].strip() for line in said.splitlines() if "Version:" in line]
        return f"MPICH {found[0] if found else '(unknown version)'}"

    # ---- starting ----

    def command(self, side, ranks, arguments):
        """Returns the command line and the additional environment variables."""
        fits = ranks <= cpu_count()
        bound = fits and self.binds and not side.unbound
        number = ["-n", str(ranks)]
        if side.ours:
            heap = ["--heap"] if side is HEAP else []
            return [*self.our_program(), *number, "--bind", "core" if bound else "none", *heap, *arguments], {}
        if side.peer == "gloo":
            self.make_scratch()
            start = [self.tutti, "run", *number, "--bind", "core" if bound else "none", "--", self.program("gloo_bench")]
            return start + arguments, {**side.env, "GLOO_FOLDER": self.scratch}
        program = [self.program(f"{side.peer}_bench"), *arguments]
        if side.peer == "mpich":
            return [self.launchers["mpich"], *number, "-bind-to", "core" if bound else "none", *program], side.env
        bind = ["--bind-to", "core" if bound else "none", *([] if fits else ["--oversubscribe"])]
        words, env = self.openmpi_options(side)
        return [self.launchers["openmpi"], *number, *bind, *words, *program], env

    @staticmethod
    def openmpi_options(side):
        """Returns the options of mpirun, and the environment, of a setting of Open MPI."""
        mca = [word for i in range(0, len(side.mca), 2) for word in ("--mca", *side.mca[i:i + 2])]
        export = [word for name in side.env for word in ("-x", name)]
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
        return [*mca, *export], {**side.env, **root}

    def make_scratch(self):
        self.scratch = tempfile.mkdtemp(prefix="gloo.", dir=self.folder)

    def clean(self):
        if self.scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch = None
