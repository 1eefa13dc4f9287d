"""hosts.py: the libraries on several hosts, which are namespaces (hosts.sh): their settings, how to start them there, and
how fast the links between the hosts are."""
import glob
import json
import os
import re
import signal
import subprocess
from collections import namedtuple

from . import cells, measure, sides

HERE = os.path.dirname(os.path.abspath(__file__))
REMOTE_SHELL, ON_CPU = (os.path.join(HERE, name) for name in ("remote-shell", "on-cpu"))
SHAPES = ("none", "1gbit", "100mbit")
# A slow link needs seconds for the sizes that a fast one moves in milliseconds.
SIZES = {"none": "8,64,256,1K,2K,4K,8K,16K,64K,256K,1M,4M,16M,64M", "1gbit": "64K,1M,16M", "100mbit": "64K,4M"}
QUICK_SIZES = {"none": "8,1K,16K,256K,1M,4M,16M", "1gbit": "16M", "100mbit": "4M"}
WIRE_BYTES = 1 << 20  # from this size up, a shaped link is measured in the same round
CPU_BYTES = 64 << 20
LATE_MS = 100
IPERF_PORT = 5201
BARE_PORT = 5202

Layout = namedtuple("Layout", "hosts per_host")


def show(layout):
    return f"{layout.hosts}x{layout.per_host}"


def ranks_of(layout):
    return layout.hosts * layout.per_host


def parse_layouts(text):
    """Reads hosts x ranks per host, separated by commas: 2x1,2x2,4x1."""
    found = []
    for word in text.split(","):
        match = re.fullmatch(r"([1-9]\d?)x([1-9]\d?)", word)
        if not match or int(match[1]) < 2:
            raise sides.Failure(f"--hosts: expected HOSTSxRANKS with 2 to 99 hosts, such as 2x1,2x2,4x1, found '{word}'")
        found.append(Layout(int(match[1]), int(match[2])))
    return list(dict.fromkeys(found))


# ---- settings ----

OPENMPI_TCP = ("pml", "ob1", "btl", "tcp,vader,self", "btl_tcp_if_include", "eth0", "oob_tcp_if_include", "eth0")
# Open MPI sees only the ranks of its own host. It does not know that those of other hosts use the same CPUs.
YIELDS = ("mpi_yield_when_idle", "1")
UCX_TCP = {"UCX_TLS": "tcp,posix,self", "UCX_NET_DEVICES": "eth0"}
# Algorithms on top of what is best without them: 3 recursive doubling, 4 ring, 5 segmented ring, 6 Rabenseifner.
TUNED = ((3, 0, 1 << 20), (4, 64 << 10, 1 << 62), (5, 1 << 20, 1 << 62), (6, 16 << 10, 1 << 62))
SETTINGS = [
    sides.Side("openmpi", "tcp", OPENMPI_TCP),
    sides.Side("openmpi", "yield", OPENMPI_TCP + YIELDS),
    sides.Side("openmpi", "malloc", OPENMPI_TCP, sides.KEEP_MEMORY, low=1 << 20),
    sides.Side("openmpi", "yield+malloc", OPENMPI_TCP + YIELDS, sides.KEEP_MEMORY, low=1 << 20),
    *[sides.Side("openmpi", f"yield+malloc+tuned{number}", OPENMPI_TCP + YIELDS + sides.tuned(number), sides.KEEP_MEMORY,
                 ("allreduce",), low=low, high=high) for number, low, high in TUNED],
    sides.Side("mpich", "default", (), {"UCX_NET_DEVICES": "eth0"}, polls=True),
    sides.Side("mpich", "ucx", (), UCX_TCP, polls=True),
    sides.Side("mpich", "malloc", (), {**UCX_TCP, **sides.KEEP_MEMORY}, low=1 << 20, polls=True),
    *[side for side in sides.SETTINGS if side.peer == "gloo"],
]
# No library: two ranks that send, receive and add. For short vectors, no library over TCP can be faster.
BARE = sides.Side("sockets", "bare", collectives=("allreduce",), ranks=2, polls=True)
PEERS = [*sides.PEERS, BARE.peer]
# This library with a plan that knows no hosts: the bar of shaped links compares with it.
FLAT = sides.Side("flat", "direct", collectives=("allreduce",), low=WIRE_BYTES)


class HostsMachine(sides.Machine):
    """Starts programs on hosts; set `layout` first. All launchers run on the first host."""
    layout = None
    rate = "none"

    def __init__(self, source, build):
        super().__init__(source, os.path.abspath(build))
        self.keepers = os.environ["BENCH_HOSTS"].split()
        self.networks = {self._network(pid) for pid in self.keepers}

    @staticmethod
    def _network(pid):
        try:
            return os.readlink(f"/proc/{pid}/ns/net")
        except OSError:
            return None

    def on_host(self, host, command):
        return ["nsenter", "--target", self.keepers[host], "--net", "--mount", "--uts", "--ipc", f"--wdns={os.getcwd()}",
                "--", "env", "TMPDIR=/tmp", *command]

    @staticmethod
    def address(host):
        return f"10.77.0.{host + 1}"

    def _hosts(self):
        return ",".join(f"{self.address(host)}:{self.layout.per_host}" for host in range(self.layout.hosts))

    def command(self, side, ranks, arguments):
        """Returns the command line and the additional environment variables. `ranks` is that of the layout."""
        cpus = sorted(os.sched_getaffinity(0))
        bound = ranks <= len(cpus) and not side.unbound
        on_cpu = [ON_CPU, ",".join(map(str, cpus)), str(len(cpus))] if bound else []
        start, env = getattr(self, f"_start_{side.peer}")(side, ranks)
        return self.on_host(0, [*start, *on_cpu, *self._program(side), *arguments]), env

    def _program(self, side):
        ours = side.ours or side is FLAT
        return self.our_program() if ours else [self.program(f"{side.peer}_bench")]

    def _start_tutti(self, side, ranks, export=()):
        words = [word for pair in export for word in ("--env", pair)]
        return [self.tutti, "run", "--hosts", self._hosts(), "-n", str(ranks), *words, "--"], {"TUTTI_RSH": REMOTE_SHELL}

    _start_flat = _start_tutti

    def _start_gloo(self, side, ranks):
        self.make_scratch()
        export = {**side.env, "GLOO_FOLDER": self.scratch, "GLOO_INTERFACE": "eth0"}
        return self._start_tutti(side, ranks, [f"{name}={value}" for name, value in export.items()])

    def _start_sockets(self, side, ranks):
        return self._start_tutti(side, ranks, [f"SOCKETS_ADDRESS={self.address(0)}:{BARE_PORT}"])

    def _start_mpich(self, side, ranks):
        return [self.launchers["mpich"], "-launcher", "rsh", "-launcher-exec", REMOTE_SHELL, "-iface", "eth0", "-hosts",
                self._hosts(), "-n", str(ranks), "-bind-to", "none"], side.env

    def _start_openmpi(self, side, ranks):
        words, env = self.openmpi_options(side)
        return [self.launchers["openmpi"], "--mca", "plm_rsh_agent", REMOTE_SHELL, "--host", self._hosts(), "-n", str(ranks),
                "--bind-to", "none", *words], env

    def clean(self):
        """Ends what a launcher has left on the hosts; it would disturb the next run."""
        super().clean()
        for path in glob.glob("/proc/[0-9]*"):
            pid = os.path.basename(path)
            if pid not in self.keepers and self._network(pid) in self.networks:
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass

    # ---- links ----

    def shape(self, rate):
        """Limits both directions of each host's link; none: no limit, as at first."""
        if rate == self.rate:
            return
        self.rate = rate
        os.write(3, f"{rate}\n".encode())
        if os.read(0, 100) != b"ok\n":
            raise sides.Failure(f"--shape: the links between the hosts cannot be limited to {rate}")

    def wire_bits(self):
        """Returns the rates, in bit/s, of both directions of the link between two hosts while both are busy, by iperf3. None:
        it is not installed, or failed."""
        try:
            server = subprocess.Popen(self.on_host(1, ["iperf3", "-s", "-1", "-p", str(IPERF_PORT), "--forceflush"]),
                                      stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
            while "listening" not in (line := server.stdout.readline()):
                if not line:
                    return None
            said = subprocess.run(self.on_host(0, ["iperf3", "-c", self.address(1), "-p", str(IPERF_PORT), "--bidir", "-J",
                                                   "-O", "1", "-t", "3"]),
                                  capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60).stdout
            return read_rates(said)
        except subprocess.TimeoutExpired:
            return None
        finally:
            server.kill()
            server.communicate()


def read_rates(text):
    """Returns the rates of both directions that iperf3 --bidir -J has measured at the receivers; None: it has failed."""
    try:
        end = json.loads(text)["end"]
        return [end[name]["bits_per_second"] for name in ("sum_received", "sum_received_bidir_reverse")]
    except (ValueError, KeyError):
        return None


class HostsMeasurer(measure.Measurer):
    """Measures one layout with one shape of the links. `wires`: by round, the rates of both directions of a shaped link."""

    def __init__(self, machine, ping, options, shape):
        # A shaped link is so slow that the distance of the CPUs does not matter.
        super().__init__(machine, ping if shape == "none" else None, options)
        self.shape, self.wires = shape, {}

    def _arguments(self, side, block, wanted):
        words = super()._arguments(side, block, wanted)
        return [f"{words[0]}.{side.setting}", *words[1:]] if side is FLAT else words

    def copy_ms(self):
        return None  # the speed of memory is no limit here

    def measure_round(self, block, peers, turn):
        if self.shape != "none" and turn not in self.wires and any(cell.bytes >= WIRE_BYTES for cell in block.cells):
            self.wires[turn] = self.machine.wire_bits()
        return super().measure_round(block, peers, turn)

    def keep(self, peers, block_cells, ratios):
        return measure.keep_each_peer(peers, block_cells, ratios)


def settings_of(peers, shape):
    """Returns the settings of the chosen peers; with shaped links, also the flat plan of this library."""
    return [side for side in [*SETTINGS, BARE] if side.peer in peers] + ([FLAT] if shape != "none" else [])


def measure_cpu(measurer, peers, layout, rounds, late_ms):
    """Returns the CPU times, in us, of an allreduce of 64 MiB (late_ms 0), or of waiting for a rank that is late, as
    {side name: [of each round]}."""
    plain = [sides.PRIVATE] + [side for side in SETTINGS if side.peer in peers and "tuned" not in side.setting]
    found = {}
    for turn in range(rounds):
        for side in plain[turn % len(plain):] + plain[:turn % len(plain)]:
            if not late_ms and (side.crowded(ranks_of(layout)) or side.setting == "sync"):
                continue  # takes minutes, or does not end
            cpu = (measurer.measure_late(side, ranks_of(layout), late_ms) if late_ms else
                   measurer.measure_cpu(side, ranks_of(layout), ["allreduce", "--bytes", str(CPU_BYTES), "--time-ms", "0",
                                                                 "--json"]))
            if cpu is not None:
                found.setdefault(side.name, []).append(cpu)
    return found


def list_blocks(collectives, sizes, layout):
    wanted = cells.list_cells(collectives, [cells.parse_bytes(word) for word in sizes.split(",")], [ranks_of(layout)], ["loop"])
    return wanted, cells.list_blocks(wanted)
